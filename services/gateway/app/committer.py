"""Group commit: one task collects what the handlers enqueue and makes it true together.

Handlers validate first, so a group can only fail as a whole; they await a future. The queue is
bounded: when it is full the caller is told to come back (429). One transaction for up to 500
submissions instead of one each is what carries the load (6,203/s against 1,069).

When the session breaks (lost lease, unknown commit), it is opened again and the same group is
tried again: every item carries its own derived ids, and a submission that did become true the
first time is found by its id and answered as a replay.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from services.gateway.app.submission_rows import KnownSubmission, ValidSubmission, outcome_of
from services.gateway.http.metrics import GROUP_ITEMS
from shared.ports.errors import LogLost, MusterError, Rejected, SlotTaken, Transient
from shared.ports.reader import Reader
from shared.ports.store import Write
from shared.runtime.handler import Change, Emit
from shared.runtime.session import Judge, Session

GROUP_ITEMS_MAX: Final = 500
WAITING_ITEMS_MAX: Final = 4_000
TRIES_SECONDS: Final = 2.5
"""An answer is known in 3 s, whatever the database does."""
BACKOFF_SECONDS: Final = 0.1
LOST_SECONDS: Final = 2.0
"""Until it is looked again whether a person has brought the database forward."""


class QueueFull(MusterError):  # noqa: N818  # says what happened
    """More is waiting than `WAITING_ITEMS_MAX`."""


@dataclass(slots=True, kw_only=True)
class Order:
    """What one request wants to become true: submissions, or emits and writes of its own.

    `alone` keeps it out of a group: its writes may fail for reasons of its own (a version).
    """

    submissions: Sequence[ValidSubmission] = ()
    emits: Sequence[Emit] = ()
    writes: Sequence[Write] = ()
    changes: Sequence[Change] = ()
    alone: bool = False
    done: asyncio.Future[list[KnownSubmission]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def size(self) -> int:
        """What it counts in the queue."""
        return max(len(self.submissions), 1)


class Committer:
    """See the module."""

    def __init__(
        self,
        session: Session,
        reader: Reader,
        log: structlog.stdlib.BoundLogger,
        *,
        waiting_items_max: int = WAITING_ITEMS_MAX,
        judge: Judge | None = None,
    ) -> None:
        """`judge` looks at what was restored before anything is committed (Session.open)."""
        self.ready = False
        self.why_not_ready = ""
        """What a person must know of; empty: nothing."""
        self._judge = judge
        self._session = session
        self._reader = reader
        self._log = log
        self._waiting_items_max = waiting_items_max
        self._orders: deque[Order] = deque()
        self._items = 0
        self._filled = asyncio.Event()
        self._stopping = False

    @property
    def waiting(self) -> int:
        """Submissions and commands that are not committed yet."""
        return self._items

    async def submit(self, order: Order) -> list[KnownSubmission]:
        """Wait until `order` is true; what is known of each of its submissions, in order.

        Raises:
            QueueFull: nothing was taken.
            Transient: it did not become true in time, as far as is known.
            Stale, Rejected: an order that is `alone` met another version, or bad content.
        """
        if self._items + order.size > self._waiting_items_max and self._items:
            raise QueueFull(f"{self._items} requests are waiting")
        self._orders.append(order)
        self._items += order.size
        self._filled.set()
        try:
            async with asyncio.timeout(TRIES_SECONDS):
                return await order.done
        except TimeoutError as error:
            raise Transient("the database did not answer in time") from error

    def stop(self) -> None:
        """Commit what waits, then return from `run`."""
        self._stopping = True
        self._filled.set()

    async def run(self) -> None:
        """Open the session and commit groups until stopped."""
        await self._open()
        while not self._stopping or self._orders:
            if not self._orders:
                self._filled.clear()
                await self._filled.wait()
                continue
            await self._finish(self._take())
        await self._session.close(graceful=True)
        self.ready = False

    def _take(self) -> list[Order]:
        """The next group: as many orders as fit, or one that wants to be alone."""
        group = [self._orders.popleft()]
        size = group[0].size
        while self._orders and not group[0].alone and not self._orders[0].alone:
            if size + self._orders[0].size > GROUP_ITEMS_MAX:
                break
            group.append(self._orders.popleft())
            size += group[-1].size
        return group

    async def _finish(self, group: Sequence[Order]) -> None:
        """Answer every order of `group`, one way or the other."""
        try:
            await self._settle(group)
        except MusterError as error:
            for order in group:
                if not order.done.done():
                    order.done.set_exception(error)
        finally:
            self._items -= sum(order.size for order in group)

    async def _settle(self, group: Sequence[Order]) -> None:
        """Try until it is true, or no caller waits, or one order is left with its error."""
        while awaited := [order for order in group if not order.done.done()]:
            try:
                await self._once(awaited)
            except MusterError as error:
                self._log.warning("not committed", error=str(error), orders=len(awaited))
                await self._open()
                for one in (one for order in awaited for one in order.submissions):
                    one.may_exist = True
                if not isinstance(error, Transient):
                    await self._after_refusal(awaited, error)

    async def _after_refusal(self, group: Sequence[Order], error: MusterError) -> None:
        """Stale: the same again, unless it is alone. Rejected: find the order it is about."""
        if len(group) == 1 and (group[0].alone or isinstance(error, Rejected)):
            group[0].done.set_exception(error)
        elif isinstance(error, Rejected):
            half = len(group) // 2
            await self._settle(group[:half])
            await self._settle(group[half:])

    async def _once(self, group: Sequence[Order]) -> None:
        await self._session.room()
        submissions = [one for order in group for one in order.submissions]
        known = await self._known(submissions)
        outcome, answers = outcome_of(submissions, known)
        for order in group:
            outcome.emits.extend(order.emits)
            outcome.writes.extend(order.writes)
            outcome.changes.extend(order.changes)
        if outcome.emits or outcome.writes or outcome.changes:
            await self._session.commit(outcome)
            GROUP_ITEMS.observe(sum(order.size for order in group))
        position = 0
        for order in group:
            count = len(order.submissions)
            if not order.done.done():
                order.done.set_result(answers[position : position + count])
            position += count

    async def _known(self, submissions: Sequence[ValidSubmission]) -> dict[str, str]:
        """Body hash by id of what was accepted before, through any door."""
        wanted = [one.workload_id for one in submissions if one.may_exist]
        if not wanted:
            return {}
        rows = await self._reader.fetch(
            "SELECT workload_id AS id, body_hash FROM gateway.accepted_request"
            " WHERE workload_id = ANY($1) UNION ALL"
            " SELECT id, body_hash FROM gateway.workload WHERE id = ANY($1)"
            " AND body_hash IS NOT NULL",
            wanted,
        )
        return {row["id"]: row["body_hash"] for row in rows}

    async def _open(self) -> None:
        """Take the lease (again), however long it takes; waiting callers give up by themselves.

        Raises:
            SlotTaken: another gateway has the name of this one.
        """
        self.ready = False
        while not self.ready:
            await self._session.close(graceful=False)
            try:
                await self._session.open(judge=self._judge)
                self.ready, self.why_not_ready = True, ""
            except SlotTaken:
                raise
            except MusterError as error:
                lost = isinstance(error, LogLost)
                self.why_not_ready = str(error) if lost else ""
                self._log.warning("session not opened", error=str(error))
                await asyncio.sleep(LOST_SECONDS if lost else BACKOFF_SECONDS)
