"""Publishes what probes read: inventory at start and every minute, health at once, use in turn.

Beside a cluster watcher, which tells what nodes are, only the GPUs are told, and in another way:
each time with a time of its own, as the watcher may have forgotten what was told before.

Telemetry has no database: a report that is lost is followed by another. An inventory told again
keeps its generation, so consumers drop it. Use is spread evenly over its interval, which grows
when so many nodes would exceed the rate that is allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import structlog

from shared.core.kubernetes.observed import observed
from shared.core.model.nouns import Node
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.nodes import (
    GpuHealthReported,
    GpusObserved,
    GpuUsageReported,
    HealthEventReported,
    NodeInventoryReported,
    NodeNoticeReported,
)
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import GPU_FACTS, NODE_FACTS, USAGE_FACTS, Topic
from shared.ports.clock import Clock
from shared.ports.errors import Transient
from shared.ports.probe import GpuProbe
from shared.ports.publisher import Publisher
from shared.ports.store import OutboxRow

SOURCE: Final = "node_agent"
TICK_SECONDS: Final = 0.5
ROWS_PER_PUBLISH: Final = 500
RETRY_SECONDS: Final = 1.0

Report = (
    NodeInventoryReported
    | GpuHealthReported
    | HealthEventReported
    | NodeNoticeReported
    | GpuUsageReported
    | GpusObserved
)

log = structlog.get_logger("reporter")


class Telling(StrEnum):
    """What is told beside the use of GPUs."""

    ALL = "all"
    """What nodes are: there is no other source for it."""
    GPUS = "gpus"
    """Their GPUs: a cluster watcher tells what nodes are."""
    USAGE = "usage"
    """Nothing."""


class ReportingProbe(GpuProbe, Protocol):
    """A probe that counts the changes of its inventory."""

    @property
    def name(self) -> str:
        """The node's name."""
        ...

    @property
    def generation(self) -> int:
        """Goes up with every change of inventory or health; Unix milliseconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to report what."""

    inventory_seconds: float = 60.0
    usage_seconds: float = 10.0
    usage_messages_per_second_max: int = 200


class Reporter:
    """Reports for all of `probes`; `ready` once each was told of and that was acknowledged.

    Of a node that is `mute` no use is told.
    """

    def __init__(
        self,
        *,
        probes: Sequence[ReportingProbe],
        publisher: Publisher,
        clock: Clock,
        pace: Pace,
        cell: int = 0,
        telling: Telling = Telling.ALL,
        mute: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.ready = telling is Telling.USAGE
        self.published = 0
        self._probes = probes
        self._publisher = publisher
        self._clock = clock
        self._pace = pace
        self._cell = cell
        self._telling = telling
        self._mute = mute
        self._next_usage = 0
        self._owed_usage = 0.0
        self._told: dict[str, int] = {}
        """Generation by node that was told last, as inventory or as change of health."""
        self._observed_ms: dict[str, int] = {}
        self._reasons: dict[tuple[str, int], str] = {}
        """Why GPUs are ill, by node and index."""
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Report until cancelled."""
        next_inventory = self._clock.monotonic_seconds()
        before = next_inventory
        while True:
            now = self._clock.monotonic_seconds()
            if self._telling is not Telling.USAGE:
                if now >= next_inventory:
                    await self.announce()
                    next_inventory = now + self._pace.inventory_seconds
                await self.tell_changes()
            await self.tell_usage(now - before)
            before = now
            await self._sleep()

    def poke(self) -> None:
        """Report changes of health now."""
        self._wake.set()

    async def announce(self) -> None:
        """Publish every node, or its GPUs; returns when all are acknowledged."""
        await self._publish(self._whole(probe) for probe in self._probes)
        self.ready = True

    def _whole(self, probe: ReportingProbe) -> NodeInventoryReported | GpusObserved:
        node = probe.inventory()
        self._told[node.name] = probe.generation
        if self._telling is Telling.GPUS:
            return self._observed(node)
        return NodeInventoryReported(node=node, generation=probe.generation, cell=self._cell)

    def _observed(self, node: Node) -> GpusObserved:
        at_ms = max(self._clock.now_ms(), self._observed_ms.get(node.name, 0) + 1)
        self._observed_ms[node.name] = at_ms
        reasons = {index: why for (name, index), why in self._reasons.items() if name == node.name}
        return GpusObserved(
            node=node.name,
            at_ms=at_ms,
            gpus=observed(node.gpus, reasons),
            links=node.links,
            cell=self._cell,
        )

    async def tell_changes(self) -> None:
        """Publish changes of health, and inventories that changed in any other way."""
        reports: list[Report] = []
        for probe in self._probes:
            changes = probe.changes()
            reports += [one for one in changes if isinstance(one, HealthEventReported)]
            counted = [one for one in changes if not isinstance(one, HealthEventReported)]
            if self._telling is Telling.GPUS:
                self._note_reasons(counted)
            else:
                self._told |= {change.node: change.generation for change in counted}
                reports += counted
            if probe.generation > self._told.get(probe.name, 0):
                reports.append(self._whole(probe))
        await self._publish(iter(reports))

    def _note_reasons(self, changes: Sequence[GpuHealthReported | NodeNoticeReported]) -> None:
        """Of what is told otherwise: whether a node is ready the API server knows."""
        for change in changes:
            if isinstance(change, GpuHealthReported) and change.gpu >= 0:
                self._reasons[change.node, change.gpu] = change.reason

    async def tell_usage(self, seconds: float) -> None:
        """Publish the use of as many nodes as are due after `seconds`, in turn."""
        count = len(self._probes)
        per_second = min(
            count / self._pace.usage_seconds, self._pace.usage_messages_per_second_max
        )
        self._owed_usage = min(self._owed_usage + seconds * per_second, count)
        due = int(self._owed_usage)
        self._owed_usage -= due
        at_ms = self._clock.now_ms()
        chosen = [self._probes[(self._next_usage + step) % count] for step in range(due)]
        self._next_usage = (self._next_usage + due) % max(count, 1)
        await self._publish(probe.usage(at_ms) for probe in chosen if not self._mute(probe.name))

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _publish(self, reports: Iterator[Report]) -> None:
        """In batches, each until it is acknowledged: a broker that is away is waited for."""
        rows = []
        for report in reports:
            rows.append(self._row(report))
            if len(rows) == ROWS_PER_PUBLISH:
                await self._publish_batch(rows)
                rows = []
        if rows:
            await self._publish_batch(rows)

    async def _publish_batch(self, rows: Sequence[OutboxRow]) -> None:
        while True:
            try:
                await self._publisher.publish(rows)
            except Transient as error:
                log.warning("not published", rows=len(rows), error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.published += len(rows)
                return

    def _row(self, report: Report) -> OutboxRow:
        """Ids follow from what is reported: an inventory told again has the same id."""
        node, version, topic = _about(report)
        kind = type(report).__name__
        event = Event(
            id=event_id(version, f"{node}/{kind}/{version}/{_part(report)}", SOURCE, 0),
            type=NAME_BY_TYPE[type(report)],
            source=SOURCE,
            subject=node,
            time_ms=self._clock.now_ms(),
            key=node,
            payload=report,
        )
        return OutboxRow(
            seq=0,
            event_id=event.id,
            topic=topic.name,
            partition=self._cell,
            key=node,
            headers=encode_headers(event),
            value=encode_payload(report),
        )


def _part(report: Report) -> int | str:
    """What tells reports of one node and version apart; empty: there is one alone."""
    if isinstance(report, HealthEventReported):
        return f"{report.gpu}/{report.instance}/{report.kind}/{report.code}"
    return report.gpu if isinstance(report, GpuHealthReported) else ""


def _about(report: Report) -> tuple[str, int, Topic]:
    """Node, version (Unix milliseconds) and topic of a report."""
    if isinstance(report, NodeInventoryReported):
        return report.node.name, report.generation, NODE_FACTS
    if isinstance(report, GpuHealthReported | NodeNoticeReported):
        return report.node, report.generation, NODE_FACTS
    if isinstance(report, HealthEventReported):
        return report.node, report.at_ms, NODE_FACTS
    topic = GPU_FACTS if isinstance(report, GpusObserved) else USAGE_FACTS
    return report.node, report.at_ms, topic
