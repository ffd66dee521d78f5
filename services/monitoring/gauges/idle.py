"""Workloads that are idle now, by name: the one gauge with a workload in it, and bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.gauges.families import Labels, gauge, gpus
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory

IDLE_MAX: Final = 200
MICRODOLLARS: Final = 1_000_000
SUBMITTER_CHARACTERS_MAX: Final = 120
_NOT_PLAIN: Final = re.compile(r"[^\w .,:/()@-]")


def families(memory: MonitoringMemory, now_ms: int, team: Capped) -> Iterator[Metric]:
    """The gauges, of the largest. O(workloads that are watched)."""
    held: dict[Labels, int] = {}
    since_ms: dict[Labels, int] = {}
    for workload_id, watch in memory.watches.copy().items():
        one = memory.workloads.get(workload_id)
        if watch.told is not None and one is not None:
            labels = (team(one.team), one.queue, workload_id)
            held[labels], since_ms[labels] = one.gpu_milli, watch.told.since_ms
    largest = nlargest(IDLE_MAX, held, key=lambda one: (held[one], -since_ms[one]))
    names = "team queue workload"
    text = "GPUs held by a workload that is idle now; the 200 largest."
    shown = gpus({one: held[one] for one in largest})
    yield gauge("muster_idle_workload_gpus", text, names, shown)
    text = "For how long a workload is idle that is so now; the 200 with the most GPUs."
    idle = {one: max(now_ms - since_ms[one], 0) / 1000 for one in largest}
    yield gauge("muster_idle_workload_seconds", text, names, idle)
    text = "Dollars wasted by a workload since it is idle, where its GPU-hours have a price."
    dollars = {one: _price(memory, one[2]) * shown[one] * idle[one] / 3600 for one in largest}
    priced = {one: value for one, value in dollars.items() if value}
    yield gauge("muster_idle_workload_dollars", text, names, priced)
    text = "1, with the caller that submitted a workload that is idle now, where it is known."
    submitters = _submitters(memory, largest)
    yield gauge("muster_idle_workload_submitter", text, f"{names} submitter", submitters)


def _submitters(memory: MonitoringMemory, idle: Iterable[Labels]) -> dict[Labels, float]:
    found: dict[Labels, float] = {}
    for labels in idle:
        one = memory.workloads.get(labels[2])
        if one is not None and one.submitter:
            found[*labels, plain(one.submitter)] = 1
    return found


def plain(name: str) -> str:
    """A name of any caller as alerts may tell it: no markup, no mention, one short line."""
    kept = _NOT_PLAIN.sub("_", name[:SUBMITTER_CHARACTERS_MAX])
    return kept.replace("@", "@\u200b")


def _price(memory: MonitoringMemory, workload_id: str) -> float:
    """Dollars of a GPU-hour; 0 where there is no price."""
    account = memory.use.accounts.get(workload_id)
    if account is None:
        return 0
    return memory.use.price_of(account).microdollars_per_gpu_hour / MICRODOLLARS
