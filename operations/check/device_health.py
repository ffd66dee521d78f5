"""I18: no work is placed, or stays, on a GPU that is out of service.

What ran there is stopped while the GPU drains; when it is quarantined nothing holds it. From the
fact that takes a device out until the one that gives it back, no placement names it. What
was only told, as the ladder observes or its breaker is open, takes nothing out.
"""

from __future__ import annotations

from typing import Final

from operations.check.model import Evidence, Findings, Payload
from operations.check.preemption import PLACED
from operations.check.states import HOLDING, STATES

CHANGED: Final = "muster.device-health.changed.v1"
LEARNED: Final = "muster.node-devices.learned.v1"
LEAVES: Final = STATES - HOLDING
"""States in which a workload holds nothing."""
TAKES_WORK: Final = frozenset({"healthy", "suspect"})
Gpu = tuple[str, int]
"""(node, index)."""


def check_device_health(evidence: Evidence) -> Findings:
    """Every placement in the log against the devices that were out then, and what stayed there."""
    devices = _Devices()
    for record in evidence.log.on("workload.facts.v1"):
        payload = record.payload
        if record.type == CHANGED:
            devices.step(payload)
        elif record.type == PLACED:
            devices.placed(payload)
        elif record.type == LEARNED:
            for one in payload.get("workloads", ()):
                devices.hold(one["workload_id"], one["placement"])
        elif payload.get("placement"):
            devices.hold(payload["workload_id"], payload["placement"])
        elif payload.get("state", "") in LEAVES:
            devices.hold(payload["workload_id"], None)
    return devices.findings


class _Devices:
    """Which are out, and what each workload holds."""

    def __init__(self) -> None:
        self.findings = Findings()
        self._out: dict[Gpu, str] = {}
        self._held: dict[str, tuple[Gpu, ...]] = {}
        self._holders: dict[Gpu, set[str]] = {}

    def step(self, payload: Payload) -> None:
        """A device takes a step; nothing may hold it any more when it is quarantined."""
        if not payload.get("done", True):
            return
        gpu, after = (payload["node"], payload["gpu"]), payload["after"]
        self._out.pop(gpu, None)
        if after not in TAKES_WORK:
            self._out[gpu] = after
        if after == "quarantined":
            for workload in sorted(self._holders.get(gpu, ())):
                self.findings.add(workload, f"stays on {_name(gpu)}, which is quarantined")

    def placed(self, payload: Payload) -> None:
        """A workload is given devices."""
        self.hold(payload["workload_id"], payload.get("placement"))
        for gpu in self._held.get(payload["workload_id"], ()):
            self.findings.checked += 1
            if gpu in self._out:
                detail = f"is given {_name(gpu)}, which is {self._out[gpu]}"
                self.findings.add(payload["workload_id"], detail)

    def hold(self, workload: str, placement: Payload | None) -> None:
        """What it holds from now on; None: nothing."""
        for gpu in self._held.pop(workload, ()):
            self._holders[gpu].discard(workload)
        pods = (placement or {}).get("pods", ())
        gpus = tuple((pod["node"], one["index"]) for pod in pods for one in pod.get("shares", ()))
        if gpus:
            self._held[workload] = gpus
        for gpu in gpus:
            self._holders.setdefault(gpu, set()).add(workload)


def _name(gpu: Gpu) -> str:
    return f"{gpu[0]}/gpu{gpu[1]}"
