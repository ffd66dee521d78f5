"""Delivers what waits for one destination: in order, one attempt at a time, with a growing pause.

Each destination has a courier of its own, so none waits for another. It reads committed rows only,
goes on with the next before the one delivered is deleted, and reports; after a kill the rows that
were not deleted are sent again: at least once, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from services.notifications.records import Delivery, Destination, expired_through, page_of
from services.notifications.rendering import slack_body, webhook_body, webhook_headers
from services.notifications.reports import DeliveryReported
from services.notifications.secrets import SecretFiles
from shared.ports.clock import Clock
from shared.ports.errors import MusterError
from shared.ports.reader import Reader
from shared.ports.webhooks import WebhookAnswer, Webhooks

PAGE_ROWS: Final = 100
"""Read at once; a digest has so many notices at most."""
READ_AGAIN_SECONDS: Final = 1.0
DOUBLINGS_MAX: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPace:
    """How long a courier pauses, and when it gives a notice up."""

    first_retry_seconds: float = 1.0
    last_retry_seconds: float = 3_600.0
    keep_seconds: float = 86_400.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def pause_seconds(self, failures: int, asked_seconds: float) -> float:
        """After so many failures in a row; a receiver may ask for more."""
        doubled = self.first_retry_seconds * float(1 << min(failures - 1, DOUBLINGS_MAX))
        return max(min(doubled, self.last_retry_seconds), asked_seconds)


class Courier:
    """See the module."""

    def __init__(
        self,
        destination: Destination,
        *,
        webhooks: Webhooks,
        secrets: SecretFiles,
        reader: Reader,
        clock: Clock,
        pace: DeliveryPace,
        report: Callable[[DeliveryReported], None],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._document = destination.document
        self._webhooks, self._secrets = webhooks, secrets
        self._reader, self._clock, self._pace, self._report = reader, clock, pace, report
        self._log = log
        self._next, self._end = destination.first_number, destination.next_number
        self._failing_since_ms = destination.failing_since_ms
        self._failures = 0
        self._page: list[Delivery] = []
        self._work, self._hurried = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def oldest_at_ms(self) -> int:
        """When the next to be delivered came, as far as it was read; 0: none."""
        return self._page[0].created_at_ms if self._page else 0

    def start(self) -> None:
        """Deliver from now on."""
        self._work.set()
        self._task = asyncio.create_task(self._run())

    def cancel(self) -> None:
        """Deliver no more; an attempt in hand may have been taken or not."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Deliver no more, and close what is open."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self._webhooks.close()

    def release(self, end: int) -> None:
        """What is before number `end` is committed."""
        self._end = end
        self._work.set()

    def hurry(self) -> None:
        """Try at once, whatever it waits for."""
        self._failures = 0
        self._hurried.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._deliver_next()
            except MusterError as error:
                self._log.warning("waiting notices are not read", error=str(error))
                await self._pace.sleep(READ_AGAIN_SECONDS)
            except Exception:  # noqa: BLE001  # one destination must not end the service
                self._log.exception("a notice is not delivered", destination=self._document.name)
                await self._pace.sleep(self._pace.last_retry_seconds)

    async def _deliver_next(self) -> None:
        if not self._page:
            await self._read()
        if not self._page:
            self._work.clear()
            if self._next >= self._end:
                await self._work.wait()
            return
        batch = await self._batch()
        answer = await self._attempt(batch)
        if answer.problem:
            await self._failed(batch, answer)
        else:
            self._delivered(batch)

    async def _read(self) -> None:
        end = self._end  # more may be released while this is read: that is not skipped
        name = self._document.name
        self._page = list(await page_of(self._reader, name, self._next, end, PAGE_ROWS))
        if not self._page:
            self._next = max(self._next, end)

    async def _batch(self) -> Sequence[Delivery]:
        """One; of a digest all that came until it is due."""
        if not self._document.digest_seconds:
            return self._page[:1]
        due_ms = self._page[0].created_at_ms + 1000 * self._document.digest_seconds
        await self._pause((due_ms - self._clock.now_ms()) / 1000)
        await self._read()
        return self._page

    async def _attempt(self, batch: Sequence[Delivery]) -> WebhookAnswer:
        notices = [one.notice for one in batch]
        try:
            url = await self._url()
            if self._document.format == "slack":
                body, headers = slack_body(notices), {"Content-Type": "application/json"}
            else:
                body = webhook_body(notices, bool(self._document.digest_seconds))
                identifier = notices[0].id if len(batch) == 1 else f"{notices[0].id}+{len(batch)}"
                keys = await self._secrets.lines(self._document.secret)
                headers = webhook_headers(identifier, body, keys, self._clock.now_ms())
        except LookupError as error:
            return WebhookAnswer(problem=str(error.args[0]))
        except (ValueError, RuntimeError):
            return WebhookAnswer(problem=f"secret {self._document.secret} is no key (whsec_...)")
        return await self._webhooks.post(url, headers, body)

    async def _url(self) -> str:
        if self._document.url:
            return self._document.url
        return (await self._secrets.lines(self._document.url_from))[0]

    def _delivered(self, batch: Sequence[Delivery]) -> None:
        self._failures = self._failing_since_ms = 0
        self._advance(batch[-1].number)
        self._tell(through=batch[-1].number, delivered=len(batch))

    async def _failed(self, batch: Sequence[Delivery], answer: WebhookAnswer) -> None:
        now_ms = self._clock.now_ms()
        self._failures += 1
        self._failing_since_ms = self._failing_since_ms or now_ms
        self._tell(failed=1, problem=self._hidden(answer.problem))
        keep_ms = round(1000 * self._pace.keep_seconds)
        if batch[0].created_at_ms < now_ms - keep_ms:
            through = await expired_through(
                self._reader, self._document.name, self._end, now_ms - keep_ms
            )
            given_up = through + 1 - self._next
            self._advance(through)
            problem = self._hidden(answer.problem)
            self._tell(through=through, given_up=given_up, problem=problem)
        await self._pause(self._pace.pause_seconds(self._failures, answer.wait_seconds))

    def _hidden(self, problem: str) -> str:
        """Without the address, where that is a secret."""
        return problem if self._document.url or "://" not in problem else "cannot be reached"

    def _advance(self, through: int) -> None:
        self._next = through + 1
        self._page = [one for one in self._page if one.number > through]

    def _tell(
        self,
        *,
        through: int = 0,
        delivered: int = 0,
        given_up: int = 0,
        failed: int = 0,
        problem: str = "",
    ) -> None:
        self._report(
            DeliveryReported(
                destination=self._document.name,
                version=self._document.version,
                at_ms=self._clock.now_ms(),
                through=through,
                delivered=delivered,
                given_up=given_up,
                failed=failed,
                failing_since_ms=self._failing_since_ms,
                problem=problem,
            )
        )

    async def _pause(self, seconds: float) -> None:
        """Until then, or until it is hurried."""
        self._hurried.clear()
        if seconds <= 0:
            return
        sleeping = asyncio.ensure_future(self._pace.sleep(seconds))
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait([sleeping, hurried], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            hurried.cancel()
