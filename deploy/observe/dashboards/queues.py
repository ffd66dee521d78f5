"""What waits and why; quota, debts, preemptions."""

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
QUEUES: Final = Dashboard(
    uid="muster-queues",
    title="Muster: queues",
    description="What waits, for how long and why; quota, debts and preemptions.",
    panels=(
        Panel(
            title="Asked for by what waits, against free GPUs",
            description="GPUs that waiting work asks for by reason, and GPUs that are free.",
            unit=Unit.COUNT,
            width=24,
            queries=(
                query("sum by (reason) (muster_queue_gpus)", "waits: {{reason}}"),
                query(f'sum(muster_gpu_state{{{FLAVOR}, state="free"}})', "free"),
            ),
        ),
        Panel(
            title="How long the first of each queue waits",
            description="The oldest of the highest priority.",
            unit=Unit.SECONDS,
            queries=(query("max by (queue) (muster_queue_head_wait_seconds)", "{{queue}}"),),
        ),
        Panel(
            title="How long the oldest of each queue waits",
            description="Since it came or gave its GPUs back.",
            unit=Unit.SECONDS,
            queries=(query("max by (queue) (muster_queue_oldest_wait_seconds)", "{{queue}}"),),
        ),
        Panel(
            title="Waits",
            description="From submission to the first placement: how many took how long.",
            unit=Unit.COUNT,
            shape=Shape.HEATMAP,
            queries=(query(increase(f"{WAITED}_bucket", "le", TEAM), "{{le}}"),),
        ),
        Panel(
            title="Why work waits",
            description="New reasons, by who gave them.",
            unit=Unit.COUNT,
            queries=(
                query(increase("muster_refusals_total", "by, reason"), "{{by}}: {{reason}}"),
            ),
        ),
        Panel(
            title="Quota in use",
            description="GPUs charged to each queue, its own and borrowed.",
            unit=Unit.COUNT,
            queries=(query(f"sum by (queue) (muster_quota_used_gpus{{{FLAVOR}}})", "{{queue}}"),),
        ),
        Panel(
            title="Quota owned",
            description="Nominal quota of each queue; unlimited ones are left out.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f"sum by (queue) (muster_quota_nominal_gpus{{{FLAVOR}}} < Inf)", "{{queue}}"
                ),
            ),
        ),
        Panel(
            title="Borrowed and lent",
            description="GPUs that queues use beyond their own quota, and those that others lend.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f"sum by (queue) (muster_quota_borrowed_gpus{{{FLAVOR}}})", "{{queue}} borrows"
                ),
                query(f"sum by (queue) (muster_quota_lent_gpus{{{FLAVOR}}})", "{{queue}} lends"),
            ),
        ),
        Panel(
            title="Debts",
            description="Fair-share deficit as a share that two hours pay back; below 0: credit.",
            unit=Unit.SHARE,
            queries=(query("muster_quota_debt_ratio", "{{kind}} {{name}}"),),
        ),
        Panel(
            title="Preemption plans",
            description="Eviction plans by what became of them.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f"{increase('muster_preemption_plans_total', 'outcome')}"
                    " or 0 * sum(muster_preemption_waiting)",
                    "{{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Waits for others to go",
            description="Workloads for which others might be evicted, and plans under way.",
            unit=Unit.COUNT,
            queries=(
                query("sum(muster_preemption_waiting)", "wait"),
                query("sum(muster_preemption_in_flight)", "plans"),
            ),
        ),
        Panel(
            title="Error of told starts",
            description="First starts against what was told: median and 95th percentile.",
            unit=Unit.SECONDS,
            queries=(
                query(quantile(0.5, "muster_eta_error_seconds", "basis"), "p50 {{basis}}"),
                query(quantile(0.95, "muster_eta_error_seconds", "basis"), "p95 {{basis}}"),
            ),
        ),
    ),
)
