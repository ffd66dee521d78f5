"""Two teams that share a cohort, and facts about their work: for what a gateway tells of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from shared.core.model.decision import Reason
from shared.core.model.nouns import GpuRequest, Placement, PodSet
from shared.core.model.team_policy import AtLimit
from shared.core.model.units import Resources
from shared.events import quotas, topics
from tests.fixtures.servers import Database
from tests.support import facts as telling
from tests.support.facts import Fact
from tests.support.gateway import Gateway, running_gateway

START = int(time.time() * 1000) - 60_000
HOUR = 3_600
LASTS = 24 * HOUR
"""So many seconds each runs: longer than all tests take from `START` on."""


@contextlib.asynccontextmanager
async def two_teams(kafka: str, database: Database, prefix: str) -> AsyncIterator[Gateway]:
    """A gateway that knows red and blue, each with eight H100 of cohort `all`."""
    async with running_gateway(kafka, database.url("gateway"), prefix) as running:
        await running.organise("red", "blue")
        await running.call("PATCH", "/v1/cohorts/all", {})
        for team in ("red", "blue"):
            reply = await running.call(
                "PATCH", f"/v1/queues/{team}", queue_of(team), headers={"If-Match": '"2"'}
            )
            assert reply.status in {200, 412}, reply.body
        yield running


def queue_of(team: str, **more: Any) -> dict[str, Any]:
    """The document of its queue: eight H100 of cohort `all`, and what else is said."""
    nominal = {"gpu_milli": 8000, "cpu_milli": 64_000, "memory_mib": 65_536}
    flavors = [{"flavor": "h100", "nominal": nominal}]
    return {"team": team, "cohort": "all", "flavors": flavors, **more}


def queued(
    identifier: str,
    team: str = "red",
    *,
    priority: int = 0,
    after: int = 0,
    products: tuple[str, ...] = (),
) -> Fact:
    """It asks for eight GPUs for a day."""
    return telling.queued(
        identifier,
        team,
        pods=PodSet(gpu=GpuRequest(count=8), cpu_milli=4000, memory_mib=1024),
        at_ms=START + after,
        priority=priority,
        seconds=LASTS,
        products=products,
    )


def running(identifier: str, team: str, since_ms: int) -> list[Fact]:
    """It holds its eight GPUs."""
    charge = Resources(gpu_milli=8000, cpu_milli=4000, memory_mib=1024)
    placement = Placement(flavor="h100", pods=(), charge=charge)
    return telling.started(
        identifier, team, placement=placement, at_ms=since_ms, submitted_at_ms=START
    )


def refused(identifier: str, **promised: int) -> Fact:
    """Quota has told it why it waits."""
    fact = quotas.QuotaRefused(
        workload_id=identifier,
        team="red",
        queue="red",
        reason=Reason.WAITING_FOR_QUOTA,
        message="exceeded quota: all",
        next_step="wait",
        evidence={"requested_gpu_milli": 8000, **promised},
    )
    return topics.QUOTA_FACTS, fact


def budget_told(team: str, percent: int) -> quotas.BudgetTold:
    """So much of 100 GPU-hours of November 2026 is spent; then nothing is started."""
    return quotas.BudgetTold(
        team=team,
        month="2026-11",
        percent=percent,
        at_ms=START,
        at_limit=AtLimit.STOP,
        spent_gpu_milli_hours=1_000 * percent,
        limit_gpu_milli_hours=100_000,
        spent_microdollars=0,
        limit_microdollars=None,
    )
