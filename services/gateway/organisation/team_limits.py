"""Teams that exist get the quotas and topic sizes of today's settings on the broker.

A new team gets them when it is made. This is for those made before, at each start, and again from
time to time for a broker whose configuration was changed by hand.
"""

from __future__ import annotations

import asyncio
from typing import Final

from services.gateway.app.context import GatewayContext
from shared.ports.errors import MusterError

AGAIN_SECONDS: Final = 3_600.0
RETRY_SECONDS: Final = 10.0


async def limit_teams_forever(gateway: GatewayContext) -> None:
    """Until cancelled; a broker or database that is away is tried again."""
    while True:
        limited = await _limited(gateway)
        await asyncio.sleep(AGAIN_SECONDS if limited else RETRY_SECONDS)


async def _limited(gateway: GatewayContext) -> bool:
    try:
        organisation = await gateway.organisation.refresh()
        teams = sorted(team.name for team in organisation.teams.values() if team.kafka)
        await gateway.team_access.limit(teams)
    except MusterError as error:
        gateway.log.warning("teams are not limited on the broker", error=str(error))
        return False
    return True
