"""How many more nodes are needed, as told last (services/monitoring/needed.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.gauges.families import Labels, gauge
from services.monitoring.memory import MonitoringMemory

FOR_WORK: Final = "work"
FOR_WARMTH: Final = "warm"


def families(memory: MonitoringMemory) -> Iterator[Metric]:
    """The gauges; every flavor that is known has a sample. O(flavors)."""
    nodes: dict[Labels, float] = {}
    pods: dict[Labels, float] = {}
    for flavor in memory.flavors.copy():
        nodes[flavor, FOR_WORK] = nodes[flavor, FOR_WARMTH] = pods[flavor,] = 0.0
    for one in memory.needs:
        nodes[one.flavor, FOR_WORK] = one.nodes
        nodes[one.flavor, FOR_WARMTH] = one.warm_nodes
        pods[one.flavor,] = one.pods
    text = (
        "Nodes that are needed beside those that are there: for work that waits for room and that"
        " quota lets run, or (warm) to have as many empty ones as MUSTER_WARM_NODES wants."
    )
    yield gauge("muster_nodes_needed", text, "flavor purpose", nodes)
    text = "Pods that would lie on those nodes: of a gang those that it still lacks."
    yield gauge("muster_nodes_needed_pods", text, "flavor", pods)
