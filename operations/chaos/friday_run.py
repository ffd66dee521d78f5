"""Carries a Friday out: the node goes down, the work is waited for, the node comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from operations.chaos.cost import Outcome, Work, outcomes_of, report_of
from operations.chaos.faults import Fault, Strike
from operations.chaos.friday import FridayRules, check_hours, chosen
from operations.chaos.places import Place
from shared.ports.clock import Clock

POLL_SECONDS: Final = 0.25
Sleep = Callable[[float], Awaitable[None]]


class Site(Protocol):
    """What a Friday sees and does."""

    async def places(self) -> dict[str, Place]:
        """All simulated nodes."""
        ...

    async def holding(self) -> list[Work]:
        """All work that holds devices."""
        ...

    async def work_of(self, ids: Sequence[str]) -> dict[str, Work]:
        """Some work as it is now."""
        ...

    async def strike(self, strike: Strike, place: Place) -> None:
        """Make a fault."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The node of this Friday, and the work on it."""

    place: Place
    work: tuple[Work, ...]


async def planned(site: Site, rules: FridayRules, seed: str) -> Plan:
    """Which node is taken; raises Failure where there is none."""
    work = await site.holding()
    place = chosen(rules, (await site.places()).values(), work, seed)
    return Plan(place=place, work=tuple(one for one in work if place.name in one.nodes))


def as_it_stands(plan: Plan, rules: FridayRules, now_ms: int) -> dict[str, Any]:
    """The plan, for programs: what the node's end would cost now, and when it may be taken."""
    return {
        "node": plan.place.name,
        "flavor": plan.place.flavor,
        "may_begin": rules.hours.next_open(_moment(now_ms)).isoformat(),
        "workloads": [one.id for one in plan.work],
        "gpu_hours_lost": report_of(plan.place.name, _now(plan, now_ms), back=True)[
            "gpu_hours_lost"
        ],
    }


async def carried_out(
    site: Site,
    rules: FridayRules,
    seed: str,
    clock: Clock,
    *,
    wait_seconds: float,
    leave_down: bool,
    tell: Callable[[str], None],
    sleep: Sleep = asyncio.sleep,
) -> dict[str, Any]:
    """The report of a Friday; the node is back at its end, whatever happens meanwhile.

    Raises:
        Failure: it is outside the hours, no node may be taken, or a door does not answer.
    """
    check_hours(rules, _moment(clock.now_ms()))
    plan = await planned(site, rules, seed)
    place = plan.place
    tell(f"{place.name} goes down with {len(plan.work)} workloads")
    struck_ms = clock.now_ms()
    try:
        await site.strike(Strike(fault=Fault.NODE, node=place.name), place)
        outcomes = await _settled(
            site, plan, struck_ms, clock, wait_seconds=wait_seconds, sleep=sleep
        )
    finally:
        if not leave_down:
            await site.strike(Strike(fault=Fault.UP, node=place.name), place)
            tell(f"{place.name} is back")
    return report_of(place.name, outcomes, back=not leave_down)


async def _settled(
    site: Site,
    plan: Plan,
    struck_ms: int,
    clock: Clock,
    *,
    wait_seconds: float,
    sleep: Sleep,
) -> list[Outcome]:
    """What became of the work when all of it runs elsewhere or has ended, or the time is up.

    What is settled once stays so: it may be moved again, or end, while others are waited for.
    """
    ids = [one.id for one in plan.work]
    deadline = clock.monotonic_seconds() + wait_seconds
    settled: dict[str, Outcome] = {}
    while True:
        found = await site.work_of(ids) if ids else {}
        outcomes = [
            settled.get(one.before.id, one)
            for one in outcomes_of(plan.place.name, plan.work, found, struck_ms, clock.now_ms())
        ]
        settled = {one.before.id: one for one in outcomes if one.settled}
        if len(settled) == len(ids) or clock.monotonic_seconds() >= deadline:
            return outcomes
        await sleep(POLL_SECONDS)


def _now(plan: Plan, now_ms: int) -> list[Outcome]:
    return outcomes_of(plan.place.name, plan.work, {}, now_ms, now_ms)


def _moment(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, tz=UTC)
