"""A node whose GPUs are really read: what its source told last, and what changed since.

Only `refresh` asks, at its own pace, and what is reported is what it found. While nothing is told
of any GPU the node takes no new work, and comes back by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from shared.core.health.events import DETAIL_CHARACTERS_MAX, WHOLE_NODE, HealthEventKind
from shared.core.health.trends import UNTOLD
from shared.core.model.nouns import Gpu, Node
from shared.core.model.value import replace
from shared.core.telemetry.changes import HealthEvent, changes
from shared.core.telemetry.readings import (
    MEMORY_USED,
    PCIE_REPLAYS,
    POWER,
    SM_CLOCK,
    TEMPERATURE,
    Answering,
    DeviceInventory,
    GpuReading,
    NodeReading,
    instance_percent,
    is_throttled,
    mask_of,
    use_percent,
)
from shared.core.telemetry.thresholds import Thresholds
from shared.events.nodes import (
    GpuHealthReported,
    GpuUsageReported,
    HealthEventReported,
    InstanceUse,
)
from shared.ports.clock import Clock
from shared.ports.gpu_source import GpuSource, SourceSilentError
from shared.ports.probe import Change

INVENTORY_MS: Final = 60_000
FULL_MS: Final = 10_000
"""How often what changes slowly is read."""
RETRY_SECONDS: Final = 1.0


class LiveProbe:
    """`runtime.reporter.ReportingProbe` on a source; `described` tells what no driver knows."""

    def __init__(
        self,
        described: Node,
        *,
        source: GpuSource,
        clock: Clock,
        seconds: float,
        cell: int = 0,
        thresholds: Thresholds | None = None,
    ) -> None:
        """`thresholds`: what of the values is told as a sign; None: nothing."""
        self.generation = clock.now_ms()
        self.reading = NodeReading(at_ms=0)
        """The last; without GPUs before the first."""
        self.problem = ""
        """Why nothing is told of any GPU; empty while something is."""
        self.changed: Callable[[], None] = _nobody
        """Called when there is something to report at once."""
        self._node = described
        self._source = source
        self._clock = clock
        self._seconds = seconds
        self._cell = cell
        self._inventory_ms = 0
        self._full_ms = 0
        self._changes: list[Change] = []
        self._wake = asyncio.Event()
        self._thresholds = thresholds

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    @property
    def known(self) -> bool:
        """Whether its devices were read once."""
        return self._inventory_ms > 0

    def inventory(self) -> Node:
        """The node as it was read last."""
        return self._node

    def changes(self) -> list[Change]:
        """Changes of health since the last call."""
        told, self._changes = self._changes, []
        return told

    def usage(self, at_ms: int) -> GpuUsageReported:
        """Use of every GPU, of the time of the reading; what was not read is named as unread."""
        read = {one.index: one for one in self.reading.gpus} if not self.problem else {}
        gpus = [read.get(gpu.index) for gpu in self._node.gpus]
        percents = [None if one is None else use_percent(one) for one in gpus]
        return GpuUsageReported(
            node=self.name,
            at_ms=self.reading.at_ms if read else at_ms,
            utilization_percent=tuple(one or 0 for one in percents),
            memory_used_mib=tuple(_value(one, MEMORY_USED) for one in gpus),
            temperature_celsius=tuple(_value(one, TEMPERATURE) for one in gpus),
            power_watts=tuple(_value(one, POWER) for one in gpus),
            unread=tuple(at for at, one in enumerate(percents) if one is None),
            instances=tuple(_instances(gpus)),
            cell=self._cell,
            sm_clock_mhz=tuple(_value(one, SM_CLOCK, UNTOLD) for one in gpus),
            pcie_replays=tuple(_value(one, PCIE_REPLAYS, UNTOLD) for one in gpus),
            throttled=tuple(at for at, one in enumerate(gpus) if one and is_throttled(one)),
        )

    async def watch(self) -> None:
        """Refresh in turn, and at once when the driver told something, until cancelled."""
        while True:
            await self.refresh()
            pause = RETRY_SECONDS if self.problem else self._seconds
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def look(self) -> None:
        """Something happened: read again now."""
        self._wake.set()

    async def refresh(self) -> None:
        """Read the devices, and now and then what they are."""
        try:
            if self._clock.now_ms() - self._inventory_ms >= INVENTORY_MS or self.problem:
                self._found(await self._source.inventory())
            reading = await self._source.read(full=self._is_full_due())
        except SourceSilentError as error:
            self._silent(str(error))
        else:
            self._read(reading)

    def _is_full_due(self) -> bool:
        """Every ten seconds, and when something happened."""
        now_ms = self._clock.now_ms()
        due = self._wake.is_set() or now_ms - self._full_ms >= FULL_MS or bool(self.problem)
        if due:
            self._wake.clear()
            self._full_ms = now_ms
        return due

    async def set_mig(self, gpu: Gpu, *, mig: bool) -> str:
        """Change the mode of a GPU; returns what prevented it, empty if nothing did."""
        problem = await self._source.set_mig(gpu.uuid, mig=mig)
        self._inventory_ms = min(self._inventory_ms, 1)
        self.look()
        return problem

    def tell(self, events: Iterable[HealthEvent]) -> None:
        """Events of health, from whatever source, to be reported at once."""
        at_ms = self._clock.now_ms()
        self._changes += [
            HealthEventReported(
                node=self.name,
                gpu=one.gpu,
                kind=one.kind,
                at_ms=at_ms,
                code=one.code,
                instance=one.instance,
                mask=self._mask(one.gpu, one.instance),
                uuid=one.uuid,
                detail=one.detail[:DETAIL_CHARACTERS_MAX],
                cell=self._cell,
            )
            for one in events
        ]
        if self._changes:
            self.changed()

    def _mask(self, gpu: int, instance: int) -> int:
        """Memory slices of an instance as it was read last; 0: not known."""
        found = (
            mask_of(each)
            for one in self.reading.gpus
            if one.index == gpu
            for each in one.instances
            if each.number == instance
        )
        return next(found, 0)

    def _found(self, found: DeviceInventory) -> None:
        """A GPU that is not told any more keeps its place: it is lost, not gone."""
        told = {gpu.index for gpu in found.gpus}
        health = {gpu.index: gpu.healthy for gpu in self._node.gpus}
        gone = [gpu for gpu in self._node.gpus if gpu.index not in told]
        gpus = [replace(gpu, healthy=health.get(gpu.index, True)) for gpu in found.gpus]
        node = replace(
            self._node,
            product=found.product or self._node.product,
            driver=found.driver,
            cuda=found.cuda,
            gpus=tuple(sorted([*gpus, *gone], key=lambda gpu: gpu.index)),
            links=self._node.links if gone else found.links,
            nvlink_domain=found.clique or self._node.nvlink_domain,
        )
        self._inventory_ms = self._clock.now_ms()
        if node != self._node:
            self._node = node
            self._count_up()

    def _read(self, reading: NodeReading) -> None:
        before = self.reading if self.reading.at_ms else None
        events = list(changes(before, reading))
        if self.problem:
            self.problem = ""
            events.insert(0, HealthEvent(gpu=WHOLE_NODE, kind=HealthEventKind.RETURNED))
        self.reading = reading
        if self._thresholds is not None:
            events += self._thresholds.crossed(reading)
        self.tell(events)
        self._judge({one.index: one.answering for one in reading.gpus})

    def _silent(self, problem: str) -> None:
        if not self.problem and self.known:
            kind = HealthEventKind.UNRESPONSIVE
            self.tell([HealthEvent(gpu=WHOLE_NODE, kind=kind, detail=problem)])
            self._judge({gpu.index: Answering.UNRESPONSIVE for gpu in self._node.gpus})
        self.problem = problem

    def _judge(self, answering: dict[int, Answering]) -> None:
        for at, gpu in enumerate(self._node.gpus):
            answer = answering.get(gpu.index, Answering.LOST)
            healthy = answer is Answering.YES
            if gpu.healthy == healthy:
                continue
            gpus = list(self._node.gpus)
            gpus[at] = replace(gpu, healthy=healthy)
            self._node = replace(self._node, gpus=tuple(gpus))
            self._count_up()
            self._changes.append(
                GpuHealthReported(
                    node=self.name,
                    gpu=gpu.index,
                    healthy=healthy,
                    generation=self.generation,
                    reason="" if healthy else answer.value,
                    cell=self._cell,
                )
            )

    def _count_up(self) -> None:
        self.generation = max(self._clock.now_ms(), self.generation + 1)


def _instances(gpus: Iterable[GpuReading | None]) -> Iterator[InstanceUse]:
    for gpu in filter(None, gpus):
        for one in gpu.instances:
            percent = instance_percent(one)
            if percent is not None and one.size:
                yield InstanceUse(
                    gpu=gpu.index,
                    mask=mask_of(one),
                    utilization_percent=percent,
                    number=one.number,
                )


def _nobody() -> None:
    """Nobody waits for changes."""


def _value(gpu: GpuReading | None, name: str, absent: int = 0) -> int:
    return absent if gpu is None else round(gpu.values.get(name, absent))
