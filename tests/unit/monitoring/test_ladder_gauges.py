"""GPUs out of service by class, the oldest of them, and the breaker."""

from __future__ import annotations

import msgspec
import pytest

from services.monitoring.gauges.ladder import CLASSES, class_of
from services.monitoring.memory import STEP
from shared.core.health.device import DeviceState
from shared.events import nodes
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring
from tests.unit.monitoring.test_states import step

S = DeviceState
HOUR_MS = 3_600_000


@pytest.fixture
def monitoring() -> Monitoring:
    one = Monitoring()
    one.read(b.a_node(gpus=4))
    return one


def quarantined(monitoring: Monitoring) -> dict[str, float]:
    found = {
        one: monitoring.value("muster_gpu_quarantined", **{"flavor": "h100", "class": one})
        for one in CLASSES
    }
    assert None not in found.values(), "each is there from the start"
    return {one: value for one, value in found.items() if value}


async def test_gpus_out_of_service_are_told_by_class_with_the_age_of_the_oldest(monitoring):
    assert quarantined(monitoring) == {}
    monitoring.read(step(S.QUARANTINED), step(S.FAILED, 1, "row-remap-failure"))
    monitoring.read(step(S.SUSPECT, 2), step(S.DRAINING, 3))
    monitoring.clock.ms += HOUR_MS
    await monitoring.restart()

    assert quarantined(monitoring) == {"reset": 1, "memory": 1}
    oldest = monitoring.value("muster_gpu_quarantined_oldest_seconds", flavor="h100")
    assert oldest == 3600

    monitoring.read(step(S.HEALTHY), step(S.HEALTHY, 1))
    assert quarantined(monitoring) == {}
    assert monitoring.value("muster_gpu_quarantined_oldest_seconds", flavor="h100") == 0


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("xid-memory", "memory"),
        ("xid-link-again", "link"),
        ("xid-app-of-many", "reset"),
        ("double-bit-ecc", "memory"),
        ("recovery-action-2", "node"),
        ("overheated", "heat"),
        ("check-failed", "check"),
        ("what-comes-later", "check"),
    ],
)
def test_every_rule_has_a_class(rule: str, kind: str) -> None:
    assert class_of(rule) == kind


async def test_the_breaker_is_open_for_an_hour_and_over_a_restart(monitoring):
    def is_open() -> float | None:
        found: float | None = monitoring.value("muster_health_breaker_open")
        return found

    monitoring.read(step(S.DRAINING, done=False))
    monitoring.clock.ms += 1
    assert is_open() == 0, "the ladder observes"

    monitoring.read(step(S.DRAINING, done=False, breaker=True))
    assert is_open() == 1
    await monitoring.restart()
    assert is_open() == 1
    monitoring.clock.ms += HOUR_MS
    assert is_open() == 0


def test_rows_of_before_have_the_state_alone(monitoring):
    decoders = monitoring.handler.memory.journal._decoders
    raw = msgspec.json.encode(S.QUARANTINED)

    assert decoders[STEP].decode(raw) == S.QUARANTINED


def test_a_node_that_left_has_none(monitoring):
    monitoring.read(step(S.QUARANTINED), nodes.NodeRemoved(node="n1", generation=2))

    assert monitoring.value("muster_gpu_quarantined", flavor="h100") is None
