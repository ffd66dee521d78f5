"""Where the GPUs are and what they do."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    FLAVOR,
    FLAVORS,
    Dashboard,
    Panel,
    Shape,
    Unit,
    increase,
    quantile,
    query,
)

FLEET: Final = Dashboard(
    uid="muster-fleet",
    title="Muster: fleet",
    description="Where the GPUs are now, and what they do.",
    variables=(FLAVORS,),
    panels=(
        Panel(
            title="Where GPUs are now",
            description="Nine states, whose sum is the capacity at each moment.",
            unit=Unit.COUNT,
            width=24,
            height=10,
            stacked=True,
            queries=(query(f"sum by (state) (muster_gpu_state{{{FLAVOR}}})", "{{state}}"),),
        ),
        Panel(
            title="Allocated against used",
            description="GPUs charged to workloads, those of them that compute, and the capacity.",
            unit=Unit.COUNT,
            queries=(
                query(f"sum(muster_gpu_capacity{{{FLAVOR}}})", "capacity"),
                query(f"sum(muster_gpu_allocated{{{FLAVOR}}})", "allocated"),
                query(f'sum(muster_gpu_state{{{FLAVOR}, state="used"}})', "used"),
            ),
        ),
        Panel(
            title="Use by flavor",
            description="Mean use of all GPUs of a flavor, held or not.",
            unit=Unit.SHARE,
            share_max=1,
            queries=(query(f"muster_gpu_utilization_ratio{{{FLAVOR}}}", "{{flavor}}"),),
        ),
        Panel(
            title="Free by flavor",
            description="GPUs that nobody holds and that take work.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f'sum by (flavor) (muster_gpu_state{{{FLAVOR}, state="free"}})', "{{flavor}}"
                ),
            ),
        ),
        Panel(
            title="Largest gang that fits now",
            description="GPUs of the largest gang in one domain of each level of the fabric.",
            unit=Unit.COUNT,
            queries=(
                query(f"max by (level) (muster_largest_gang_gpus{{{FLAVOR}}})", "{{level}}"),
            ),
        ),
        Panel(
            title="Fragmentation",
            description="Share of the free GPUs that lie on nodes that are partly held.",
            unit=Unit.SHARE,
            share_max=1,
            queries=(query(f"muster_fragmentation_ratio{{{FLAVOR}}}", "{{flavor}}"),),
        ),
        Panel(
            title="Workloads by state",
            description="Workloads that are not over.",
            unit=Unit.COUNT,
            queries=(query("sum by (state) (muster_workloads)", "{{state}}"),),
        ),
        Panel(
            title="Nodes silent",
            description="Nodes whose agent is not heard while most others are.",
            unit=Unit.COUNT,
            shape=Shape.NUMBER,
            width=6,
            height=4,
            queries=(query("sum(muster_nodes_silent)"),),
        ),
        Panel(
            title="Nodes shunned",
            description="Nodes on which nothing is started for a while.",
            unit=Unit.COUNT,
            shape=Shape.NUMBER,
            width=6,
            height=4,
            queries=(query(f"sum(muster_nodes_shunned{{{FLAVOR}}})"),),
        ),
        Panel(
            title="GPUs out of service",
            description="Quarantined, lost or failed by the ladder of health.",
            unit=Unit.COUNT,
            shape=Shape.NUMBER,
            width=6,
            height=4,
            queries=(query(f"sum(muster_gpu_quarantined{{{FLAVOR}}})"),),
        ),
        Panel(
            title="Healthy GPUs",
            description="GPUs that can take work.",
            unit=Unit.COUNT,
            shape=Shape.NUMBER,
            width=6,
            height=4,
            queries=(query(f"sum(muster_gpu_healthy{{{FLAVOR}}})"),),
        ),
        Panel(
            title="From placed to running",
            description="How long pods take to start: median and 95th percentile.",
            unit=Unit.SECONDS,
            queries=(
                query(quantile(0.5, "muster_start_seconds", selector=FLAVOR), "p50"),
                query(quantile(0.95, "muster_start_seconds", selector=FLAVOR), "p95"),
            ),
        ),
        Panel(
            title="Placements",
            description="Attempts that got devices.",
            unit=Unit.COUNT,
            queries=(query(increase("muster_placements_total", "flavor", FLAVOR), "{{flavor}}"),),
        ),
    ),
)
