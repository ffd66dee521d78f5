"""I6 of idle work: a release without evidence is found, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from operations.check.idle import check_idle
from tests.unit.operations.world import START_MS, World, fact

NAME = "w" + "i" * 26


def a_world(
    *, idle: dict[str, int] | None = None, attempt: int = 1, now: str = "", **spec: Any
) -> World:
    """A workload that ran from 100, was noticed from 200 to 900, and was released."""
    world = World()
    workload = {"id": NAME, "queue": "q", "priority": 0, "spec": spec}
    world.tell("admission", "queue.facts.v1", "workload.queued", {"workload": workload})
    running = {**fact(NAME, 3, "running"), "running_at_ms": 100}
    world.tell("placement", "workload.facts.v1", "workload.running", running)
    noticed = {"workload_id": NAME, "attempt": 1, "since_ms": 200, "until_ms": 900}
    world.tell("monitoring", "idleness.facts.v1", "idleness.noticed", noticed)
    early = {**noticed, "since_ms": 50}
    world.tell("monitoring", "idleness.facts.v1", "idleness.noticed", early)
    evidence = {"since_ms": 200, "until_ms": 900} if idle is None else idle
    evicted = {**fact(NAME, 4, "evicting", attempt), "reason": "idle", "idle": evidence}
    if now:
        evicted["priority_class"] = now
    world.tell("placement", "workload.facts.v1", "workload.evicted", evicted)
    return world


def found(world: World) -> list[str]:
    return [one.detail for one in check_idle(world.evidence({})).violations]


def test_a_release_on_evidence_is_all_right():
    assert [] == found(a_world())


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"idle": {"since_ms": 200, "until_ms": 901}}, "never noticed"),
        ({"idle": {}}, "never noticed"),
        ({"attempt": 2}, "never noticed"),
        ({"idle": {"since_ms": 50, "until_ms": 900}}, "before it ran"),
        ({"priority_class": "inference-production"}, "protected class"),
    ],
)
def test_a_release_without_is_found(changed: dict[str, Any], text: str):
    assert any(text in detail for detail in found(a_world(**changed))), found(a_world(**changed))


@pytest.mark.parametrize(
    ("queued_as", "now", "faults"),
    [
        ("training-batch", "inference-production", 1),
        ("inference-production", "training-batch", 0),
        ("inference-production", "", 1),
    ],
)
def test_the_class_at_the_moment_of_the_release_counts(queued_as: str, now: str, faults: int):
    world = a_world(now=now, priority_class=queued_as)

    assert faults == sum("protected class" in detail for detail in found(world))


@pytest.mark.parametrize(("since_ms", "faults"), [(START_MS + 5, 0), (START_MS - 5, 1)])
def test_an_old_fact_that_does_not_say_when_it_ran_says_it_by_its_time(since_ms: int, faults: int):
    world = World()
    world.tell("placement", "workload.facts.v1", "workload.running", fact(NAME, 3, "running"))
    seen = {"since_ms": since_ms, "until_ms": since_ms + 9}
    noticed = {"workload_id": NAME, "attempt": 1, **seen}
    world.tell("monitoring", "idleness.facts.v1", "idleness.noticed", noticed)
    evicted = {**fact(NAME, 4, "evicting"), "reason": "idle", "idle": seen}
    world.tell("placement", "workload.facts.v1", "workload.evicted", evicted)

    assert faults == sum("before it ran" in detail for detail in found(world))
