"""Rounds of evictions end: nobody wins back for ever what was taken from him."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.model.nouns import Workload
from shared.core.preemption.victims.choose import NoEviction
from tests.support import placing
from tests.support.evicting import Scene, waiting

ROUNDS_MAX = 60
seeds = st.integers(0, 2**40)


@settings(max_examples=150, deadline=None)
@given(seeds, st.booleans())
def test_rounds_of_evictions_end_and_no_two_evict_each_other_twice(seed: int, fill: bool) -> None:
    """All come back and try again, at once and without any cooldown, until nobody can.

    They try in quota's order, the higher priority first: were a lower one of the same queue let
    in before it, it would be evicted again, and one cohort in ten thousand would never rest.
    Whatever debts there are, they stand still meanwhile.
    """
    draw = Random(seed)
    scene = a_cohort(draw)
    for name in ("a", "b", "c", "d", "org"):
        scene.tree.set_debt(name, draw.choice((0, 0, draw.randint(-2_000_000, 2_000_000))))
    queues = ("a", "b", "c", "d")
    works = [a_work(draw, f"w{at:02}", draw.choice(queues)) for at in range(draw.randint(3, 12))]
    pending = dict.fromkeys(work.id for work in works)
    by_id = {work.id: work for work in works}
    evicted: list[tuple[str, str]] = []

    for _ in range(ROUNDS_MAX):
        before = len(evicted)
        for name in sorted(pending, key=lambda each: -by_id[each].priority):
            placed = scene.place(by_id[name]) if fill or not evicted else None
            if placed is None:
                plan = scene.choose(by_id[name])
                if isinstance(plan, NoEviction):
                    continue
                for victim in plan.victims:
                    evicted.append((name, victim.workload_id))
                    scene.leave(victim.workload_id)
                    pending[victim.workload_id] = None
                assert scene.place(by_id[name]) is not None
            del pending[name]
        if len(evicted) == before:
            break
    else:
        raise AssertionError(evicted[-20:])
    assert all(
        evicted.count((one, other)) < 2 or not evicted.count((other, one))
        for one, other in evicted
    )


def a_cohort(draw: Random) -> Scene:
    scene = Scene(*(placing.node(f"n{at}", gpus=4) for at in range(draw.randint(1, 2))))
    scene.cohort("org", parent="all")
    total = 4 * len(scene.cluster.nodes)
    for name in ("a", "b", "c", "d"):
        nominal = draw.randint(0, total // 3)
        scene.queue(
            name,
            parent=draw.choice(("all", "all", "org")),
            nominal=nominal,
            weight=draw.choice((1, 2, 3)),
        )
    return scene


def a_work(draw: Random, name: str, queue: str) -> Workload:
    gpus = draw.choice((1, 1, 1, 2, 3, 4))
    return waiting(name, gpus, queue=queue, priority=draw.choice((0, 0, 1, 2)), team=queue)
