"""What fits into the GPUs that are free now: the largest gang by level of the fabric.

A gang takes whole GPUs, so a GPU of which a share is held counts for nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.gauges.families import Labels, gauge
from services.monitoring.gauges.states import Standing
from services.monitoring.records import NodeHealth
from shared.core.model.nouns import Level

LEVELS: Final = tuple((one, one.value) for one in Level)
ANY: Final = "any"
"""The level of a gang that may lie wherever its flavor has nodes."""


def families(standing: Standing) -> Iterator[Metric]:
    """The gauges. O(nodes)."""
    nodes, free = standing.nodes, standing.free
    text = (
        "GPUs of the largest gang that fits into one domain of a level now, by wholly free GPUs;"
        " a node that does not name its domain is one of its own, level any is the whole flavor."
    )
    yield gauge("muster_largest_gang_gpus", text, "flavor level", largest(nodes, free))
    text = (
        "Share of the wholly free GPUs that lie on nodes that are partly held, and so serve no pod"
        " that asks for a whole node; 0 where none is free."
    )
    yield gauge("muster_fragmentation_ratio", text, "flavor", stranded(nodes, free))


def largest(nodes: Mapping[str, NodeHealth], free: Mapping[str, int]) -> dict[Labels, float]:
    """By flavor and level; every level of a flavor that has nodes."""
    sums: Counter[tuple[str, str, str | tuple[str]]] = Counter()
    for name, node in nodes.items():
        gpus = free.get(name, 0)
        alone, flavor, domains = (name,), node.flavor, node.domains
        for level, level_name in LEVELS:
            # A node that stands alone has a tuple as its domain, so no path is equal to it.
            sums[flavor, level_name, domains.get(level) or alone] += gpus
        sums[flavor, ANY, ""] += gpus
    found: dict[Labels, float] = {}
    for (flavor, level_name, _), gpus in sums.items():
        found[flavor, level_name] = max(found.get((flavor, level_name), 0), gpus)
    return found


def stranded(nodes: Mapping[str, NodeHealth], free: Mapping[str, int]) -> dict[Labels, float]:
    """By flavor, 0 to 1."""
    total: Counter[str] = Counter({node.flavor: 0 for node in nodes.values()})
    partly: Counter[str] = Counter()
    for name, gpus in free.items():
        node = nodes[name]
        total[node.flavor] += gpus
        if gpus < len(node.healthy):
            partly[node.flavor] += gpus
    return {(flavor,): partly[flavor] / gpus if gpus else 0.0 for flavor, gpus in total.items()}
