"""What a shell completes: names and ids of workloads, states, queues, nodes.

A shell that asks gets an answer within `SECONDS` or none: a completion never fails and never
waits for a Muster that is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from muster.client import ENDED

if TYPE_CHECKING:
    from muster.client import AsyncClient

SECONDS: Final = 2.0
LIMIT: Final = 500
LIVE: Final = (
    "received",
    "queued",
    "held",
    "placed",
    "bound",
    "running",
    "evicting",
    "cancelling",
)


def workloads(incomplete: str) -> list[str]:
    """Names of what runs or waits, and ids where an id was begun."""

    async def ask(client: AsyncClient) -> list[str]:
        found = [one async for one in client.workloads(state=",".join(LIVE), limit=LIMIT)]
        return [one[field] for field in ("name", "id") for one in found]

    return _beginning(incomplete, ask)


def queues(incomplete: str) -> list[str]:
    """Names of queues."""
    return _beginning(incomplete, lambda client: _names(client, "queues"))


def teams(incomplete: str) -> list[str]:
    """Names of teams that the caller may read."""
    return _beginning(incomplete, lambda client: _names(client, "teams"))


def nodes(incomplete: str) -> list[str]:
    """Names of nodes."""
    return _beginning(incomplete, lambda client: _names(client, "nodes"))


def states(incomplete: str) -> list[str]:
    """States of a workload."""
    return [one for one in (*LIVE, *sorted(ENDED)) if one.startswith(incomplete)]


async def _names(client: AsyncClient, what: str) -> list[str]:
    return [one["name"] for one in await client.listing(what)]


def _beginning(incomplete: str, ask: Callable[[AsyncClient], Awaitable[list[str]]]) -> list[str]:
    from muster.client import AsyncClient
    from muster.errors import MusterError

    async def within() -> list[str]:
        async with asyncio.timeout(SECONDS), AsyncClient(tries_max=1) as client:
            return await ask(client)

    try:
        found = asyncio.run(within())
    except (MusterError, TimeoutError):
        return []
    return sorted({one for one in found if one.startswith(incomplete)})
