"""Teams that exist have their topics on the broker, with the quotas and sizes of today's settings.

A new team gets them when it is made. This is for those made before, at each start, and again from
time to time for a broker whose configuration was changed by hand, or whose data was lost: without
its topics a team cannot submit, and admission waits for them (ADR 98).
"""

from __future__ import annotations

import asyncio
from typing import Final

from services.gateway.app.context import GatewayContext
from shared.ports.errors import MusterError

AGAIN_SECONDS: Final = 3_600.0
TOPICS_SECONDS: Final = 30.0
"""Between two looks whether all topics of teams are there: one request."""
RETRY_SECONDS: Final = 10.0


async def limit_teams_forever(gateway: GatewayContext) -> None:
    """Until cancelled; a broker or database that is away is tried again."""
    limited_at = float("-inf")
    while True:
        now = gateway.clock.monotonic_seconds()
        whole = await _restored(gateway)
        if whole and now - limited_at >= AGAIN_SECONDS and (whole := await _limited(gateway)):
            limited_at = now
        await asyncio.sleep(min(TOPICS_SECONDS, AGAIN_SECONDS) if whole else RETRY_SECONDS)


async def _teams(gateway: GatewayContext) -> list[str]:
    organisation = await gateway.organisation.refresh()
    return sorted(team.name for team in organisation.teams.values() if team.kafka)


async def _restored(gateway: GatewayContext) -> bool:
    try:
        teams = await gateway.team_access.restore(await _teams(gateway))
    except MusterError as error:
        gateway.log.warning("topics of teams are not made again", error=str(error))
        return False
    if teams:
        gateway.log.warning("topics of teams were made again", teams=list(teams))
    return True


async def _limited(gateway: GatewayContext) -> bool:
    try:
        await gateway.team_access.limit(await _teams(gateway))
    except MusterError as error:
        gateway.log.warning("teams are not limited on the broker", error=str(error))
        return False
    return True
