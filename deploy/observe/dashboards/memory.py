"""Memory of GPUs: what is free, what leaks."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    HOSTNAME,
    HOSTNAMES,
    Dashboard,
    Panel,
    Shape,
    Unit,
    query,
)

GPU: Final = "{{hostname}} {{gpu}}"
MEMORY: Final = Dashboard(
    uid="muster-memory",
    title="Muster: memory",
    description="Memory of GPUs: what is free, what leaks.",
    variables=(HOSTNAMES,),
    panels=(
        Panel(
            title="Free memory",
            description="Of each GPU and GPU instance.",
            unit=Unit.MEBIBYTES,
            width=24,
            queries=(query(f"DCGM_FI_DEV_FB_FREE{{{HOSTNAME}}}", f"{GPU} {{{{GPU_I_ID}}}}"),),
        ),
        Panel(
            title="Lowest 20",
            description="GPUs with the least free memory.",
            unit=Unit.MEBIBYTES,
            shape=Shape.BARS,
            height=12,
            queries=(
                query(f"bottomk(20, DCGM_FI_DEV_FB_FREE{{{HOSTNAME}}})", f"{GPU} {{{{pod}}}}"),
            ),
        ),
        Panel(
            title="Leak suspects",
            description="Rise of used memory where it leaks; the largest 200.",
            unit=Unit.MEBIBYTES_PER_HOUR,
            shape=Shape.TABLE,
            height=12,
            queries=(
                query(
                    'muster_gpu_leak_mib_per_hour or 0 * sum(muster_trends_total{trend="leak"})'
                ),
            ),
        ),
        Panel(
            title="Memory in use by node",
            description="Share of all memory of the GPUs of a node.",
            unit=Unit.SHARE,
            share_max=1,
            queries=(
                query(
                    f"sum by (hostname) (DCGM_FI_DEV_FB_USED{{{HOSTNAME}}})"
                    f" / sum by (hostname) (DCGM_FI_DEV_FB_TOTAL{{{HOSTNAME}}})",
                    "{{hostname}}",
                ),
            ),
        ),
        Panel(
            title="Temperature of the memory",
            description="The hottest 10.",
            unit=Unit.CELSIUS,
            queries=(query(f"topk(10, DCGM_FI_DEV_MEMORY_TEMP{{{HOSTNAME}}})", GPU),),
        ),
    ),
)
