"""I18: forged histories in which work is placed on devices that are out of service."""

from __future__ import annotations

from typing import Any

import pytest

from operations.check.device_health import CHANGED, LEARNED, check_device_health
from operations.check.fields import Fields
from operations.check.log import NEEDED
from tests.unit.operations.world import World, fact, placement, pod, share

NAME = "w" + "o" * 26
ROWS: dict[str, Any] = {}
HERE = placement(pod(0, share(index=3)))


def step(world: World, after: str, gpu: int = 3, **more: Any) -> None:
    changed = {"node": "node-1", "gpu": gpu, "before": "healthy", "after": after, "rule": "r"}
    world.tell("placement", "workload.facts.v1", "device-health.changed", {**changed, **more})


def found(world: World) -> list[str]:
    placed = {**fact(NAME, 2, "placed"), "placement": HERE}
    world.tell("placement", "workload.facts.v1", "workload.placed", placed)
    result = check_device_health(world.evidence(ROWS))
    assert result.checked == 1
    return [one.detail for one in result.violations]


@pytest.mark.parametrize("state", ["draining", "quarantined", "probation", "lost", "failed"])
def test_work_on_a_device_that_is_out_is_found(state):
    world = World()
    step(world, state)

    assert found(world) == [f"is given node-1/gpu3, which is {state}"]


def test_a_device_that_is_back_or_only_suspect_takes_work():
    world = World()
    step(world, "quarantined")
    step(world, "suspect")

    assert found(world) == []


def test_what_was_only_told_and_other_devices_are_no_violation():
    world = World()
    step(world, "draining", done=False)
    step(world, "draining", gpu=4)

    assert found(world) == []


def told(world: World, name: str, state: str, **more: Any) -> None:
    world.tell("placement", "workload.facts.v1", name, {**fact(NAME, 3, state), **more})


def stays(world: World) -> list[str]:
    return [one.detail for one in check_device_health(world.evidence(ROWS)).violations]


def test_work_that_stays_on_a_device_when_it_is_quarantined_is_found():
    world = World()
    assert found(world) == []
    step(world, "draining")
    told(world, "workload.evicted", "evicting")
    assert stays(world) == []
    step(world, "quarantined")

    assert stays(world) == ["stays on node-1/gpu3, which is quarantined"]


@pytest.mark.parametrize("state", ["queued", "held", "succeeded", "failed", "cancelled"])
def test_work_that_has_left_its_device_is_no_violation(state):
    world = World()
    found(world)
    told(world, "workload.requeued", state)
    step(world, "quarantined")

    assert stays(world) == []


def test_what_a_kubelet_chose_counts_and_not_what_was_placed():
    world = World()
    found(world)
    there = placement(pod(0, share(index=5)))
    world.tell(
        "placement",
        "workload.facts.v1",
        "node-devices.learned",
        {"node": "node-1", "workloads": [{"workload_id": NAME, "placement": there}]},
    )
    step(world, "quarantined")
    step(world, "quarantined", gpu=5)

    assert stays(world) == ["stays on node-1/gpu5, which is quarantined"]


def test_what_is_looked_at_is_read_of_the_log():
    """The reader drops all fields that no check names: a forged record would not show that."""
    assert CHANGED in NEEDED
    assert LEARNED in NEEDED
    assert {"node", "gpu", "after", "done", "workloads", "placement"} <= set(
        Fields.__annotations__
    )
