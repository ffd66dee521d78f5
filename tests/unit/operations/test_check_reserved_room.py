"""I6 of reserved room: forged histories in which nobody looked at it, and sound ones."""

from __future__ import annotations

from typing import Any

import pytest

from operations.check.preemption import check_preemption
from operations.check.reserved_room import check_reserved_room
from tests.unit.operations.world import World, fact, placement, pod, share

PREEMPTOR, VICTIM, OTHER = "w" + "p" * 26, "w" + "v" * 26, "w" + "o" * 26
ROWS: dict[str, Any] = {
    name: [] for name in ("reservation", "evicting", "outbox", "watermark", "placement_workload")
}
WHOLE = placement(pod(0, share(index=0)))
ELSEWHERE = placement(pod(0, share(index=1)))
LOW, HIGH = (placement(pod(0, share(index=0, mask=mask, milli=500))) for mask in (0x0F, 0xF0))
SHARED = placement(pod(0, share(index=0, mask=0, milli=500)))
CPU_ONLY = placement(pod(0))


def a_history(kept: dict[str, Any]) -> World:
    """A plan is accepted, and keeps `kept` for its preemptor."""
    world = World()
    plan = {"plan_id": "p", "workload_id": PREEMPTOR, "rule": "reclaim", "victims": []}
    told(world, "eviction-plan.accepted", {**plan, "placement": kept})
    return world


def told(world: World, kind: str, payload: dict[str, Any]) -> None:
    world.tell("placement", "workload.facts.v1", kind, payload)


def placed(name: str, where: dict[str, Any]) -> dict[str, Any]:
    return {**fact(name, 2, "placed"), "placement": where}


def refund() -> dict[str, Any]:
    return {"plan_id": "p", "workload_id": PREEMPTOR, "reason": "preemptor-left"}


def found(world: World) -> list[str]:
    evidence = world.evidence(ROWS)
    results = (check_reserved_room(evidence), check_preemption(evidence))
    return [one.detail for result in results for one in result.violations]


@pytest.mark.parametrize(("kept", "given"), [(WHOLE, WHOLE), (LOW, LOW), (SHARED, WHOLE)])
def test_room_that_is_kept_and_given_to_another_is_found(
    kept: dict[str, Any], given: dict[str, Any]
):
    world = a_history(kept)
    told(world, "workload.placed", placed(OTHER, given))
    told(world, "reservation.expired", refund())

    assert [f"is given node-1/gpu0, kept for {PREEMPTOR}"] == found(world)


@pytest.mark.parametrize(
    ("kept", "given"), [(WHOLE, ELSEWHERE), (LOW, HIGH), (SHARED, SHARED), (WHOLE, CPU_ONLY)]
)
def test_what_is_beside_it_may_be_given(kept: dict[str, Any], given: dict[str, Any]):
    world = a_history(kept)
    told(world, "workload.placed", placed(OTHER, given))
    told(world, "workload.placed", placed(PREEMPTOR, kept))

    assert [] == found(world)


@pytest.mark.parametrize("end", ["placed", "refunded"])
def test_after_its_end_the_room_may_be_given_to_others(end: str):
    world = a_history(WHOLE)
    if end == "placed":
        told(world, "workload.placed", placed(PREEMPTOR, WHOLE))
    else:
        told(world, "reservation.expired", refund())
    told(world, "workload.placed", placed(OTHER, WHOLE))

    assert [] == found(world)


def test_a_preemptor_that_was_tried_beside_its_reservation_is_found():
    """So it looks if placement's trials do not ask whether room is kept for who is tried."""
    world = a_history(WHOLE)
    told(world, "workload.placed", placed(PREEMPTOR, ELSEWHERE))
    told(world, "reservation.expired", refund())

    assert ["is placed elsewhere than its reservation said"] == found(world)
