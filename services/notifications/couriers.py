"""The couriers of all destinations: what a unit decided reaches them after its commit.

A unit marks destinations (`renew`, `release`, `hurry`); `send_committed` acts on the marks. What
couriers tell is kept until the loop takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import structlog

from services.notifications import metrics
from services.notifications.courier import Courier, DeliveryPace
from services.notifications.records import Destination
from services.notifications.reports import SERVICE, DeliveryReported, merged
from services.notifications.secrets import SecretFiles
from shared.ports.clock import Clock
from shared.ports.reader import Reader
from shared.ports.webhooks import Webhooks

log = structlog.get_logger(SERVICE)


class Couriers:
    """Of one process."""

    def __init__(
        self,
        *,
        connect: Callable[[], Webhooks],
        secrets: SecretFiles,
        clock: Clock,
        pace: DeliveryPace,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when a courier has told something."""
        self._connect, self._secrets, self._clock, self._pace = connect, secrets, clock, pace
        self._wake = wake
        self._reader: Reader | None = None
        self._running: dict[str, Courier] = {}
        self._gone: list[Courier] = []
        self._forget()

    def _forget(self) -> None:
        self._reports: dict[str, DeliveryReported] = {}
        self._renewed: dict[str, None] = {}
        self._released: dict[str, None] = {}
        self._hurried: dict[str, None] = {}

    def begin(self, reader: Reader) -> None:
        """A new life, after `suspend`."""
        self._forget()
        self._reader = reader

    async def suspend(self) -> None:
        """End all."""
        self._gone += self._running.values()
        self._running = {}
        await self.end_gone()

    async def end_gone(self) -> None:
        """Close what couriers of documents that are no more have open."""
        gone, self._gone = self._gone, []
        for courier in gone:
            await courier.stop()

    # ── what a unit marks ──

    def renew(self, name: str) -> None:
        """Its document changed, or is deleted."""
        self._renewed[name] = None

    def release(self, name: str) -> None:
        """It has more notices."""
        self._released[name] = None

    def hurry(self, name: str) -> None:
        """It is to try at once."""
        self._hurried[name] = None

    def send_committed(self, destinations: Mapping[str, Destination]) -> None:
        """Everything marked is committed: `destinations` are those of today."""
        for name in self._renewed:
            self._replace(name, destinations.get(name))
        for name in self._released:
            if name in self._running:
                self._running[name].release(destinations[name].next_number)
        for name in self._hurried:
            if name in self._running:
                self._running[name].hurry()
        self._renewed, self._released, self._hurried = {}, {}, {}

    def _replace(self, name: str, destination: Destination | None) -> None:
        courier = self._running.pop(name, None)
        if courier is not None:
            courier.cancel()
            self._gone.append(courier)
        if destination is not None:
            self._running[name] = self._courier(destination)
            self._running[name].start()

    def _courier(self, destination: Destination) -> Courier:
        assert self._reader is not None
        return Courier(
            destination,
            webhooks=self._connect(),
            secrets=self._secrets,
            reader=self._reader,
            clock=self._clock,
            pace=self._pace,
            report=self._hear,
            log=log,
        )

    # ── what they tell ──

    def oldest_at_ms(self, name: str) -> int:
        """When the next notice of a destination came, as far as it was read; 0: none."""
        courier = self._running.get(name)
        return courier.oldest_at_ms if courier else 0

    @property
    def reported(self) -> bool:
        """Whether there is something to take."""
        return bool(self._reports)

    def take_reports(self) -> Collection[DeliveryReported]:
        """What was told since, once for each destination."""
        reports, self._reports = self._reports, {}
        return reports.values()

    def _hear(self, report: DeliveryReported) -> None:
        name = report.destination
        counts = {
            "delivered": report.delivered,
            "failed": report.failed,
            "given_up": report.given_up,
        }
        for outcome, count in counts.items():
            metrics.NOTIFICATIONS.labels(name, outcome).inc(count)
        self._reports[name] = merged(self._reports.get(name), report)
        self._wake()
