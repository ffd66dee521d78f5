"""What smaller forms would have saved, by team, as gauges: the report of right-size (ADR 94).

Every gateway tells the same: take the greatest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Final

from services.gateway.app.context import GatewayContext
from services.gateway.http.metrics import SAVING_DOLLARS
from services.gateway.http.problems import Problem
from services.gateway.usage.rightsize_reads import DAYS, seen_in
from services.gateway.usage.usage_sums import date_of
from shared.core.quota.cost import DAY_MS
from shared.ports.errors import MusterError

ROUND_SECONDS: Final = 60.0
FIRST_SECONDS: Final = 5.0
"""Between two looks while there is no team."""
PART_MAX: Final = 0.01
"""Of the time that rounds may take."""
ITEMS_MAX: Final = 100_000
TEAMS_MAX: Final = 200
"""Teams with a gauge: those that would save most."""
MICRODOLLARS: Final = 1_000_000


async def tell_savings_forever(gateway: GatewayContext) -> None:
    """Measure each minute, less often where that takes long, until cancelled."""
    told: set[str] = set()
    while True:
        began = gateway.clock.monotonic_seconds()
        try:
            told = await tell_savings(gateway, told)
        except (MusterError, Problem) as error:
            gateway.log.warning("savings are not told", error=str(error))
        took = gateway.clock.monotonic_seconds() - began
        await asyncio.sleep(max(ROUND_SECONDS if told else FIRST_SECONDS, took / PART_MAX))


async def tell_savings(gateway: GatewayContext, told: set[str]) -> set[str]:
    """Set the gauge of each team, and take away those of `told` that have none; the teams.

    Raises:
        MusterError, Problem: nothing has changed.
    """
    today = date_of(gateway.clock.now_ms() // DAY_MS)
    report = await seen_in(
        gateway, today - timedelta(days=DAYS), today + timedelta(days=1), None, ITEMS_MAX
    )
    saved = Counter(dict.fromkeys((await gateway.organisation.current()).teams, 0))
    for one in () if report is None else report.items:
        saved[one.team] += one.saved_microdollars
    most = dict(saved.most_common(TEAMS_MAX))
    for team, microdollars in most.items():
        SAVING_DOLLARS.labels(team).set(microdollars / MICRODOLLARS)
    for team in told - most.keys():
        SAVING_DOLLARS.remove(team)
    return set(most)
