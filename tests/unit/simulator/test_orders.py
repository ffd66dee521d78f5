"""A simulated machine changes the MIG mode of a GPU when it is told to, and may."""

from typing import Any

import pytest

from shared.core.health.events import HealthEventKind
from shared.core.model.nouns import Gpu, Node
from shared.events.nodes import CheckGpu, ReconfigureGpu
from shared.simulator.machine import Machine, Occupancy

NOW_MS = 1_000_000


def a_machine():
    gpus = tuple(Gpu(index=index, uuid=f"u{index}", memory_mib=80_000) for index in range(2))
    node = Node(name="n1", flavor="f", product="p", cpu_milli=1, memory_mib=1, gpus=gpus)
    return Machine(node, now_ms=NOW_MS - 1, seed=0)


def order(**more):
    fields: dict[str, Any] = {
        "node": "n1",
        "gpu": 1,
        "mig": True,
        "expires_at_ms": NOW_MS + 1,
        "epoch": 1,
    }
    return ReconfigureGpu(**(fields | more))


def test_an_idle_gpu_changes_its_mode_and_the_inventory_says_so():
    machine = a_machine()
    before = machine.generation

    assert machine.obey(order(uuid="u1"), NOW_MS)

    assert [gpu.mig for gpu in machine.inventory().gpus] == [False, True]
    assert machine.generation > before
    assert not machine.obey(order(), NOW_MS), "it is so already"


@pytest.mark.parametrize(
    "wrong", [{"gpu": 7}, {"mig": False}, {"uuid": "other"}, {"expires_at_ms": NOW_MS - 1}]
)
def test_what_is_late_or_meant_for_another_gpu_changes_nothing(wrong):
    machine = a_machine()

    assert not machine.obey(order(**wrong), NOW_MS)
    assert not any(gpu.mig for gpu in machine.inventory().gpus)


def test_a_gpu_in_use_keeps_its_mode():
    machine = a_machine()
    machine.occupy({1: Occupancy(500, 1_000, 500)})

    assert not machine.obey(order(), NOW_MS)


def a_check(**more):
    fields: dict[str, Any] = {"node": "n1", "gpu": 1, "expires_at_ms": NOW_MS + 1, "epoch": 1}
    return CheckGpu(**(fields | more))


def test_an_idle_gpu_passes_its_check():
    machine = a_machine()

    assert machine.check(a_check(uuid="u1"), NOW_MS)
    (event,) = machine.changes()
    assert (HealthEventKind.CHECK_PASSED, 1, "u1") == (event.kind, event.gpu, event.uuid)


@pytest.mark.parametrize("wrong", [{"gpu": 7}, {"uuid": "other"}, {"expires_at_ms": NOW_MS - 1}])
def test_a_check_that_is_late_or_of_another_gpu_tells_nothing(wrong):
    assert not a_machine().check(a_check(**wrong), NOW_MS)


def test_a_gpu_that_is_held_or_ill_is_not_checked():
    held, ill = a_machine(), a_machine()
    held.occupy({1: Occupancy(500, 1_000, 500)})
    ill.set_gpu(1, NOW_MS, healthy=False, reason="x")

    assert not held.check(a_check(), NOW_MS)
    assert not ill.check(a_check(), NOW_MS)
