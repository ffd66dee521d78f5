"""What a shell completes: ids of workloads, states, kinds, and names of all that has one.

A shell that asks gets an answer within `SECONDS` or none: a completion never fails and never
waits for a Muster that is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import typer

from muster.cli.document_kinds import COLLECTIONS, ORDER, kind_of
from muster.cli.failures import UsageError
from muster.client import ENDED

if TYPE_CHECKING:
    from muster.client import AsyncClient

SECONDS: Final = 2.0
LIMIT: Final = 500
ROLES: Final = ("viewer", "member", "admin", "operator")
KINDS: Final = ("training", "inference", "batch-inference", "notebook")
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


def quotas(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues, or of cohorts where `--cohorts` is given."""
    what = "cohorts" if context.params.get("cohorts") else "queues"
    return _beginning(incomplete, lambda client: _names(client, what))


def flavors(incomplete: str) -> list[str]:
    """Names of flavors."""
    return _beginning(incomplete, lambda client: _names(client, "flavors"))


def priority_classes(incomplete: str) -> list[str]:
    """Names of priority classes."""
    return _beginning(incomplete, lambda client: _names(client, "priority-classes"))


def destinations(incomplete: str) -> list[str]:
    """Names of destinations of notifications."""
    return _beginning(incomplete, lambda client: _names(client, "notifications"))


def documents(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the documents of the kind that stands before; of keys, which are a team's, none."""
    try:
        collection = COLLECTIONS.get(kind_of(context.params.get("kind") or ""), "")
    except UsageError:
        return []
    return _beginning(incomplete, lambda client: _names(client, collection)) if collection else []


def document_kinds(incomplete: str) -> list[str]:
    """Kinds of documents, in the letters in which they are begun: a shell takes no others."""
    begun = len(incomplete)
    return [incomplete + one[begun:] for one in ORDER if one[:begun].lower() == incomplete.lower()]


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Prefixes of the keys of the team that is named before."""
    team = context.params.get("team") or ""

    async def ask(client: AsyncClient) -> list[str]:
        return [one["prefix"] for one in await client.keys(team) if not one["revoked_at_ms"]]

    return _beginning(incomplete, ask) if team else []


def roles(incomplete: str) -> list[str]:
    """What a key may do."""
    return [one for one in ROLES if one.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """What a workload is for."""
    return [one for one in KINDS if one.startswith(incomplete)]


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
