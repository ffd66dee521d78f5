"""How families of samples are made from numbers by label."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from shared.core.model.units import GPU_MILLI

Labels = tuple[str, ...]


def gauge(name: str, text: str, labels: str, values: Mapping[Labels, float]) -> Metric:
    """A gauge with a sample for each value; `labels` are separated by spaces."""
    family = GaugeMetricFamily(name, text, labels=labels.split())
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def gpus(milli: Mapping[Labels, int]) -> dict[Labels, float]:
    """The same in GPUs."""
    return {key: value / GPU_MILLI for key, value in milli.items()}
