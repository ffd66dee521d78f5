"""Whether the log has records of a service that its database knows nothing of (ADR 92).

A database that was restored from a backup is older than the log. A service that went on with it
would give numbers twice, decide anew what was decided, and give away what is held. So a life
begins by comparing the newest number in the log with the next one of the database.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from shared.events.topics import AUDIT_FACTS, TOPICS, WITHOUT_ONE_COUNT, WRITTEN_BESIDE
from shared.ports.errors import DatabaseOlder, Transient
from shared.ports.publisher import NewestWritten
from shared.ports.store import Restored

Place = tuple[str, int]
"""Topic and partition."""
ANSWER_SECONDS: Final = 3.0
NEXT_STEP: Final = (
    "bring the database forward (muster-ops recover postgres), or accept that the service forgets"
    " what it told since"
)


def written_by(service: str, cell: int) -> Sequence[Place]:
    """The partitions with numbers of one shard of a service; those of teams are left out."""
    if service in WITHOUT_ONE_COUNT:
        return ()
    topics = [
        *(one for one in TOPICS if one.producer == service),
        *WRITTEN_BESIDE.get(service, ()),
    ]
    return [(one.name, cell if one.key == "cell" else 0) for one in topics]


def sealed_by(service: str, cell: int) -> Sequence[Place]:
    """Where each process of a service that counts for itself writes its seals of the audit."""
    return [(AUDIT_FACTS[service].name, cell)]


class NewerLog:
    """Of one shard."""

    def __init__(
        self, written: NewestWritten, service: str, places: Sequence[Place], subject: str = ""
    ) -> None:
        """`places`: where the shard writes; none: nothing is compared.

        `subject`: that of the shard's own records, where other shards write there, too.
        """
        self._written = written
        self._service = service
        self._places = places
        self._subject = subject

    async def check(self, restored: Restored) -> None:
        """Compare.

        Raises:
            DatabaseOlder: the log has numbers that the database has not given yet.
            Transient: the broker does not answer.
        """
        if not self._places:
            return
        newest = await self._written.newest(self._places, self._service, self._subject)
        sentences = {
            place: self._sentence(place, number, restored)
            for place, number in sorted(newest.items())
            if number >= restored.next_seq
        }
        if sentences:
            raise DatabaseOlder(sentences)

    async def check_if_answered(self, restored: Restored) -> None:
        """As `check`, for what goes on without a broker: then nothing is compared.

        Raises:
            DatabaseOlder: the log has numbers that the database has not given yet.
        """
        with contextlib.suppress(Transient, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.check(restored)

    def _sentence(self, place: Place, number: int, restored: Restored) -> str:
        topic, partition = place
        accept = (
            f"UPDATE {self._service}.watermark SET next_seq = {number + 1}, acked_seq = {number}"  # noqa: S608  # text for a person
            f" WHERE shard = '{restored.shard}' AND next_seq <= {number}"
        )
        return (
            f"{topic} partition {partition}: the newest record of {self._service} is number"
            f" {number}, and {restored.next_seq} is next in its database, which is older than the"
            f" log; {NEXT_STEP}: {accept}"
        )
