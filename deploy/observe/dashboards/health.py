"""The ladder of health, and what devices say themselves."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    FLAVOR,
    FLAVORS,
    HOSTNAME,
    HOSTNAMES,
    Dashboard,
    Panel,
    Shape,
    Unit,
    increase,
    query,
)

GPU: Final = "{{hostname}} {{gpu}}"
OF_GPU: Final = "hostname, gpu"
NVLINK: Final = ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
HEALTH: Final = Dashboard(
    uid="muster-gpu-health",
    title="Muster: GPU health",
    description="The ladder of health, and what devices say themselves.",
    variables=(FLAVORS, HOSTNAMES),
    panels=(
        Panel(
            title="Breaker",
            description="On while rules would take out more GPUs than they may within an hour.",
            unit=Unit.FLAG,
            shape=Shape.NUMBER,
            width=6,
            height=5,
            queries=(query("max(muster_health_breaker_open)"),),
        ),
        Panel(
            title="Oldest quarantine",
            description="For how long the oldest GPU is out of service.",
            unit=Unit.SECONDS,
            shape=Shape.NUMBER,
            width=6,
            height=5,
            queries=(query(f"max(muster_gpu_quarantined_oldest_seconds{{{FLAVOR}}})"),),
        ),
        Panel(
            title="Out of service by class",
            description="What speaks against GPUs that are quarantined, lost or failed.",
            unit=Unit.COUNT,
            shape=Shape.BARS,
            height=5,
            queries=(query(f"sum by (class) (muster_gpu_quarantined{{{FLAVOR}}})", "{{class}}"),),
        ),
        Panel(
            title="Ladder by state",
            description="GPUs that are not healthy.",
            unit=Unit.COUNT,
            stacked=True,
            queries=(query(f"sum by (state) (muster_gpu_health{{{FLAVOR}}})", "{{state}}"),),
        ),
        Panel(
            title="Steps by rule",
            description="Steps on the ladder; `told` is not done, as the ladder observes or the"
            " breaker is open.",
            unit=Unit.COUNT,
            queries=(
                query(increase("muster_health_steps_total", "rule", 'done="true"'), "{{rule}}"),
                query(
                    increase("muster_health_steps_total", "rule", 'done="false"')
                    + " or 0 * sum(muster_health_breaker_open)",
                    "told: {{rule}}",
                ),
            ),
        ),
        Panel(
            title="XIDs by class",
            description="Errors of the driver.",
            unit=Unit.COUNT,
            queries=(
                query(
                    increase("muster_gpu_xid_total", "class, xid", HOSTNAME), "{{class}} {{xid}}"
                ),
            ),
        ),
        Panel(
            title="Hottest 10",
            description="GPUs by temperature.",
            unit=Unit.CELSIUS,
            queries=(query(f"topk(10, DCGM_FI_DEV_GPU_TEMP{{{HOSTNAME}}})", GPU),),
        ),
        Panel(
            title="Slowed down by heat",
            description="Share of the time; the highest 10.",
            unit=Unit.SHARE,
            queries=(
                query(
                    "topk(10, rate(DCGM_FI_DEV_THERMAL_VIOLATION"
                    f"{{{HOSTNAME}}}[$__rate_interval]) / 1e9)",
                    GPU,
                ),
            ),
        ),
        Panel(
            title="Memory errors",
            description="ECC errors since the driver was loaded, single and double bit.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f"sum by ({OF_GPU}) (DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{HOSTNAME}}})",
                    f"single {GPU}",
                ),
                query(
                    f"sum by ({OF_GPU}) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{HOSTNAME}}})",
                    f"double {GPU}",
                ),
            ),
        ),
        Panel(
            title="Rows of memory replaced",
            description="For uncorrectable errors; pending and failed ones apart.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f"sum by ({OF_GPU}) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{HOSTNAME}}})",
                    GPU,
                ),
                query(
                    f"sum by ({OF_GPU}) (DCGM_FI_DEV_ROW_REMAP_PENDING{{{HOSTNAME}}})",
                    f"pending {GPU}",
                ),
                query(
                    f"sum by ({OF_GPU}) (DCGM_FI_DEV_ROW_REMAP_FAILURE{{{HOSTNAME}}})",
                    f"failed {GPU}",
                ),
            ),
        ),
        Panel(
            title="PCIe replays",
            description="Transfers that were repeated.",
            unit=Unit.COUNT,
            queries=(query(increase("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", OF_GPU, HOSTNAME), GPU),),
        ),
        Panel(
            title="NVLink errors",
            description="CRC errors, replays and recoveries.",
            unit=Unit.COUNT,
            queries=tuple(
                query(
                    increase(f"DCGM_FI_DEV_NVLINK_{one}_ERROR_COUNT_TOTAL", OF_GPU, HOSTNAME),
                    f"{one} {GPU}",
                )
                for one in NVLINK
            ),
        ),
        Panel(
            title="Slow changes",
            description="Trends that were found: leak, heat, replay, straggler.",
            unit=Unit.COUNT,
            queries=(query(increase("muster_trends_total", "trend"), "{{trend}}"),),
        ),
    ),
)
