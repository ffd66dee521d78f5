"""Everything that an agent tells of the devices of a node."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    HOSTNAME,
    HOSTNAMES,
    Dashboard,
    Panel,
    Unit,
    query,
)
from shared.core.telemetry.metrics import DEVICE_METRICS, OWN_METRICS, DeviceMetric, MetricKind


def _unit(metric: DeviceMetric) -> Unit:
    """By the unit that its text ends with; a counter's own is per second."""
    endings = {
        "MHz.": Unit.MEGAHERTZ,
        "degrees Celsius.": Unit.CELSIUS,
        "watts.": Unit.WATTS,
        "per cent.": Unit.PERCENT,
        "MiB.": Unit.MEBIBYTES,
        "0 to 1.": Unit.SHARE,
        "bytes per second.": Unit.BYTES_PER_SECOND,
        "mJ.": Unit.WATTS,
        "ns.": Unit.SHARE,
        "KiB.": Unit.BYTES_PER_SECOND,
    }
    return next((unit for text, unit in endings.items() if metric.text.endswith(text)), Unit.COUNT)


def _scale(metric: DeviceMetric) -> str:
    """What makes the unit of a counter's rate that of the panel."""
    scales = {"mJ.": " / 1000", "ns.": " / 1e9", "KiB.": " * 1024"}
    return next((one for text, one in scales.items() if metric.text.endswith(text)), "")


def _of_node(metric: DeviceMetric) -> Panel:
    one = f"{metric.name}{{{HOSTNAME}}}"
    counts = metric.kind is MetricKind.COUNTER
    expression = f"rate({one}[$__rate_interval]){_scale(metric)}" if counts else one
    return Panel(
        title=metric.name.removeprefix("DCGM_FI_"),
        description=f"{metric.text} Shown per second." if counts else metric.text,
        unit=_unit(metric),
        width=8,
        height=6,
        queries=(query(expression, "{{gpu}} {{GPU_I_ID}}"),),
    )


NODE: Final = Dashboard(
    uid="muster-node",
    title="Muster: node",
    description="Everything that an agent tells of the devices of a node.",
    variables=(HOSTNAMES,),
    panels=tuple(_of_node(one) for one in (*DEVICE_METRICS.values(), *OWN_METRICS.values())),
)
