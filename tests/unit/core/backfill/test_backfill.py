"""Promised starts: the earliest time, the concrete nodes, and who may use them before."""

from __future__ import annotations

from dataclasses import replace as replaced

import pytest

from shared.core.backfill import estimates as lengths
from shared.core.backfill.backfill import Backfill
from shared.core.backfill.estimates import SHARES_MAX, UNKNOWN_SECONDS, Estimates
from shared.core.backfill.promise import LATE_MS, Waiter
from shared.core.backfill.timeline import NEVER, Timeline, expected_end
from shared.core.backfill.whole_nodes import need_of, pods_when_empty
from shared.core.model.demand import gang_of
from shared.core.model.nouns import (
    GpuRequest,
    GpuShare,
    Level,
    Placement,
    TopologyRequest,
    WorkloadKind,
)
from shared.core.model.units import UNBOUNDED
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster
from tests.support.placement_driver import FLAVOR, a_node, a_workload

HOUR = 3_600_000


class World:
    """Four nodes of two racks, on which work lies for so many hours (None: for ever)."""

    def __init__(self, hours=(1, 2, 3, 4)):
        self.cluster, self.timeline = Cluster(), Timeline()
        self.backfill = Backfill(self.cluster, self.timeline)
        for at, hour in enumerate(hours, 1):
            self.cluster.put_node(a_node(f"n{at}", rack=f"r{(at - 1) // 2}"))
            if hour != 0:
                self.run(f"on-n{at}", hour, 8)

    def run(self, name, hours, gpus, pins=()):
        """Place work that lasts so long; its placement, or None."""
        workload = a_workload(name, gpus=gpus, pod_count=1)
        found = self.ask(workload, pins)
        if isinstance(found, Placement):
            nodes = {pod.node for pod in found.pods}
            self.timeline.begin(name, nodes, (0, hours and round(hours * HOUR)))
            return found
        return None

    def ask(self, workload, pins=()):
        request = PlacementRequest(
            workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED}, pins=pins
        )
        return place(self.cluster, request)

    def end(self, name, node):
        """What lies on `node` alone is over."""
        self.timeline.finish(name, [node])
        state = self.cluster.nodes[node]
        shares = tuple(share_of_all(state))
        self.cluster.free(state, shares, 1_000, 1_024, media=False)

    def plan(self, *waiters, now_ms=0):
        return self.backfill.plan(waiters, now_ms)


def share_of_all(state):
    """Every GPU of a node that one pod holds."""
    return (GpuShare(index=at, mask=255, milli=1000, memory_mib=0) for at in state.uses)


def a_waiter(name="gang", pods=2, hours=1, **more):
    workload = a_workload(name, gpus=8, pod_count=pods, **more)
    length_ms = None if hours is None else hours * HOUR
    return Waiter(workload_id=name, gang=gang_of(workload), flavors=(FLAVOR,), length_ms=length_ms)


def test_the_start_is_when_enough_nodes_are_free_and_those_are_pinned():
    world = World()

    assert [] == world.plan(a_waiter())

    promise = world.backfill.promises["gang"]
    assert (2 * HOUR, 2 * HOUR, 3 * HOUR) == (
        promise.start_ms, promise.promised_ms, promise.until_ms
    )  # fmt: skip
    by_time = {f"n{at}": world.timeline.free_at(f"n{at}", 0) for at in range(1, 5)}
    assert [HOUR, 2 * HOUR] == [by_time[node] for node in promise.nodes]
    assert {promise.number} == {world.cluster.nodes[node].pin for node in promise.nodes}


def test_nodes_that_are_free_now_stay_open_if_later_ones_do():
    world = World((0, 1, 1, 4))

    world.plan(a_waiter(pods=2))

    assert "n1" not in world.backfill.promises["gang"].nodes
    assert world.run("long", 100, 8) is not None


def test_only_who_ends_in_time_may_use_pinned_nodes():
    world = World((0, 2, 4, 4))
    world.plan(a_waiter(pods=2))
    promise = world.backfill.promises["gang"]
    free = next(name for name, one in world.cluster.nodes.items() if one.free_count == 8)
    assert free in promise.nodes

    assert () == world.backfill.pins_for("late", promise.start_ms + 1)
    assert world.run("late", 3, 1) is None
    assert (promise.number,) == world.backfill.pins_for("early", promise.start_ms)
    assert world.run("early", 1, 1, pins=(promise.number,)) is not None
    assert (promise.number,) == world.backfill.pins_for("gang", NEVER)


def test_who_may_use_a_promised_node_takes_it_only_where_it_fits_best():
    world = World(hours=(0, 0, 0, 0))
    tight = world.run("part", 1, 6).pods[0].node
    world.cluster.pin(min(world.cluster.nodes.keys() - {tight}), 1)

    found = world.run("small", 1, 2, pins=(1,))

    assert [tight] == [pod.node for pod in found.pods]


def test_a_required_level_is_kept():
    world = World((1, 4, 2, 3))
    topology = TopologyRequest(required=Level.RACK)

    world.plan(a_waiter(topology=topology))

    promise = world.backfill.promises["gang"]
    racks = {world.cluster.nodes[name].domain for name in promise.nodes}
    assert 1 == len(racks)
    assert promise.start_ms in {3 * HOUR, 4 * HOUR}


def test_the_second_promise_takes_the_first_for_granted():
    world = World()

    world.plan(a_waiter("first", pods=2, hours=1), a_waiter("second", pods=4))

    first, second = (world.backfill.promises[name] for name in ("first", "second"))
    assert (2 * HOUR, 4 * HOUR) == (first.start_ms, second.start_ms)
    assert {first.number} == {world.cluster.nodes[node].pin for node in first.nodes}


def test_promises_beyond_the_second_leave_half_of_the_nodes_open():
    world = World(hours=(1, 1, 1, 1, 1, 1))
    narrow = [a_waiter(name, pods=1) for name in "abc"]

    world.backfill.plan([a_waiter("wide", pods=2), *narrow[:2]], 0)
    assert {"wide", "a"} == world.backfill.promises.keys()
    world.backfill.plan(narrow, 0)
    assert set("abc") == world.backfill.promises.keys()

    world.cluster.remove_node("n6")
    world.backfill.plan(narrow, 0)
    assert set("abc") == world.backfill.promises.keys(), "who has a promise keeps it"


def test_each_flavor_has_three_promises_of_its_own():
    world = World(hours=(1,) * 8)
    for at in range(2):
        world.cluster.put_node(a_node(f"m{at}", flavor="other"))
        world.timeline.begin(f"on-m{at}", [f"m{at}"], (0, HOUR))
    elsewhere = replaced(a_waiter("elsewhere", pods=2), flavors=("other",))
    either = replaced(a_waiter("either", pods=1), flavors=(FLAVOR, "other"))

    world.plan(*(a_waiter(name, pods=1) for name in "abcd"), elsewhere, either)

    promises = world.backfill.promises
    assert {*"abc", "elsewhere", "either"} == promises.keys()
    assert {1, 2, 3, 4, 5} == {one.number for one in promises.values()}
    assert ("other", 2 * HOUR) == (promises["either"].flavor, promises["either"].start_ms)
    assert not set(promises["a"].nodes) & set(promises["elsewhere"].nodes)


def test_what_never_ends_is_never_waited_for():
    world = World((1, None, None, None))

    world.plan(a_waiter())

    assert {} == world.backfill.promises


def test_a_promise_is_not_moved_back_and_is_earlier_when_work_ends_early():
    world = World()
    world.plan(a_waiter())
    (last,) = (n for n in world.backfill.promises["gang"].nodes
               if world.timeline.free_at(n, 0) == 2 * HOUR)  # fmt: skip
    world.end("on-n2", last)

    world.plan(a_waiter(), now_ms=HOUR // 2)

    promise = world.backfill.promises["gang"]
    assert (HOUR, 2 * HOUR, 0) == (promise.start_ms, promise.promised_ms, promise.missed)


def test_a_promise_that_cannot_be_kept_is_renewed_and_counted():
    world = World()
    world.plan(a_waiter())
    now_ms = 2 * HOUR + LATE_MS

    world.plan(a_waiter(), now_ms=now_ms)

    promise = world.backfill.promises["gang"]
    assert 1 == promise.missed
    assert promise.promised_ms > now_ms


def test_who_waits_no_more_frees_his_nodes():
    world = World()
    world.plan(a_waiter())
    nodes = set(world.backfill.promises["gang"].nodes)

    assert nodes == set(world.backfill.drop("gang"))
    assert {0} == {one.pin for one in world.cluster.nodes.values()}


def test_a_restart_pins_the_same_nodes():
    world = World()
    world.plan(a_waiter())
    again = World()

    again.backfill.restore(list(world.backfill.promises.values()))

    assert {name: one.pin for name, one in world.cluster.nodes.items()} == {
        name: one.pin for name, one in again.cluster.nodes.items()
    }


@pytest.mark.parametrize(
    ("now_ms", "end_ms"), [(0, 10), (9, 10), (10, 20), (19, 20), (20, 40), (75, 80)]
)
def test_work_past_its_estimate_is_given_twice_as_long(now_ms, end_ms):
    assert end_ms == expected_end((0, 10), now_ms)


def test_the_users_word_goes_before_his_history_and_that_before_a_guess():
    estimates = Estimates()
    workload = a_workload(max_duration_seconds=50)
    silent = replace(workload, spec=replace(workload.spec, max_duration_seconds=None))
    said = replace(workload, spec=replace(workload.spec, expected_duration_seconds=30))

    assert UNKNOWN_SECONDS == estimates.seconds(silent)
    for seconds in (1_000, 10, 20):
        estimates.note(silent, seconds)

    assert (30, 50, 15) == tuple(map(estimates.seconds, (said, workload, silent)))


def test_a_service_that_nobody_may_stop_never_ends():
    workload = a_workload(preemptible=False)
    service = replace(workload, spec=replace(workload.spec, kind=WorkloadKind.INFERENCE))

    assert Estimates().seconds(service) is None


def test_what_is_likely_is_what_the_teams_work_took_of_what_was_said():
    estimates = Estimates()
    workload = a_workload(expected_duration_seconds=1_000)
    silent = replace(workload, spec=replace(workload.spec, expected_duration_seconds=None))
    assert (1_000, UNKNOWN_SECONDS) == tuple(map(estimates.likely_seconds, (workload, silent)))

    for seconds in (100, 250, 900):
        estimates.note(workload, seconds)

    assert 250 == estimates.likely_seconds(workload)
    assert estimates.seconds(silent) == estimates.likely_seconds(silent)
    for _ in range(SHARES_MAX):
        estimates.note(workload, 5_000)
    assert 2_000 == estimates.likely_seconds(workload), "never more than twice"


def test_ahead_of_being_tried_nodes_that_are_free_now_are_promised():
    world = World((0, 0, 3, 4))

    world.plan(a_waiter())
    assert {} == world.backfill.promises
    world.backfill.plan((a_waiter(),), 0, ahead=True)

    assert 0 == world.backfill.promises["gang"].start_ms


def test_an_earlier_start_for_one_does_not_break_what_another_was_promised():
    """The one would begin at 1:30 on a node of the only rack that the other can have."""
    world = World((2, None, 3, 4))
    rack = TopologyRequest(required=Level.RACK)
    waiters = a_waiter("one", pods=1, hours=10), a_waiter("rack", pods=2, topology=rack)
    world.plan(*waiters)
    before = dict(world.backfill.promises)
    assert [2 * HOUR, 4 * HOUR] == [before[name].start_ms for name in ("one", "rack")]
    world.timeline.begin("on-n3", ["n3"], (0, 3 * HOUR // 2))

    assert [] == world.plan(*waiters, now_ms=HOUR)
    assert before == world.backfill.promises

    world.backfill.drop("rack")
    world.plan(waiters[0], now_ms=HOUR)
    assert 3 * HOUR // 2 == world.backfill.promises["one"].start_ms


def test_a_promise_to_what_never_ends_keeps_its_word_and_its_end():
    world = World()
    world.plan(a_waiter(hours=None))
    world.timeline.begin("on-n2", ["n2"], (0, HOUR))

    world.plan(a_waiter(hours=None))

    promise = world.backfill.promises["gang"]
    assert (HOUR, 2 * HOUR, NEVER) == (promise.start_ms, promise.promised_ms, promise.until_ms)


@pytest.mark.parametrize("gpu", [GpuRequest(), GpuRequest(milli=500, memory_mib=1_000)])
def test_who_needs_no_whole_gpu_is_promised_nothing(gpu):
    world = World()
    gang = gang_of(a_workload("small", gpu=gpu))

    freer = world.plan(Waiter(workload_id="small", gang=gang, flavors=(FLAVOR,), length_ms=HOUR))

    assert [] == freer
    assert {} == world.backfill.promises


@pytest.mark.parametrize(
    ("cpu_milli", "memory_mib", "pods"),
    [(0, 0, 4), (20_000, 0, 3), (0, 1 << 18, 2), (20_000, 1 << 18, 2), (65_000, 0, 0)],
)
def test_an_empty_node_holds_as_many_pods_as_what_they_ask_for_allows(cpu_milli, memory_mib, pods):
    """Of 8 GPUs, 64 CPU and 512 GiB; a pod asks for 2 GPUs."""
    asked = a_workload(gpus=2, cpu_milli=cpu_milli, memory_mib=memory_mib)
    need = need_of(gang_of(asked))
    assert need is not None

    assert pods == pods_when_empty(a_node(), 8, need)


def test_the_history_that_was_added_to_last_is_kept_longest(monkeypatch):
    monkeypatch.setattr(lengths, "HISTORIES_MAX", 2)
    estimates = Estimates()
    workload = a_workload()
    first, second, third = (
        replace(workload, spec=replace(workload.spec, name=name)) for name in "abc"
    )

    for one in (first, second, first, third):
        estimates.note(one, 100)

    assert [100, UNKNOWN_SECONDS, 100] == [
        estimates.seconds(one) for one in (first, second, third)
    ]
