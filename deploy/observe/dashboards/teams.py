"""What teams hold, use, leave idle and wait for."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    FLAVOR,
    TEAM,
    Dashboard,
    Panel,
    Shape,
    Unit,
    increase,
    quantile,
    query,
)

WAITED: Final = "muster_queue_wait_seconds"
TEAMS: Final = Dashboard(
    uid="muster-teams",
    title="Muster: teams",
    description="What each team holds, uses, leaves idle and waits for.",
    panels=(
        Panel(
            title="Use by team and hour",
            description="Share of what was measured in each hour that computed; red below 30 %.",
            unit=Unit.SHARE,
            share_max=1,
            shape=Shape.HISTORY,
            width=24,
            height=10,
            interval="1h",
            queries=(query(f"muster:team_use:ratio1h{{{TEAM}}}", "{{team}}"),),
        ),
        Panel(
            title="Held by team",
            description="GPUs charged to the workloads of a team.",
            unit=Unit.COUNT,
            stacked=True,
            queries=(
                query(
                    f"sum by (team) (muster_team_gpu_allocated{{{TEAM}, {FLAVOR}}})", "{{team}}"
                ),
            ),
        ),
        Panel(
            title="Used by team",
            description="GPUs of a team that compute: use times what it holds of each.",
            unit=Unit.COUNT,
            stacked=True,
            queries=(query(f"sum by (team) (muster_team_gpu_utilized{{{TEAM}}})", "{{team}}"),),
        ),
        Panel(
            title="Idle GPUs by team",
            description="GPUs of workloads that were noticed to be idle.",
            unit=Unit.COUNT,
            stacked=True,
            queries=(query(f"sum by (team) (muster_team_gpu_idle{{{TEAM}}})", "{{team}}"),),
        ),
        Panel(
            title="Idle holders",
            description="Workloads that are idle now, with GPUs held and seconds; the largest 200."
            " `muster cancel WORKLOAD` releases one.",
            unit=Unit.COUNT,
            shape=Shape.TABLE,
            queries=(
                query(f"muster_idle_workload_gpus{{{TEAM}}}"),
                query(f"muster_idle_workload_seconds{{{TEAM}}}"),
            ),
        ),
        Panel(
            title="Budget of the month",
            description="Part of each budget that is spent, beside what is by now if each day of"
            " the month (UTC) takes as much.",
            unit=Unit.SHARE,
            queries=(
                query(f"muster_team_budget_ratio{{{TEAM}}}", "{{team}} {{unit}}"),
                query("(day_of_month() - 1 + hour() / 24) / days_in_month()", "even"),
            ),
        ),
        Panel(
            title="Time to the first placement",
            description="From submission to devices: median and 95th percentile of the teams.",
            unit=Unit.SECONDS,
            queries=(
                query(quantile(0.5, WAITED, selector=TEAM), "p50"),
                query(quantile(0.95, WAITED, selector=TEAM), "p95"),
            ),
        ),
        Panel(
            title="Evictions",
            description="Attempts that were stopped, by reason; of all teams.",
            unit=Unit.COUNT,
            queries=(query(increase("muster_evictions_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            title="Workloads that are over",
            description="How work of the teams ended.",
            unit=Unit.COUNT,
            queries=(query(increase("muster_outcomes_total", "state", TEAM), "{{state}}"),),
        ),
        Panel(
            title="Submissions",
            description="What admission answered.",
            unit=Unit.COUNT,
            queries=(query(increase("muster_submissions_total", "answer", TEAM), "{{answer}}"),),
        ),
    ),
)
