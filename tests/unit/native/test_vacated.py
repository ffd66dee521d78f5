"""A pod that a controller makes in place of an evicted one keeps its place in the queue."""

from shared.core.model.lifecycle import State
from shared.core.model.value import replace
from shared.events import workloads
from tests.support.native_world import GONE_MS, START_MS, a_pod, changed, gone, listed

OLD = a_pod("old", owner_kind="ReplicaSet", owner_uid="r1")
NEW = replace(OLD, name="new", uid="u-new")


def evict(world, work):
    world.fact(
        workloads.WorkloadEvicted(
            workload_id=work, team="vision", queue="q", version=2, state=State.EVICTING,
            attempt=1, priority=1,
        )
    )  # fmt: skip


async def test_the_pod_that_follows_an_evicted_one_has_its_place(world):
    (first,) = world.hear(listed(OLD))
    world.at_ms += 5_000
    evict(world, first.workload_id)
    world.hear(changed(replace(OLD, deleting=True)))

    (follows,) = world.hear(changed(NEW))
    (another,) = world.hear(changed(replace(NEW, name="third", uid="u3")))

    assert START_MS == first.submitted_at_ms == follows.submitted_at_ms
    assert world.at_ms == another.submitted_at_ms, "a place is taken once"
    assert first.workload_id != follows.workload_id


async def test_the_time_of_a_submission_outlives_a_restart(world):
    (first,) = world.hear(listed(OLD))
    world.make()
    await world.load()
    world.at_ms += 5_000
    world.hear(listed(OLD))
    evict(world, first.workload_id)

    (follows,) = world.hear(changed(NEW))
    assert START_MS == follows.submitted_at_ms


async def test_a_place_is_kept_for_a_while_and_for_pods_of_the_same_owner(world):
    (first,) = world.hear(listed(OLD))
    evict(world, first.workload_id)
    world.hear(gone(OLD))
    world.at_ms += 1_000

    (other,) = world.hear(changed(replace(NEW, owner_uid="r2")))
    assert world.at_ms == other.submitted_at_ms
    world.at_ms += GONE_MS
    (late,) = world.hear(changed(replace(NEW, name="late", uid="u9")))
    assert world.at_ms == late.submitted_at_ms
