"""The faults of chaos: what the ladder of health makes of each, and what a machine is asked."""

from __future__ import annotations

import pytest

from operations.chaos.faults import ON_NODES, SIGNS, Fault, Strike, calls_of, signs_of
from shared.core.health.device import DeviceHealth, Sign
from shared.core.health.ladder import Remedy, noted, verdict_of


def remedies(fault: Fault, **more: int) -> list[Remedy]:
    """What the ladder asks for after each sign of a fault, on a healthy device."""
    known, found = DeviceHealth(node="n1", gpu=0, uuid="u"), []
    for at_ms, told in enumerate(signs_of(Strike(fault=fault, node="n1", **more))):
        sign = Sign(kind=told.kind, code=told.code, at_ms=at_ms)
        found.append(verdict_of(known, sign).remedy)
        known = noted(known, sign)
    return found


@pytest.mark.parametrize(
    ("fault", "more", "wanted"),
    [
        (Fault.XID, {"code": 48}, [Remedy.DRAIN_AT_ONCE]),
        (Fault.XID, {"code": 13}, [Remedy.NOTE]),
        (Fault.XID, {"code": 79}, [Remedy.DRAIN_NODE]),
        (Fault.ECC, {}, [Remedy.DRAIN_AT_ONCE]),
        (Fault.REMAP, {}, [Remedy.FAIL]),
        (Fault.LOST, {}, [Remedy.LOSE]),
        (Fault.HANG, {}, [Remedy.SUSPECT]),
        (Fault.NVLINK, {}, [Remedy.SUSPECT, Remedy.DRAIN]),
        (Fault.RESET, {}, [Remedy.RESET_SEEN]),
    ],
)
def test_the_ladder_does_what_the_fault_is_for(fault, more, wanted):
    assert wanted == remedies(fault, **more)


def test_of_a_real_device_just_those_can_be_told_that_are_signs():
    assert set(SIGNS) == {fault for fault in Fault if signs_of(Strike(fault=fault, node="n1"))}
    assert not set(SIGNS) & ON_NODES


@pytest.mark.parametrize(
    ("fault", "path"),
    [(Fault.NODE, "down"), (Fault.UP, "up"), (Fault.SPOT, "notice"), (Fault.SILENT, "silent"),
     (Fault.THERMAL, "gpus/3/thermal"), (Fault.LEAK, "gpus/3/leak"), (Fault.LOST, "gpus/3/tell")],
)  # fmt: skip
def test_a_machine_is_asked_by_a_path_of_its_own(fault, path):
    (call,) = calls_of(Strike(fault=fault, node="n1", gpu=3))

    assert f"/v1/nodes/n1/{path}" == call.path
