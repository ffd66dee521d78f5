"""I6 and the part of I15 that is about evictions: each violation is found, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from operations.check.preemption import check_liveness, check_preemption
from tests.unit.operations.world import HALVES, ON_GPU_0, World, fact

VICTIM, PREEMPTOR = "w" + "v" * 26, "w" + "p" * 26


def queued(world: World, name: str, queue: str, **spec: Any) -> None:
    workload = {"id": name, "queue": queue, "priority": spec.pop("priority", 0), "spec": spec}
    world.tell("admission", "queue.facts.v1", "workload.queued", {"workload": workload})


def told(world: World, kind: str, payload: dict) -> None:
    world.tell("placement", "workload.facts.v1", kind, payload)


def a_plan(**changed: Any) -> dict:
    victims = [{"workload_id": VICTIM, "attempt": 1}]
    plan = {"plan_id": "p", "workload_id": PREEMPTOR, "rule": "reclaim", "victims": victims}
    return {**plan, "placement": ON_GPU_0, **changed}


def evicted(attempt: int = 1, plan_id: str = "p") -> dict:
    preemption = {"plan_id": plan_id, "workload_id": PREEMPTOR}
    more = {"reason": "preempted", "preemption": preemption, "queue": "borrower"}
    return {**fact(VICTIM, 4, "evicting", attempt), **more}


def placed(placement: dict = ON_GPU_0) -> dict:
    return {**fact(PREEMPTOR, 2, "placed"), "queue": "owner", "placement": placement}


def found(world: World, **rows: Any) -> list[str]:
    names = ("reservation", "evicting", "outbox", "watermark", "placement_workload")
    empty: dict[str, Any] = {name: [] for name in names}
    evidence = world.evidence(empty | rows)
    results = (check_preemption(evidence), check_liveness(evidence))
    return [one.detail for result in results for one in result.violations]


def a_world(*, queue: str = "borrower", **victim: Any) -> World:
    world = World()
    queued(world, VICTIM, queue, **victim)
    queued(world, PREEMPTOR, "owner", priority=5)
    return world


def test_a_plan_that_is_carried_out_is_all_right():
    world = a_world()
    told(world, "eviction-plan.accepted", a_plan())
    told(world, "workload.evicted", evicted())
    told(world, "workload.placed", placed())

    assert [] == found(world)


def test_a_refund_is_an_end_too_and_so_far_a_reservation_that_stands():
    world = a_world()
    told(world, "eviction-plan.accepted", a_plan())
    row = {"workload_id": PREEMPTOR, "plan_id": "p", "expires_at_ms": 9, "now_ms": 1}

    assert [] == found(world, reservation=[row | {"state": "queued"}])
    assert ["of plan p is neither placed nor refunded"] == found(world)
    told(world, "reservation.expired", {"plan_id": "p", "workload_id": PREEMPTOR})
    assert [] == found(world)


@pytest.mark.parametrize(
    ("victim", "plan", "text"),
    [
        ({"priority_class": "inference-production"}, {}, "protected class"),
        ({"priority_class": "system"}, {}, "protected class"),
        ({"preemptible": False}, {}, "may not be preempted"),
        ({"queue": "owner", "priority": 5}, {"rule": "priority"}, "in its own queue"),
        ({"priority": 1}, {"rule": "priority"}, "another queue"),
        ({}, {"victims": [{"workload_id": PREEMPTOR, "attempt": 1}]}, "evicted for itself"),
    ],
)
def test_a_plan_against_the_rules_is_found(victim: dict, plan: dict, text: str):
    world = a_world(**victim)
    document = {"name": "system", "protected": True}
    world.tell("gateway", "organisation.facts.v1", "priority-class.applied", document)
    told(world, "eviction-plan.accepted", a_plan(**plan))
    told(world, "workload.placed", placed())

    assert any(text in detail for detail in found(world)), found(world)


@pytest.mark.parametrize(
    ("queued_as", "now", "faults"),
    [
        ("training-batch", "inference-production", 1),
        ("inference-production", "training-batch", 0),
    ],
)
def test_the_class_at_the_moment_of_the_plan_counts(queued_as: str, now: str, faults: int):
    world = a_world(priority_class=queued_as)
    changed = {**fact(VICTIM, 3, "running"), "priority_class": now, "priority": 1}
    told(world, "workload.reprioritised", changed)
    told(world, "eviction-plan.accepted", a_plan())
    told(world, "workload.placed", placed())

    assert faults == sum("protected class" in detail for detail in found(world))


def test_a_class_that_was_protected_only_later_is_no_violation():
    world = a_world(priority_class="system")
    told(world, "eviction-plan.accepted", a_plan())
    told(world, "workload.placed", placed())
    document = {"name": "system", "protected": True}
    world.tell("gateway", "organisation.facts.v1", "priority-class.applied", document)

    assert [] == found(world)


@pytest.mark.parametrize("victim", [evicted(attempt=2), evicted(plan_id="other")])
def test_who_is_preempted_by_no_plan_is_found(victim: dict):
    world = a_world()
    told(world, "eviction-plan.accepted", a_plan())
    told(world, "workload.evicted", victim)
    told(world, "workload.placed", placed())

    assert 1 == len(found(world))
    assert "by no accepted plan" in found(world)[0]


def test_a_preemptor_that_is_placed_elsewhere_than_promised_is_found():
    world = a_world()
    told(world, "eviction-plan.accepted", a_plan())
    told(world, "workload.placed", placed(HALVES))

    assert ["is placed elsewhere than its reservation said"] == found(world)


def test_one_workload_has_one_plan_at_a_time():
    world = a_world()
    told(world, "eviction-plan.accepted", a_plan())
    told(world, "eviction-plan.accepted", a_plan())

    assert {"is accepted twice", "has the plans p, p"} <= set(found(world))


def test_what_lasts_too_long_is_found():
    row = {"workload_id": PREEMPTOR, "plan_id": "p", "expires_at_ms": 0, "state": "running"}
    stuck = {"id": VICTIM, "changed_at_ms": 0, "grace_seconds": 30}
    details = found(
        a_world(), reservation=[row | {"now_ms": 31_000}], evicting=[stuck | {"now_ms": 61_000}]
    )

    assert any("31000 ms past its end" in one for one in details)
    assert "is running and has a reservation" in details
    assert "is evicting 31000 ms longer than its grace" in details
    assert any("which was never accepted" in one for one in details)


def moved(to: dict = HALVES) -> dict:
    mover = {"workload_id": VICTIM, "attempt": 1, "rule": "move", "moves_to": to}
    return a_plan(rule="move", victims=[mover])


def test_who_moves_keeps_its_quota_and_starts_where_it_was_promised():
    world = a_world(queue="owner", priority=9)
    told(world, "eviction-plan.accepted", moved())
    told(world, "workload.evicted", {**evicted(), "reason": "moved"})
    stands = {"workload_id": VICTIM, "plan_id": f"p/{VICTIM}", "expires_at_ms": 9, "now_ms": 1}
    told(world, "workload.placed", placed())

    assert [] == found(world, reservation=[stands | {"state": "evicting"}])
    assert [f"of plan p/{VICTIM} is neither placed nor refunded"] == found(world)
    again = {**fact(VICTIM, 6, "placed", 2), "queue": "owner", "placement": HALVES}
    told(world, "workload.placed", again)
    assert [] == found(world)


def test_a_mover_that_is_placed_elsewhere_is_found():
    world = a_world()
    told(world, "eviction-plan.accepted", moved())
    told(world, "workload.placed", placed())
    told(world, "workload.placed", {**fact(VICTIM, 6, "placed", 2), "placement": ON_GPU_0})

    assert ["is placed elsewhere than its reservation said"] == found(world)


def test_who_is_moved_by_no_plan_is_found():
    world = a_world()
    told(world, "workload.evicted", {**evicted(), "reason": "moved"})

    assert 1 == len(found(world))
