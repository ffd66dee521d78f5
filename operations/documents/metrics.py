"""docs/metrics.md: every metric of every process, from what the modules declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from operations.documents.discovery import modules
from services.monitoring.gauges import Gauges
from services.monitoring.handler import MonitoringHandler
from shared.adapters.clock import SystemClock

HEADER: Final = """\
<!-- Generated from the metrics modules by `make generated`: change those, not this file. -->

# Metrics

On `/metrics` of every process, in the text format of Prometheus. Names end in their unit, counts
in `_total`; labels are bounded, and no workload is one, but for the 200 largest that are idle.
`make status` prints the addresses.
"""


def render() -> str:
    """The text of the document."""
    return "\n".join([HEADER, *_sections()])


def _sections() -> Iterator[str]:
    for owner, rows in _by_owner().items():
        lines = [f"## {owner}", "", "| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {kind} | {labels} | {text} |" for name, kind, labels, text in rows
        ]
        yield "\n".join([*lines, ""])


def _by_owner() -> dict[str, list[tuple[str, str, str, str]]]:
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    for module in modules("metrics", "telemetry"):
        found[_owner(module)] = [_row(*one) for one in _declared(module)]
    handler = MonitoringHandler()
    gauges = Gauges(lambda: handler.memory, SystemClock(), handler.team)
    rows = [_row(one, vars(one)["_labelnames"]) for one in gauges.collect()]
    found.setdefault("`services.monitoring`", []).extend(rows)
    return {owner: sorted(rows) for owner, rows in found.items() if rows}


def _declared(module: ModuleType) -> Iterator[tuple[Metric, Iterable[str]]]:
    for value in vars(module).values():
        if isinstance(value, MetricWrapperBase):
            for family in value.describe():
                yield family, vars(value)["_labelnames"]


def _owner(module: ModuleType) -> str:
    """The service, whatever package of it the module lies in, or the shared package."""
    package = module.__name__.rpartition(".")[0]
    if package.startswith("services."):
        package = ".".join(package.split(".")[:2])
    return "All services" if package == "shared.runtime" else f"`{package}`"


def _row(family: Metric, labels: Iterable[str]) -> tuple[str, str, str, str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return name, family.type, ", ".join(labels), family.documentation
