"""What was asked for and does not exist is told together with what does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.http.authorisation import AccessVerdict, Action, authorise
from services.gateway.http.problems import Problem

NAMES_MAX: Final = 10
NEAREST_MAX: Final = 3
_PARTS: Final = "SELECT DISTINCT flavor, pool FROM gateway.node WHERE NOT removed AND body <> ''"
_NODES: Final = "SELECT name FROM gateway.node WHERE NOT removed AND body <> '' ORDER BY name"


def missing(kind: str, name: str, names: Iterable[str]) -> Problem:
    """404 that names what exists of this kind, the names nearest to `name` first."""
    known = sorted(set(names) - {""})
    near = difflib.get_close_matches(name, known, n=NEAREST_MAX)
    listed = [*near, *(one for one in known if one not in near)]
    shown, more = listed[:NAMES_MAX], len(listed) - NAMES_MAX
    there = f"there are: {', '.join(shown)}" if shown else "there is none"
    rest = f" and {more} more" if more > 0 else ""
    return Problem(404, "not-found", f"{kind} {name} does not exist; {there}{rest}")


async def check_names(
    gateway: GatewayContext,
    call: RequestContext,
    *,
    team: str = "",
    queue: str = "",
    flavor: str = "",
    pool: str = "",
) -> None:
    """404 for a name that an empty answer was asked for by, if there is none of it.

    Of queues only those that the caller may read are named; a caller that may not read a team
    does not come here with its name.
    """
    if not (team or queue or flavor or pool):
        return
    organisation = await gateway.organisation.refresh()
    if team and team not in organisation.teams:
        raise missing("team", team, organisation.teams)
    readable = [
        one.name
        for one in organisation.queues.values()
        if authorise(call.subject, Action.READ_TEAM, one.team) is AccessVerdict.ALLOWED
    ]
    if queue and queue not in readable:
        raise missing("queue", queue, readable)
    if flavor or pool:
        rows = await gateway.reader.fetch(_PARTS)
        flavors = {row["flavor"] for row in rows} | organisation.flavors.keys()
        if flavor and flavor not in flavors:
            raise missing("flavor", flavor, flavors)
        pools = {row["pool"] for row in rows}
        if pool and pool not in pools:
            raise missing("pool", pool, pools)


async def missing_node(gateway: GatewayContext, name: str) -> Problem:
    """404 for a node that has not reported itself."""
    return missing("node", name, (row["name"] for row in await gateway.reader.fetch(_NODES)))
