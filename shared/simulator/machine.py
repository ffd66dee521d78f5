"""One described machine: what its agent would read, with failures on demand.

It is a `ports.probe.GpuProbe`. Use follows from what occupies each GPU (told from outside),
with a ripple from the seed; a GPU that nothing occupies is idle and cool. Where nothing is told
about a machine, use counts as unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple

from shared.core.health.events import WHOLE_NODE, HealthEventKind
from shared.core.model.nouns import Node
from shared.core.model.value import replace
from shared.events.nodes import (
    CheckGpu,
    GpuHealthReported,
    GpuUsageReported,
    HealthEventReported,
    NodeNoticeReported,
    ReconfigureGpu,
)
from shared.ports.probe import Change
from shared.simulator.disorders import THROTTLED_CELSIUS, Disorder, Disorders

CHECK_SECONDS: Final = 20
"""How long a check of a GPU takes."""
_IDLE_CELSIUS, _BUSY_CELSIUS = 32, 38
_IDLE_WATTS, _BUSY_WATTS = 60, 560
_IDLE_MHZ, _BUSY_MHZ = 345, 1980


class Occupancy(NamedTuple):
    """What is held of one GPU; 0 MiB is as much as it has. `busy_milli` of it is made use of."""

    gpu_milli: int
    memory_mib: int
    busy_milli: int


NOTHING_HELD: Final = Occupancy(0, 0, 0)


class Machine:
    """A node with its failures. `now_ms` at the start is the first generation.

    Generations are times in milliseconds, so they go on counting up after a restart.
    """

    def __init__(self, node: Node, *, now_ms: int, seed: int, cell: int = 0) -> None:
        self.generation = now_ms
        self._node = node
        self._cell = cell
        self._random = Random(f"{seed}/{node.name}")
        self._occupied: Mapping[int, Occupancy] | None = None
        self._changes: list[Change] = []
        self._disorders = Disorders()
        self._told_ms = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    def inventory(self) -> Node:
        """The node as it is now."""
        return self._node

    def usage(self, at_ms: int) -> GpuUsageReported:
        """Use of every GPU, all zero while the node is down; heat that is seen is told, too."""
        rows = [self._use(gpu.index, gpu.memory_mib, at_ms) for gpu in self._node.gpus]
        percent, memory, celsius, watts = zip(*rows, strict=True) if rows else ((), (), (), ())
        heat = dict(zip((gpu.index for gpu in self._node.gpus), celsius, strict=True))
        for index, kind in self._disorders.signs(at_ms):
            self.tell(index, at_ms, kind, code=heat[index])
        return GpuUsageReported(
            node=self._node.name,
            at_ms=at_ms,
            utilization_percent=percent,
            memory_used_mib=memory,
            temperature_celsius=celsius,
            power_watts=watts,
            unread=() if self._occupied is not None else tuple(range(len(rows))),
            cell=self._cell,
            sm_clock_mhz=tuple(_BUSY_MHZ if one else _IDLE_MHZ for one in percent),
            pcie_replays=(0,) * len(rows),
            throttled=tuple(index for index, one in heat.items() if one >= THROTTLED_CELSIUS),
        )

    def changes(self) -> list[Change]:
        """Changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def occupy(self, occupied: Mapping[int, Occupancy]) -> None:
        """What is held, by GPU index."""
        self._occupied = occupied

    def set_gpu(self, index: int, now_ms: int, *, healthy: bool, reason: str) -> bool:
        """Fail or heal one GPU; False when there is none, or nothing changes."""
        gpus = {gpu.index: gpu for gpu in self._node.gpus}
        if index not in gpus or gpus[index].healthy == healthy:
            return False
        gpus[index] = replace(gpus[index], healthy=healthy)
        self._node = replace(self._node, gpus=tuple(gpus.values()))
        self._changed(index, now_ms, healthy=healthy, reason=reason)
        return True

    def obey(self, command: ReconfigureGpu, now_ms: int) -> bool:
        """Change the MIG mode of a GPU; false if late, in use, or already so."""
        gpus = {gpu.index: gpu for gpu in self._node.gpus}
        gpu = gpus.get(command.gpu)
        if gpu is None or gpu.mig == command.mig or command.uuid not in ("", gpu.uuid):
            return False
        if now_ms > command.expires_at_ms or self._held(command.gpu).gpu_milli:
            return False
        gpus[command.gpu] = replace(gpu, mig=command.mig)
        self._node = replace(self._node, gpus=tuple(gpus.values()))
        self.generation = max(now_ms, self.generation + 1)
        return True

    def check(self, command: CheckGpu, now_ms: int) -> bool:
        """Pass a check of a GPU; false if late, in use, or of another device."""
        gpu = next((one for one in self._node.gpus if one.index == command.gpu), None)
        if gpu is None or command.uuid not in ("", gpu.uuid) or now_ms > command.expires_at_ms:
            return False
        if not gpu.healthy or self._held(command.gpu).gpu_milli:
            return False
        return self.tell(command.gpu, now_ms, HealthEventKind.CHECK_PASSED, code=CHECK_SECONDS)

    def tell(
        self, index: int, now_ms: int, kind: HealthEventKind, *, code: int = 0, detail: str = ""
    ) -> bool:
        """The driver tells of a GPU, or for -1 of all; False when there is none of this index.

        A lost GPU is unhealthy until it returns, as its agent would say. Each event has a time of
        its own: two of a kind in one millisecond would be one report.
        """
        gpus = {gpu.index: gpu for gpu in self._node.gpus}
        if index != WHOLE_NODE and index not in gpus:
            return False
        self._told_ms = max(now_ms, self._told_ms + 1)
        self._changes.append(
            HealthEventReported(
                node=self._node.name,
                gpu=index,
                kind=kind,
                at_ms=self._told_ms,
                code=code,
                uuid=gpus[index].uuid if index in gpus else "",
                detail=detail,
                cell=self._cell,
            )
        )
        if kind in {HealthEventKind.LOST, HealthEventKind.RETURNED}:
            healthy = kind is HealthEventKind.RETURNED
            self.set_gpu(index, now_ms, healthy=healthy, reason="" if healthy else kind.value)
        if kind is HealthEventKind.RETURNED:
            self._disorders.heal(index)
        return True

    def disorder(self, index: int, now_ms: int, disorder: Disorder) -> bool:
        """Let something grow in a GPU until it is reset; False when there is none."""
        known = any(gpu.index == index for gpu in self._node.gpus)
        if known:
            self._disorders.begin(disorder, index, now_ms)
        return known

    def mute(self, now_ms: int, *, seconds: int) -> None:
        """Report no use for so long; 0: until a GPU of it is reset."""
        self._disorders.mute(now_ms, seconds=seconds)

    def is_mute(self, now_ms: int) -> bool:
        """Whether no use is reported now."""
        return self._disorders.is_mute(now_ms)

    def set_ready(self, now_ms: int, *, ready: bool, reason: str) -> bool:
        """Take the whole node down, or bring it back; False when nothing changes."""
        if self._node.ready == ready:
            return False
        self._node = replace(self._node, ready=ready)
        self._changed(WHOLE_NODE, now_ms, healthy=ready, reason=reason)
        return True

    def notice(self, now_ms: int, *, seconds: int, reason: str) -> None:
        """Announce that the node will be taken away."""
        self.generation = max(now_ms, self.generation + 1)
        self._changes.append(
            NodeNoticeReported(
                node=self._node.name,
                gone_at_ms=now_ms + seconds * 1000,
                generation=self.generation,
                reason=reason,
                cell=self._cell,
            )
        )

    def _changed(self, gpu: int, now_ms: int, *, healthy: bool, reason: str) -> None:
        self.generation = max(now_ms, self.generation + 1)
        self._changes.append(
            GpuHealthReported(
                node=self._node.name,
                gpu=gpu,
                healthy=healthy,
                generation=self.generation,
                reason=reason,
                cell=self._cell,
            )
        )

    def _held(self, index: int) -> Occupancy:
        return (self._occupied or {}).get(index, NOTHING_HELD)

    def _use(self, index: int, memory_mib: int, at_ms: int) -> tuple[int, int, int, int]:
        percent, used_mib, celsius, watts = self._usual(index, memory_mib)
        used_mib = self._disorders.used_mib(index, at_ms, used_mib, memory_mib)
        return percent, used_mib, self._disorders.celsius(index, at_ms, celsius), watts

    def _usual(self, index: int, memory_mib: int) -> tuple[int, int, int, int]:
        held = self._held(index)
        if not held.gpu_milli or not self._node.ready:
            return 0, 0, _IDLE_CELSIUS, _IDLE_WATTS
        percent = min(100, held.busy_milli // 10) * (85 + self._random.randrange(15)) // 100
        used_mib = min(held.memory_mib or memory_mib, memory_mib) * 9 // 10
        celsius = _IDLE_CELSIUS + _BUSY_CELSIUS * percent // 100
        return percent, used_mib, celsius, _IDLE_WATTS + _BUSY_WATTS * percent // 100
