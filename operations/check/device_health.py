"""I18: no work is placed on a GPU that is out of service.

From the fact that takes a device out until the one that gives it back, no placement names it. What
was only told, as the ladder observes or its breaker is open, takes nothing out.
"""

from __future__ import annotations

from typing import Final

from operations.check.model import Evidence, Findings, Payload
from operations.check.preemption import PLACED

CHANGED: Final = "muster.device-health.changed.v1"
TAKES_WORK: Final = frozenset({"healthy", "suspect"})
Gpu = tuple[str, int]
"""(node, index)."""


def check_device_health(evidence: Evidence) -> Findings:
    """Every placement in the log against the devices that were out then."""
    findings = Findings()
    out: dict[Gpu, str] = {}
    for record in evidence.log.on("workload.facts.v1"):
        payload = record.payload
        if record.type == CHANGED and payload.get("done", True):
            gpu = payload["node"], payload["gpu"]
            out.pop(gpu, None)
            if payload["after"] not in TAKES_WORK:
                out[gpu] = payload["after"]
        elif record.type == PLACED:
            _check(findings, out, payload)
    return findings


def _check(findings: Findings, out: dict[Gpu, str], placed: Payload) -> None:
    for pod in (placed.get("placement") or {}).get("pods", ()):
        for share in pod.get("shares", ()):
            findings.checked += 1
            state = out.get((pod["node"], share["index"]))
            if state is not None:
                where = f"{pod['node']}/gpu{share['index']}"
                findings.add(placed["workload_id"], f"is given {where}, which is {state}")
