"""GPU-hours, those without use, what that costs, budgets, energy."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    FLAVOR,
    TEAM,
    Dashboard,
    Panel,
    Shape,
    Unit,
    query,
)


def _hours(state: str) -> str:
    """GPU-hours in a state within the range of time that is shown."""
    chosen = f'{FLAVOR}, state="{state}"'
    mean = f"sum by (flavor) (avg_over_time(muster_gpu_state{{{chosen}}}[$__range]))"
    return f"{mean} * $__range_s / 3600"


def _grown(counter: str, labels: str = "team, flavor") -> str:
    """How a counter grew within the range of time that is shown, by these labels."""
    return f"sum by ({labels}) (increase({counter}{{{TEAM}, {FLAVOR}}}[$__range]))"


COST: Final = Dashboard(
    uid="muster-cost",
    title="Muster: cost",
    description="GPU-hours by team and flavor, those that nobody used, money and energy.",
    panels=(
        Panel(
            title="GPU-hours by team and flavor",
            description="Held within the range of time that is shown.",
            unit=Unit.HOURS,
            shape=Shape.BARS,
            height=10,
            queries=(
                query(
                    f"{_grown('muster_team_gpu_seconds_total')} / 3600",
                    "{{team}} {{flavor}}",
                ),
            ),
        ),
        Panel(
            title="Dollars by team, flavor and purchase",
            description="For what was held within the range of time that is shown, by the price of"
            " when each piece of work began.",
            unit=Unit.DOLLARS,
            shape=Shape.BARS,
            queries=(
                query(
                    _grown("muster_team_cost_dollars_total", "team, flavor, purchase"),
                    "{{team}} {{flavor}} {{purchase}}",
                ),
            ),
        ),
        Panel(
            title="Dollars for what was held and not used",
            description="The cost of each team and flavor times the part of its GPU-hours that was"
            " measured to be unused.",
            unit=Unit.DOLLARS,
            shape=Shape.BARS,
            queries=(
                query(
                    f"{_grown('muster_team_cost_dollars_total')} * on (team, flavor)"
                    f" {_grown('muster_team_gpu_seconds_unused_total')} / on (team, flavor)"
                    f" ({_grown('muster_team_gpu_seconds_total')} > 0)",
                    "{{team}} {{flavor}}",
                ),
            ),
        ),
        Panel(
            title="GPUs held by team",
            description="GPU-hours per hour.",
            unit=Unit.COUNT,
            height=10,
            stacked=True,
            queries=(
                query(
                    "sum by (team) (rate(muster_team_gpu_seconds_total"
                    f"{{{TEAM}, {FLAVOR}}}[$__rate_interval]))",
                    "{{team}}",
                ),
            ),
        ),
        Panel(
            title="Where held GPU-hours went",
            description="Used, unused and unmeasured, within the range of time that is shown.",
            unit=Unit.HOURS,
            shape=Shape.BARS,
            height=10,
            queries=tuple(
                query(
                    f"sum(increase(muster_team_gpu_seconds_{part}_total"
                    f"{{{TEAM}, {FLAVOR}}}[$__range])) / 3600",
                    part,
                )
                for part in ("used", "unused", "unmeasured")
            ),
        ),
        Panel(
            title="GPU-hours that were held and not used",
            description="By flavor, within the range of time that is shown.",
            unit=Unit.HOURS,
            shape=Shape.BARS,
            queries=(
                query(
                    _hours("unused"),
                    "{{flavor}}",
                ),
            ),
        ),
        Panel(
            title="GPU-hours that nobody held",
            description="By flavor, within the range of time that is shown.",
            unit=Unit.HOURS,
            shape=Shape.BARS,
            queries=(
                query(
                    _hours("free"),
                    "{{flavor}}",
                ),
            ),
        ),
        Panel(
            title="Energy",
            description="Of all GPUs whose agent is scraped, within the range of time.",
            unit=Unit.KILOWATT_HOURS,
            shape=Shape.NUMBER,
            queries=(
                query("sum(increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[$__range])) / 3.6e9"),
            ),
        ),
        Panel(
            title="Energy by team",
            description="What the boards drew, by what each team held of them, within the range of"
            " time.",
            unit=Unit.KILOWATT_HOURS,
            shape=Shape.BARS,
            queries=(
                query(
                    f"{_grown('muster_team_energy_joules_total', 'team')} / 3.6e6",
                    "{{team}}",
                ),
            ),
        ),
        Panel(
            title="Power",
            description="Drawn by all GPUs whose agent is scraped, by node.",
            unit=Unit.WATTS,
            stacked=True,
            queries=(query("sum by (hostname) (DCGM_FI_DEV_POWER_USAGE)", "{{hostname}}"),),
        ),
        Panel(
            title="Wasted by idle workloads",
            description="GPU-hours since each that is idle now became so; the largest 20.",
            unit=Unit.HOURS,
            shape=Shape.BARS,
            width=24,
            queries=(
                query(
                    f"topk(20, muster_idle_workload_gpus{{{TEAM}}} * on (team, queue, workload)"
                    f" muster_idle_workload_seconds{{{TEAM}}} / 3600)",
                    "{{team}} {{workload}}",
                ),
            ),
        ),
        Panel(
            title="Dollars wasted by idle workloads",
            description="Since each that is idle now became so, by the price of its flavor.",
            unit=Unit.DOLLARS,
            shape=Shape.BARS,
            queries=(
                query(
                    f"topk(20, muster_idle_workload_dollars{{{TEAM}}})",
                    "{{team}} {{workload}}",
                ),
            ),
        ),
        Panel(
            title="Saved by smaller forms",
            description="What the work of the last 30 days would have cost less in the forms that"
            " `muster rightsize` proposes, by the present price.",
            unit=Unit.DOLLARS,
            shape=Shape.BARS,
            queries=(
                query(
                    f"topk(20, max by (team) (muster_team_rightsize_saving_dollars{{{TEAM}}}))",
                    "{{team}}",
                ),
            ),
        ),
        Panel(
            title="Budget at the end of the month",
            description="Part of each budget that will be spent if its team goes on as now.",
            unit=Unit.SHARE,
            queries=(query(f"muster_team_budget_forecast_ratio{{{TEAM}}}", "{{team}} {{unit}}"),),
        ),
    ),
)
