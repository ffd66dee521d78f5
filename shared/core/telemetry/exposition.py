"""Device metrics in the text format of Prometheus, as dcgm-exporter writes them.

Written here, as the client library cannot: it would call a counter `.._COUNTER_total`.
Source: Prometheus, exposition formats 0.0.4; labels of dcgm-exporter 4.x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shared.core.health.xid import class_of
from shared.core.model.value import Value
from shared.core.telemetry.metrics import DEVICE_METRICS, OWN_METRICS, DeviceMetric
from shared.core.telemetry.readings import GpuReading, NodeReading

XID_TOTAL: Final = "muster_gpu_xid_total"
LAST_XID: Final = "DCGM_FI_DEV_XID_ERRORS"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class PodOfDevice(Value, frozen=True, kw_only=True):
    """The container that a device was given to."""

    namespace: str
    pod: str
    container: str


class Exposed(Value, frozen=True, kw_only=True):
    """All that is exposed of one node."""

    reading: NodeReading
    hostname: str
    """Name of the node."""
    hostname_label: str = "hostname"
    """`Hostname` in dashboards made before May 2026."""
    pods: Mapping[str, PodOfDevice] = {}
    """By UUID of a GPU or of an instance."""
    last_xids: Mapping[int, int] = {}
    """The last XID by index of GPU."""
    xids: Mapping[tuple[int, int], int] = {}
    """How many, by index of GPU and XID."""


def escaped(value: str) -> str:
    """A value between the quotes of a label."""
    return value.translate(_ESCAPES)


def exposition(exposed: Exposed) -> str:
    """The text; empty when there is no GPU. O(GPUs x metrics)."""
    series: list[tuple[str, Mapping[str, float]]] = []
    for gpu in exposed.reading.gpus:
        base = _labels_of(exposed, gpu)
        values = {**gpu.values}
        if gpu.index in exposed.last_xids:
            values[LAST_XID] = exposed.last_xids[gpu.index]
        series.append((_joined(base | _pod(exposed, gpu.uuid)), values))
        for one in gpu.instances:
            labels = base | {"GPU_I_PROFILE": one.profile, "GPU_I_ID": str(one.number)}
            series.append((_joined(labels | _pod(exposed, one.uuid)), one.values))
    metrics = [*DEVICE_METRICS.values(), *OWN_METRICS.values()]
    lines = [line for metric in metrics for line in _family(metric, series)]
    lines += _xid_counts(exposed)
    return "\n".join([*lines, ""]) if lines else ""


def _family(
    metric: DeviceMetric, series: Sequence[tuple[str, Mapping[str, float]]]
) -> Iterator[str]:
    told = [(labels, values[metric.name]) for labels, values in series if metric.name in values]
    if told:
        yield f"# HELP {metric.name} {metric.text}"
        yield f"# TYPE {metric.name} {metric.kind.value}"
        for labels, value in told:
            yield f"{metric.name}{{{labels}}} {_number(value)}"


def _xid_counts(exposed: Exposed) -> Iterator[str]:
    if not exposed.xids:
        return
    yield f"# HELP {XID_TOTAL} Errors of the driver (XIDs) since the agent was started."
    yield f"# TYPE {XID_TOTAL} counter"
    by_index = {gpu.index: _labels_of(exposed, gpu) for gpu in exposed.reading.gpus}
    for (index, xid), count in sorted(exposed.xids.items()):
        labels = by_index.get(index, {"gpu": str(index), exposed.hostname_label: exposed.hostname})
        yield f"{XID_TOTAL}{{{_joined(labels | _of_xid(xid))}}} {count}"


def _of_xid(xid: int) -> dict[str, str]:
    """The class is that of the table: what a site has instead is placement's to know."""
    return {"xid": str(xid), "class": class_of(xid).value}


def _labels_of(exposed: Exposed, gpu: GpuReading) -> dict[str, str]:
    return {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci,
        "device": f"nvidia{gpu.minor}",
        "modelName": gpu.model,
        exposed.hostname_label: exposed.hostname,
        "DCGM_FI_DRIVER_VERSION": exposed.reading.driver,
    }


def _pod(exposed: Exposed, uuid: str) -> dict[str, str]:
    pod = exposed.pods.get(uuid)
    if pod is None:
        return {}
    return {"namespace": pod.namespace, "pod": pod.pod, "container": pod.container}


def _joined(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"
