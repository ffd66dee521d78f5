"""What there is, by flavor: the sums over `GET /v1/nodes` to which quotas are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.model.units import GPU_MILLI

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What the nodes of `GET /v1/nodes` sum to, by flavor."""

    gpu_milli: dict[str, int]
    cpu_milli: dict[str, int]
    memory_mib: dict[str, int]
    products: dict[str, list[str]]

    @classmethod
    def of(cls, nodes: Sequence[Json]) -> Fleet:
        """Sum up; O(nodes)."""
        fleet = cls(gpu_milli={}, cpu_milli={}, memory_mib={}, products={})
        for node in nodes:
            flavor = node["flavor"]
            gpus = node["gpus"] * GPU_MILLI
            fleet.gpu_milli[flavor] = fleet.gpu_milli.get(flavor, 0) + gpus
            fleet.cpu_milli[flavor] = fleet.cpu_milli.get(flavor, 0) + node["cpu_milli"]
            fleet.memory_mib[flavor] = fleet.memory_mib.get(flavor, 0) + node["memory_mib"]
            products = fleet.products.setdefault(flavor, [])
            if node["product"] and node["product"] not in products:
                products.append(node["product"])
        return fleet

    @property
    def flavors(self) -> list[str]:
        """Names, the flavor with most GPUs first."""
        return sorted(self.gpu_milli, key=lambda one: (-self.gpu_milli[one], one))

    @property
    def total_gpu_milli(self) -> int:
        """All GPUs."""
        return sum(self.gpu_milli.values())
