"""The organisation in the memory of an HTTP process, at most a second old."""

from __future__ import annotations

import asyncio
from typing import Final

from services.gateway.documents.documents import Organisation, organisation_of
from shared.ports.clock import Clock
from shared.ports.errors import MusterError
from shared.ports.reader import Reader

FRESH_SECONDS: Final = 1.0
_TOTAL: Final = "SELECT coalesce(sum(version), 0)::bigint AS total FROM gateway.document"
_DOCUMENTS: Final = (
    "SELECT o.version AS whole, d.kind, d.name, d.version, d.body"
    " FROM gateway.organisation o LEFT JOIN gateway.document d ON true"
)
"""Of one moment with the version of the whole."""


class OrganisationCache:
    """All documents; asked for again in the background when they are old.

    Versions only grow and documents stay, so the sum of the versions tells whether anything
    has changed.
    """

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._total = -1
        self._read_at_seconds = float("-inf")
        self._known = Organisation()
        self._task: asyncio.Task[None] | None = None

    async def current(self) -> Organisation:
        """What is known now; waits only when nothing was read yet."""
        if self._clock.monotonic_seconds() - self._read_at_seconds > FRESH_SECONDS:
            if self._total < 0:
                await self.refresh()
            elif self._task is None or self._task.done():
                self._task = asyncio.create_task(self._refresh_quietly())
        return self._known

    async def refresh(self) -> Organisation:
        """Read what has changed; raises Transient."""
        asked_at = self._clock.monotonic_seconds()
        rows = await self._reader.fetch(_TOTAL)
        if rows[0]["total"] != self._total:
            documents = await self._reader.fetch(_DOCUMENTS)
            self._known = organisation_of(documents, documents[0]["whole"])
            self._total = sum(row["version"] or 0 for row in documents)
        self._read_at_seconds = asked_at
        return self._known

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except MusterError:
            return  # what is known is still the best answer; writes check the version themselves
