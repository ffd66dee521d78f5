"""A gateway that is away for a while: waiting commands go on, and tell it once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from muster.cli.output import note
from muster.errors import MusterError, ServerError, Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]

AWAY: Final = (Unreachable, ServerError)
"""What passes by waiting: no answer, or something between here and Muster fails (5xx)."""


class Outage:
    """Whether Muster is away; its begin and its end are told on stderr, once each."""

    def __init__(self) -> None:
        self._away = False

    def begin(self, error: MusterError) -> None:
        """A request has failed for good, with all its tries."""
        if not self._away:
            note(f"{str(error).rstrip('.')}. Waiting goes on; Ctrl-C ends it.")
        self._away = True

    def end(self) -> None:
        """A request was answered."""
        if self._away:
            note("Muster answers again.")
        self._away = False


async def events_through(
    outage: Outage,
    client: AsyncClient,
    workload_id: str | None,
    *,
    after: str,
    heard: bool,
    pause_seconds: float,
    team: str = "",
) -> AsyncIterator[Json]:
    """Events as they come, without end; an outage is waited for once an event came, or `heard`."""
    while True:
        try:
            async for event in client.watch(workload_id, after=after, team=team):
                after, heard = str(event.get("id", after)), True
                yield event
        except AWAY as error:
            if not heard:
                raise
            outage.begin(error)
        await asyncio.sleep(pause_seconds)
