"""What a read costs, in tokens: about the milliseconds that it takes of the gateway's process.

The table of routes says what a read of each route costs beside its rows (`Route.tokens`); rows are
those that the query parameter `limit` asks for. A stream costs its opening, and is limited by the
number of open streams after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from services.gateway.http.authorisation import Action
from services.gateway.http.route import DRY_RUN, LIMIT, PAGE_ITEMS, PAGE_ITEMS_MAX, Route

ROWS_FOR_TOKEN: Final = 50
STREAM_TOKENS: Final = 5
EVENT_STREAM: Final = "text/event-stream"
_NOT_LIMITED: Final = (None, Action.READ_METRICS)
"""Probes and scrapers: they come at their own rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCost:
    """Of one request; `is_stream`: its answer stays open."""

    tokens: int
    is_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Tokens per second of a key and of a team, and reads of a team at once; 0: no limit."""

    key_tokens: int
    team_tokens: int
    in_hand: int


def read_cost(
    route: Route, method: str, query: Mapping[str, str], accept: str = ""
) -> ReadCost | None:
    """What a request costs; None for what is no read, or not limited."""
    if route.action in _NOT_LIMITED:
        return None
    if method == "POST":
        is_dry = DRY_RUN in route.parameters and query.get(DRY_RUN.name) == "true"
        rehearses = route.rehearses or is_dry
        return ReadCost(tokens=route.tokens) if rehearses else None
    if method not in {"GET", "HEAD"}:
        return None
    if route.text or (route.streams and method == "GET" and EVENT_STREAM in accept):
        return ReadCost(tokens=STREAM_TOKENS, is_stream=True)
    rows = _rows(query.get(LIMIT.name, "")) if LIMIT in route.parameters else 0
    return ReadCost(tokens=route.tokens + rows // ROWS_FOR_TOKEN)


def _rows(limit: str) -> int:
    """Rows of a page; a number that breaks the rule is refused before anything is read."""
    asked = int(limit) if limit.isascii() and limit.isdigit() else PAGE_ITEMS
    return min(asked, PAGE_ITEMS_MAX)
