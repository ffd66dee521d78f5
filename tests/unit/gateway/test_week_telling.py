"""The week as commands: one of the fleet, one of each team; and as a notice."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.usage.rightsize_views import RightsizeItem
from services.gateway.usage.usage_views import UsageSum
from services.gateway.usage.week_telling import commands_of
from services.gateway.usage.week_views import FailureCount, TeamWeek, WeekReport
from services.notifications.notices import notice_of
from shared.core.model.nouns import WorkloadKind
from shared.core.rightsize import Form, SizeVerdict
from shared.events.envelope import Event
from shared.events.notifications import TellWeek

HOUR_MS = 3_600_000


def held(hours: int, cost: int) -> dict[str, int]:
    """Half of it used, a quarter unmeasured."""
    return {
        "allocated_gpu_ms": hours * HOUR_MS,
        "used_gpu_ms": hours * HOUR_MS // 2,
        "unused_gpu_ms": hours * HOUR_MS // 4,
        "unmeasured_gpu_ms": hours * HOUR_MS // 4,
        "cost_microdollars": cost,
        "unused_microdollars": cost // 4,
    }


def saving(name: str, saved: int) -> RightsizeItem:
    return RightsizeItem(
        team="red",
        kind=WorkloadKind.TRAINING,
        name=name,
        image="",
        flavor="h100",
        gpus=8,
        milli=1_000,
        verdict=SizeVerdict.SMALLER,
        use_percent=20,
        unmeasured_percent=0,
        run_hours=100,
        busy_percent=20,
        memory_mib=1,
        form=Form.FEWER,
        new_gpus=2,
        new_milli=1_000,
        profile="",
        saved_gpu_ms=1,
        saved_microdollars=saved,
        message="would do with 2",
    )


def team(name: str, hours: int, *saved: int, **more: Any) -> TeamWeek:
    values = {
        "cost_before_microdollars": 5_000_000, "submitted": 4, "started": 3, "failed": 1,
        "wait_p50_ms": 4_000, "wait_p95_ms": 9_000, "preempted": 2, "idle_released": 1,
    }  # fmt: skip
    savings = tuple(saving(f"{name}-{one}", one) for one in saved)
    return TeamWeek(team=name, savings=savings, **held(hours, 8_000_000), **{**values, **more})


@pytest.fixture
def told() -> list[TellWeek]:
    report = WeekReport(
        since="2026-11-16",
        until="2026-11-23",
        teams=(team("red", 2, 3, 1), team("blue", 2, 9, 2, wait_p50_ms=None, wait_p95_ms=None)),
        total=UsageSum(**held(4, 16_000_000)),
        failures=(FailureCount(reason="", count=7), FailureCount(reason="x" * 900, count=1)),
    )
    return list(commands_of(report))


def test_the_fleet_has_the_sums_and_the_largest_savings_of_all(told: list[TellWeek]) -> None:
    fleet, red, blue = told
    assert ["", "red", "blue"] == [one.team for one in told]
    assert (4 * HOUR_MS, 16_000_000, 10_000_000, 8, 2, 4, 2, None) == (
        fleet.allocated_gpu_ms, fleet.cost_microdollars, fleet.cost_before_microdollars,
        fleet.submitted, fleet.failed, fleet.preempted, fleet.idle_released, fleet.wait_p50_ms,
    )  # fmt: skip
    assert ("blue: blue-9 would do with 2", "red: red-3 would do with 2") == fleet.remarks[:2]
    assert "7 failed: no reason is known" == fleet.remarks[3]
    assert max(map(len, fleet.remarks)) < 300
    assert ("red-3 would do with 2", "red-1 would do with 2") == red.remarks
    assert (4_000, None) == (red.wait_p50_ms, blue.wait_p50_ms)


def test_a_notice_of_a_week_has_the_numbers_and_the_command(told: list[TellWeek]) -> None:
    fleet, red, _ = (notice_of(_event(one)) for one in told)
    assert fleet is not None
    assert red is not None
    assert red.text == (
        "week of 2026-11-16: team red held 2.0 GPU-hours for $8.00 ($5.00 the week before) and"
        " used 66 % of what was measured; $2.00 went unused, 1 of 4 workloads failed, half of its"
        " work started within 4 s"
    )
    assert "all teams held 4.0 GPU-hours for $16.00" in fleet.text
    assert "started within" not in fleet.text
    assert ("muster report --week 2026-11-16 -t red", "red") == (red.command, red.team)
    assert "muster report --week 2026-11-16" == fleet.command
    assert "wait_p50_ms" not in fleet.fields
    assert (2 * HOUR_MS, "red-3 would do with 2; red-1 would do with 2") == (
        red.fields["allocated_gpu_ms"],
        red.fields["message"],
    )


def _event(payload: TellWeek) -> Event:
    return Event(
        id="e1", type="t", source="gateway", subject="s", time_ms=5, key="k", payload=payload
    )
