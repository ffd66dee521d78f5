"""I18: forged histories in which work is placed on devices that are out of service."""

from __future__ import annotations

from typing import Any

import pytest

from operations.check.device_health import CHANGED, check_device_health
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


def test_what_is_looked_at_is_read_of_the_log():
    """The reader drops all fields that no check names: a forged record would not show that."""
    assert CHANGED in NEEDED
    assert {"node", "gpu", "after", "done"} <= set(Fields.__annotations__)
