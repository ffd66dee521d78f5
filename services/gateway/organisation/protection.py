"""Removing the protection of a priority class must be confirmed: its work can be evicted then."""

from __future__ import annotations

from typing import Any, Final

from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.http.problems import Problem
from shared.events.organisation import PriorityClassApplied

SLUG: Final = "takes-protection-away"
_LIVE: Final = "SELECT count(*) AS live FROM gateway.workload WHERE live AND priority_class = $1"


async def check_protection(
    gateway: GatewayContext,
    call: RequestContext,
    before: Any,  # noqa: ANN401  # one of Applied
    after: Any,  # noqa: ANN401  # the same
) -> None:
    """Raise a 409 where a protected class is no longer so, unless the caller forces it."""
    if call.truth("force"):
        return
    if takes_protection_away(before, after):
        rows = await gateway.reader.fetch(_LIVE, after.name)
        raise Problem(409, SLUG, warning(after.name, rows[0]["live"]))


def takes_protection_away(before: Any, after: Any) -> bool:  # noqa: ANN401  # one of Applied
    """Whether a class was protected and is not any more."""
    if not isinstance(before, PriorityClassApplied):
        return False
    return bool(before.protected and not after.protected)


def warning(name: str, live: int) -> str:
    """What it does, with the number of workloads that it does it to."""
    work = "1 workload" if live == 1 else f"{live} workloads"
    return (
        f"without protection, {work} of priority class {name} that wait or run now can be evicted"
        " for others; if that is meant, say force=true (`muster admin apply --force`)"
    )
