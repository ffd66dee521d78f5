"""GPUs that the ladder of health has out of service, by what speaks against them; its breaker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.gauges.families import Labels, gauge
from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import LadderStep
from shared.core.health.breaker import HOUR_MS
from shared.core.health.device import OUT_OF_SERVICE
from shared.core.health.events import HealthEventKind as Kind

CLASSES: Final = ("reset", "memory", "link", "node", "slice", "heat", "check")
_OF_RULE: Final = {
    "xid-link-again": "link",
    "xid-app-of-many": "reset",
    Kind.DOUBLE_BIT_ECC.value: "memory",
    Kind.ROW_REMAP_FAILURE.value: "memory",
    Kind.PCIE_REPLAYS.value: "link",
    Kind.NVLINK_FAILED.value: "link",
    Kind.OVERHEATED.value: "heat",
    Kind.THROTTLED_LONG.value: "heat",
    Kind.LOST.value: "node",
    "recovery-action-1": "reset",
    "recovery-action-2": "node",
    "recovery-action-7": "node",
}


def class_of(rule: str) -> str:
    """What a rule says of the device: one of `CLASSES`; `check` where a person must look."""
    known = _OF_RULE.get(rule, rule.removeprefix("xid-"))
    return known if known in CLASSES else "check"


def families(memory: MonitoringMemory, now_ms: int) -> Iterator[Metric]:
    """The gauges. O(devices that are not healthy), and O(nodes) for the names of flavors."""
    nodes = {name: one for name, one in memory.nodes.copy().items() if one.present}
    counts: Counter[Labels] = Counter(
        {(one.flavor, kind): 0 for one in nodes.values() for kind in CLASSES}
    )
    oldest: dict[Labels, float] = {(one.flavor,): 0.0 for one in nodes.values()}
    for (name, _), step in memory.steps.copy().items():
        if step.state in OUT_OF_SERVICE and name in nodes:
            flavor = nodes[name].flavor
            counts[flavor, class_of(step.rule)] += 1
            oldest[flavor,] = max(oldest[flavor,], _seconds(step, now_ms))
    text = (
        "GPUs that the ladder of health has out of service (quarantined, lost, failed), by what"
        " speaks against them."
    )
    yield gauge("muster_gpu_quarantined", text, "flavor class", counts)
    text = "For how long the oldest of them is out of service; 0: there is none."
    yield gauge("muster_gpu_quarantined_oldest_seconds", text, "flavor", oldest)
    text = "1 if the breaker kept a GPU in service within the hour that a rule would take out."
    is_open = 0 < now_ms - memory.breaker_ms < HOUR_MS if memory.breaker_ms else False
    yield gauge("muster_health_breaker_open", text, "", {(): float(is_open)})


def _seconds(step: LadderStep, now_ms: int) -> float:
    return max(now_ms - step.since_ms, 0) / 1000 if step.since_ms else 0.0
