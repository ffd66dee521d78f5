"""Errors of the driver from both sources: told once each, and counted for the metrics."""

from __future__ import annotations

from collections import Counter

from services.node_agent.live_probe import LiveProbe
from shared.adapters.nvml import SINGLE_BIT_STORM, XID_CRITICAL
from shared.core.health.events import NO_INSTANCE, HealthEventKind
from shared.core.model.nouns import Gpu
from shared.core.telemetry.changes import HealthEvent
from shared.core.telemetry.kernel_log import LoggedXid, SeenXids, slot_of
from shared.ports.clock import Clock


class Xids:
    """Hears of errors, and tells the probe of those that are new."""

    def __init__(self, probe: LiveProbe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._seen = SeenXids()
        self.counts: Counter[tuple[int, int]] = Counter()
        """By index of GPU and XID, since the agent was started."""
        self.last: dict[int, int] = {}
        """The last XID by index of GPU."""

    def hear_driver(self, uuid: str, kind: int, data: int, instance: int) -> None:
        """An event of NVML; `kind` is a bit of its types."""
        gpu = next((one for one in self._probe.inventory().gpus if one.uuid == uuid), None)
        if gpu is None:
            return
        if kind == XID_CRITICAL:
            self._xid(gpu, data, instance, "nvml", "")
        elif kind == SINGLE_BIT_STORM:
            self._probe.tell([_event(gpu, HealthEventKind.SINGLE_BIT_ECC_STORM, 0, instance)])
        self._probe.look()  # what else changed the next reading tells

    def hear_kernel(self, logged: LoggedXid) -> None:
        """A line of the kernel's log."""
        for gpu in self._probe.inventory().gpus:
            if slot_of(gpu.pci) == logged.slot:
                self._xid(gpu, logged.xid, NO_INSTANCE, "kernel", logged.line)
                self._probe.look()

    def _xid(self, gpu: Gpu, xid: int, instance: int, source: str, detail: str) -> None:
        if not self._seen.is_new(gpu.uuid, xid, source, self._clock.now_ms()):
            return
        self.counts[gpu.index, xid] += 1
        self.last[gpu.index] = xid
        self._probe.tell([_event(gpu, HealthEventKind.XID, xid, instance, detail)])


def _event(
    gpu: Gpu, kind: HealthEventKind, code: int, instance: int, detail: str = ""
) -> HealthEvent:
    return HealthEvent(
        gpu=gpu.index, kind=kind, code=code, instance=instance, uuid=gpu.uuid, detail=detail
    )
