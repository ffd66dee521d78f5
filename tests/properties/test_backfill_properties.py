"""Promises of the placement service over random work: kept while users are right, survived if not.

The service's own handler in virtual time (tests/benchmarks/baselines/muster_queue.py).
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from shared.core.backfill.promise import LATE_MS
from shared.core.backfill.spare_room import WIDE
from tests.benchmarks.baselines.muster_queue import BEGIN_MS, MusterQueue
from tests.benchmarks.queueing_world import Job, World, run

NODES = 4
ARRIVALS = st.integers(0, 3_000)
SECONDS = st.integers(1, 5_000)
SHAPES = st.sampled_from([(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 3), (8, 4), (4, 3)])


@st.composite
def worlds(draw, over=1):
    """Up to 40 jobs on four nodes; users expect up to `over` times too much, or too little."""
    rows = draw(st.lists(st.tuples(ARRIVALS, SECONDS, SHAPES), min_size=5, max_size=40))
    factors = st.sampled_from([1.0] if over == 1 else [1.0 / over, 1.0, float(over)])
    jobs = [
        Job(number=number, arrives=arrives, seconds=seconds, expected=seconds * draw(factors),
            gpus=gpus, hosts=hosts)
        for number, (arrives, seconds, (gpus, hosts)) in enumerate(sorted(rows))
    ]  # fmt: skip
    return World(nodes=NODES, horizon=10_000, jobs=jobs)


class Watched(MusterQueue):
    """Remembers the first promise to each, all that were renewed, and who started when."""

    def __init__(self, world):
        self.promised, self.renewed, self.started = {}, set(), {}
        super().__init__(world)

    @override
    def step(self, now, ended, arrived):
        started = super().step(now, ended, arrived)
        for job in started:
            self.started[f"w{job.number:06d}"] = BEGIN_MS + round(now * 1000)
        for one in self._handler.state.promises.standing:
            before = self.promised.setdefault(one.workload_id, one.promised_ms)
            if one.missed or one.promised_ms > before:
                self.renewed.add(one.workload_id)
        return started


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(worlds())
def test_a_promise_is_kept_and_never_moved_back_while_users_are_right(world):
    scheduler = Watched(world)

    run(world, scheduler)

    assert set() == scheduler.renewed
    for name, promised_ms in scheduler.promised.items():
        assert scheduler.started[name] <= promised_ms + LATE_MS, name


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(worlds(over=4))
def test_everybody_starts_also_when_users_are_wrong(world):
    scheduler = Watched(world)

    run(world, scheduler)

    assert len(world.jobs) == len(scheduler.started)
    pins = {state.pin for state in scheduler._handler.state.cluster.nodes.values()}
    assert pins <= {0, WIDE}, "the wide room stays, no promise does"


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(worlds(over=2))
def test_the_same_work_is_decided_alike(world):
    first, second = Watched(world), Watched(world)
    run(world, first)
    run(world, second)

    assert (first.started, first.promised) == (second.started, second.promised)
