"""The notifications service as the loop sees it: facts in, rows of deliveries out, then sent.

```
fact -> notice -> each destination that wants it -> row of its queue    (one unit of work)
commit -> courier of the destination -> webhook -> report -> local message -> row is deleted
```
What is sent is committed before, and is deleted after it was taken: a kill loses nothing and may
send something twice. A queue that is full takes nothing more, and says how much it gave up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from services.notifications import metrics
from services.notifications.courier import DeliveryPace
from services.notifications.couriers import Couriers
from services.notifications.notices import MAKERS, Notice, notice_of, trial_notice
from services.notifications.records import (
    Delivery,
    Destination,
    delete_deliveries,
    delete_destinations,
    load_destinations,
    put_deliveries,
    put_destinations,
)
from services.notifications.reports import SERVICE, DeliveryReported, as_message
from services.notifications.secrets import SecretFiles
from shared.core.notifications.events import wanted
from shared.events import notifications, organisation, topics
from shared.events.envelope import Received
from shared.events.topics import Topic
from shared.events.workloads import Wire
from shared.ports.clock import Clock
from shared.ports.reader import Reader
from shared.ports.webhooks import Webhooks
from shared.runtime.handler import Emit, Outcome

TOLD_AGAIN_MS: Final = 10_000
FACTS: Final = (
    topics.QUEUE_FACTS,
    topics.QUOTA_FACTS,
    topics.WORKLOAD_FACTS,
    topics.HEALTH_FACTS,
    topics.IDLENESS_FACTS,
    topics.NOTIFICATION_COMMANDS,
)
KIND: Final = "notification"


class NotificationsHandler:
    """See the module. One handler serves one cell; each tells every destination of its own."""

    name = SERVICE

    def __init__(
        self,
        *,
        connect: Callable[[], Webhooks],
        secrets: SecretFiles,
        clock: Clock,
        pace: DeliveryPace,
        waiting_max: int,
        cell: int = 0,
    ) -> None:
        self.on_wake: Callable[[], None] = lambda: None
        """Set by the loop: called when something was delivered, so that it polls at once."""
        self._clock, self._pace = clock, pace
        self._waiting_max, self._cell = waiting_max, cell
        self._couriers = Couriers(
            connect=connect,
            secrets=secrets,
            clock=clock,
            pace=pace,
            wake=lambda: self.on_wake(),  # noqa: PLW0108  # the loop sets another one later
        )
        self._actions: Mapping[type[Wire], Callable[[Received, Any], None]] = {
            **dict.fromkeys(MAKERS, self._fact),
            organisation.NotificationApplied: self._applied,
            organisation.DocumentDeleted: self._deleted,
            notifications.TryDestination: self._tried,
            DeliveryReported: self._reported,
        }
        self._destinations: dict[str, Destination] = {}
        self._begin_unit()

    def _begin_unit(self) -> None:
        self._outcome = Outcome()
        self._now_ms = 0
        self._queued: list[tuple[str, Delivery]] = []
        self._changed: dict[str, None] = {}
        self._through: dict[str, int] = {}
        self._removed: dict[str, int] = {}

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Facts that are events; asked after each commit, so what was committed is sent now."""
        self._couriers.send_committed(self._destinations)
        cell = (self._cell,)
        return ((topics.ORGANISATION_FACTS, (0,)), *((topic, cell) for topic in FACTS))

    def first(self) -> Collection[Topic]:
        """Documents, before the facts that they are told of."""
        return (topics.ORGANISATION_FACTS,)

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    async def load(self, reader: Reader) -> None:
        """Forget everything, read what waits, and deliver it."""
        await self.suspend()
        self._destinations = {}
        self._begin_unit()
        self._couriers.begin(reader)
        self._destinations = await load_destinations(reader)
        for name in self._destinations:
            metrics.begin(name)
            self._couriers.renew(name)

    async def suspend(self) -> None:
        """Send no more until the next `load`: another process may have the lease."""
        await self._couriers.suspend()

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """End couriers of documents that are no more."""
        del messages, reader
        await self._couriers.end_gone()

    # ── what couriers tell ──

    def due(self, now_ms: int) -> Sequence[Received]:
        """What couriers told since."""
        self._measure(now_ms)
        return [as_message(one, now_ms, self._cell) for one in self._couriers.take_reports()]

    def next_due_ms(self) -> int | None:
        """At once where a courier has told something."""
        return self._clock.now_ms() if self._couriers.reported else None

    def _measure(self, now_ms: int) -> None:
        for name, one in self._destinations.items():
            oldest_ms = self._couriers.oldest_at_ms(name)
            metrics.WAITING.labels(name).set(one.waiting)
            metrics.OLDEST_SECONDS.labels(name).set(
                max(0, now_ms - oldest_ms) / 1000 if oldest_ms else 0
            )
            since_ms = one.failing_since_ms
            metrics.FAILING_SECONDS.labels(name).set(
                max(0, now_ms - since_ms) / 1000 if since_ms else 0
            )

    # ── what is decided ──

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Queue notices for their destinations, and delete what was delivered."""
        self._begin_unit()
        self._now_ms = now_ms
        for message in messages:
            action = self._actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
        self._outcome.writes += self._writes()
        return self._outcome

    def _writes(self) -> list[Any]:
        writes = []
        changed = [self._destinations[one] for one in self._changed if one in self._destinations]
        if changed:
            writes.append(put_destinations(changed))
        gone = [one for one in self._removed if one not in self._destinations]
        if gone:
            writes.append(delete_destinations(gone))
        through = {**self._through, **self._removed}
        if through:
            writes.append(delete_deliveries(through))
        if self._queued:
            writes.append(put_deliveries(self._queued))
        return writes

    def _fact(self, message: Received, payload: Wire) -> None:
        del payload
        notice = notice_of(message.event)
        if notice is None:
            return
        for name, one in self._destinations.items():
            document = one.document
            if wanted(
                notice.kind,
                notice.severity,
                notice.team,
                events=document.events,
                min_severity=document.min_severity,
                of_team=document.team,
            ):
                self._queue(name, one, notice)

    def _queue(self, name: str, one: Destination, notice: Notice) -> None:
        self._changed[name] = None
        if one.waiting >= self._waiting_max:
            one.dropped += 1
            metrics.NOTIFICATIONS.labels(name, "given_up").inc()
            return
        delivery = Delivery(number=one.next_number, notice=notice, created_at_ms=self._now_ms)
        one.next_number += 1
        self._queued.append((name, delivery))
        self._couriers.release(name)

    def _tried(self, message: Received, command: notifications.TryDestination) -> None:
        one = self._destinations.get(command.name)
        if one is None:
            return
        one.trial_number = one.next_number
        self._queue(command.name, one, trial_notice(message.event, command))
        self._couriers.hurry(command.name)

    def _applied(self, message: Received, document: organisation.NotificationApplied) -> None:
        name = document.name
        one = self._destinations.get(name)
        if one is None:
            one = Destination(document=document)
            one.next_number = one.first_number = self._removed.get(name, 0) + 1
            self._destinations[name] = one
            metrics.begin(name)
        one.document = document
        self._changed[name] = None
        self._couriers.renew(name)
        self._tell(message, one)

    def _deleted(self, message: Received, deleted: organisation.DocumentDeleted) -> None:
        if deleted.kind != KIND or deleted.name not in self._destinations:
            return
        name = deleted.name
        one = self._destinations.pop(name)
        self._removed[name] = one.next_number - 1
        self._queued = [pair for pair in self._queued if pair[0] != name]
        self._through.pop(name, None)
        self._couriers.renew(name)
        metrics.end(name)
        del message

    def _reported(self, message: Received, report: DeliveryReported) -> None:
        one = self._destinations.get(report.destination)
        if one is None:
            return
        self._changed[report.destination] = None
        if report.through >= one.first_number:
            one.first_number = report.through + 1
            self._through[report.destination] = report.through
        one.dropped += report.given_up
        if report.version != one.document.version:
            return
        failing = bool(one.failing_since_ms) != bool(report.failing_since_ms)
        one.failing_since_ms, one.problem = report.failing_since_ms, report.problem
        if report.delivered:
            one.delivered_at_ms = report.at_ms
        tried = one.trial_number and (report.through >= one.trial_number or report.failed)
        if tried:
            one.trial_number = 0
        drained = bool(one.told_waiting) and not one.waiting
        if failing or tried or drained or self._now_ms - one.told_at_ms >= TOLD_AGAIN_MS:
            self._tell(message, one)

    def _tell(self, message: Received, one: Destination) -> None:
        one.told_at_ms, one.told_waiting = self._now_ms, one.waiting
        since_ms = one.failing_since_ms
        keep_ms = 1000 * self._pace.keep_seconds
        told = notifications.DestinationTold(
            name=one.document.name,
            at_ms=self._now_ms,
            waiting=one.waiting,
            dropped=one.dropped,
            delivered_at_ms=one.delivered_at_ms,
            failing_since_ms=since_ms,
            dead=bool(since_ms) and self._now_ms - since_ms > keep_ms,
            problem=one.problem,
            cell=self._cell,
        )
        self._outcome.emits.append(
            Emit(
                payload=told,
                topic=topics.NOTIFICATION_FACTS,
                subject=one.document.name,
                cause=message,
                partition=self._cell,
            )
        )
