"""`muster events`: what happened, of a workload, of a team or of all; the newest, or all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.durations import moment_of
from muster.cli.failures import UsageError
from muster.cli.outage import Outage, events_through
from muster.cli.output import Format, inline, local_time, note, reason_of, show_value
from muster.cli.session import call, now_ms
from muster.cli.workloads import WATCH_SECONDS, OutputOption, WatchOption, resolve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from muster.client import AsyncClient

Json = dict[str, Any]
TAIL: Final = 1000
"""So many are shown if nothing is said."""


def events(  # noqa: PLR0917  # typer's form
    workload: Annotated[
        str,
        typer.Argument(
            help="Only of this workload (id or name).", autocompletion=completion.workloads
        ),
    ] = "",
    team: Annotated[
        str,
        typer.Option("--team", "-t", help="Only of this team.", autocompletion=completion.teams),
    ] = "",
    since: Annotated[
        str, typer.Option(help="Only from 10m (ago), or a time such as 2026-11-21T14:05, on.")
    ] = "",
    tail: Annotated[
        int | None,
        typer.Option(min=1, help=f"Only the newest N; {TAIL} if no --after is given."),
    ] = None,
    watch: WatchOption = False,  # noqa: FBT002  # typer's form
    after: Annotated[
        str, typer.Option(help="All behind this event id; 0: from the oldest on.")
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell what happened, of one workload, of a team or of all, the newest last.

    Examples:
      muster events train-7

      muster events --since 10m --tail 50

      muster events -t vision -w -o json
    """
    if since and after and tail is None:
        raise UsageError("--since and --after both say where it begins; give one of them")
    since_ms = max(moment_of(since, now_ms(), option="--since"), 0) if since else 0

    async def tell(client: AsyncClient) -> None:
        identifier = await resolve(client, workload) if workload else None
        start = after
        if not watch or since or tail:
            shown = _Shown(client, identifier, team, since_ms, output)
            start = await shown.tell(after, tail)
        if watch:
            await _live(client, identifier, after=start, team=team, output=output)

    try:
        call(tell)
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("")


class _Shown:
    """Recorded events of a workload, of a team or of all, from a moment on."""

    def __init__(
        self,
        client: AsyncClient,
        identifier: str | None,
        team: str,
        since_ms: int,
        output: Format,
    ) -> None:
        self._client = client
        self._identifier = identifier
        self._team = team
        self._since_ms = since_ms
        self._output = output

    async def tell(self, after: str, tail: int | None) -> str:
        """Show those behind `after`, or the newest; the id after which others will follow."""
        if after and tail is None:
            pages = self._client.event_pages(self._identifier, after=after, team=self._team)
            return await self._pages(pages) or after
        count = tail or TAIL
        found, more = await self._client.newest_events(
            self._identifier,
            count=count,
            after=after or "0",
            team=self._team,
            since_ms=self._since_ms,
        )
        last = str(found[-1]["id"]) if found else after
        self._page(found)
        if more:
            note(f"Only the newest {count} are shown; --tail N shows more, --after 0 all.")
        self._end(found)
        return last

    async def _pages(self, pages: AsyncIterator[list[Json]]) -> str:
        """Each page as soon as it is read; YAML is one document of all."""
        found: list[Json] = []
        last = ""
        async for page in pages:
            last = str(page[-1]["id"]) if page else last
            self._page(page)
            found += page
        self._end(found)
        return last

    def _page(self, page: list[Json]) -> None:
        if (
            self._identifier
        ):  # told by several services: what one says may be read before another's
            page.sort(key=lambda event: event.get("at_ms", 0))
        for event in page if self._output is not Format.YAML else ():
            _show_event(event, self._output)

    def _end(self, found: Sequence[Json]) -> None:
        if self._output is Format.YAML:
            show_value({"items": list(found)}, self._output)
        elif not found:
            note("Nothing has happened since." if self._since_ms else "Nothing has happened yet.")


async def _live(
    client: AsyncClient, identifier: str | None, *, after: str, team: str, output: Format
) -> None:
    """Without end; once an event came, an outage is told once and waited for."""
    outage = Outage()
    events = events_through(
        outage,
        client,
        identifier,
        after=after,
        heard=False,
        pause_seconds=WATCH_SECONDS,
        team=team,
    )
    async for event in events:
        outage.end()
        _show_event(event, output)


def _show_event(event: Json, output: Format) -> None:
    if output is Format.JSON:
        print(inline(event), flush=True)  # one line each, for programs that read a stream
    elif output is Format.NAME:
        print(event.get("type", ""), flush=True)
    elif output is Format.YAML:
        show_value([event], output)
    else:
        print(event_line(event), flush=True)


def event_line(event: Json) -> str:
    """One line for people."""
    moment = event.get("at_ms")
    clock = local_time(moment) if moment else ""
    words = (
        clock,
        event.get("workload_id", ""),
        event.get("state", ""),
        reason_of(event),
        event.get("message", ""),
    )
    return "  ".join(str(word) for word in words if word)
