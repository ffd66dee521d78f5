"""Tells the last whole week to destinations, once: the report of `GET /v1/report` (ADR 110).

Of a day nothing is settled until six hours after its end, so a week is told on Monday at seven
(UTC), or when a gateway runs again. The row of the week and its commands are one transaction: of
several gateways one is first, and the others find the row. A week without work is not told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext
from services.gateway.app.submission_rows import cause_of
from services.gateway.http.problems import Problem
from services.gateway.usage.rightsize_reads import monday_of
from services.gateway.usage.usage_sums import date_of, number_of
from services.gateway.usage.week_reads import SAVINGS_MAX, WEEK, amounts_of, week_of
from services.gateway.usage.week_views import TeamWeek, WeekReport
from shared.core.quota.cost import DAY_MS
from shared.events.notifications import TellWeek
from shared.events.topics import NOTIFICATION_COMMANDS
from shared.ports.errors import MusterError, Stale
from shared.ports.store import Write
from shared.runtime.handler import Emit

DUE_MS: Final = 7 * 3_600_000
"""After the end of a week, in milliseconds."""
ROUND_SECONDS: Final = 60.0
REASON_CHARACTERS_MAX: Final = 200
_COUNTS: Final = ("submitted", "failed", "preempted", "idle_released")
_TOLD: Final = (
    "INSERT INTO gateway.told_week (week, at_ms, epoch) VALUES ({0}::integer, {1}::bigint,"
    " {epoch}) ON CONFLICT (week) DO NOTHING RETURNING 1"
)
_NEWEST: Final = "SELECT coalesce(max(week), 0) AS week FROM gateway.told_week"


async def tell_weeks_forever(gateway: GatewayContext) -> None:
    """Look each minute whether a week is to be told, until cancelled."""
    while True:
        try:
            await tell_week(gateway)
        except (MusterError, Problem) as error:
            gateway.log.warning("the week is not told", error=str(error))
        await asyncio.sleep(ROUND_SECONDS)


async def tell_week(gateway: GatewayContext) -> bool:
    """Tell the last week if that is due and was not done; whether it was told now.

    Raises:
        MusterError, Problem: it is not told; the next round does it.
    """
    now_ms = gateway.clock.now_ms()
    monday = monday_of(date_of((now_ms - DUE_MS) // DAY_MS)) - WEEK
    week = number_of(monday)
    (newest,) = await gateway.reader.fetch(_NEWEST)
    if newest["week"] >= week:
        return False
    report = await week_of(gateway, monday, None)
    if not report.teams:
        return False
    emits = [_emit(one, number_of(monday + WEEK) * DAY_MS) for one in commands_of(report)]
    try:
        told = Write(_TOLD, (week, now_ms), 1)
        await gateway.commit(Order(emits=emits, writes=[told], alone=True))
    except Stale:  # another gateway was first
        return False
    return True


def _emit(command: TellWeek, at_ms: int) -> Emit:
    """The same week and team have the same id, also where the database went back."""
    subject = f"week {command.team}"
    cause = cause_of(command, subject, command.since, at_ms)
    return Emit(payload=command, topic=NOTIFICATION_COMMANDS, subject=subject, cause=cause)


def commands_of(report: WeekReport) -> Iterator[TellWeek]:
    """One of the fleet, then one of each team."""
    teams = report.teams
    named = ((one.team, item) for one in teams for item in one.savings)
    savings = sorted(named, key=lambda pair: -pair[1].saved_microdollars)[:SAVINGS_MAX]
    remarks = [f"{team}: {item.name} {item.message}" for team, item in savings]
    remarks += [
        f"{one.count} failed: {one.reason[:REASON_CHARACTERS_MAX] or 'no reason is known'}"
        for one in report.failures[:SAVINGS_MAX]
    ]
    yield TellWeek(
        team="",
        since=report.since,
        until=report.until,
        cost_before_microdollars=sum(one.cost_before_microdollars for one in teams),
        remarks=tuple(remarks),
        **amounts_of(report.total),
        **{name: sum(getattr(one, name) for one in teams) for name in _COUNTS},
    )
    for one in teams:
        yield _of_team(report, one)


def _of_team(report: WeekReport, one: TeamWeek) -> TellWeek:
    return TellWeek(
        team=one.team,
        since=report.since,
        until=report.until,
        cost_before_microdollars=one.cost_before_microdollars,
        wait_p50_ms=one.wait_p50_ms,
        wait_p95_ms=one.wait_p95_ms,
        remarks=tuple(f"{item.name} {item.message}" for item in one.savings),
        **amounts_of(one),
        **{name: getattr(one, name) for name in _COUNTS},
    )
