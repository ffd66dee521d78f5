"""The price of room that few nodes have: for large pods, and for pods bound to a product.

The price is the fourth power of demand over supply: cheap while there is plenty, dear when there
is not. It makes `core/scoring/policies/fragmentation.py` adapt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from shared.core.cluster.node_class import NodeClass
from shared.core.model.demand import PodDemand
from shared.core.model.units import GPU_MILLI, pods_within
from shared.core.scoring.cells import Ints
from shared.core.scoring.mix import PodClass
from shared.core.scoring.policy import CORES, GPUS, Floats, Learned, NodePlaces, Places

PRICE_MAX: Final = 4.0
"""A class asked for at more than so many times its supply is priced as if at this."""
PRICE_POWER: Final = 4
"""Prices rise with this power of demand over supply: none to speak of while there is plenty."""
CLASSES_MAX: Final = 32
"""Classes that are priced, the most asked for first."""
CPU_CLASS_MILLI: Final = 8_000
"""Large pods of about the same CPU are one class."""


class Scarcity:
    """What the priced room shrinks by, in milli-GPU; negative where it shrinks."""

    def __init__(self, learned: Learned) -> None:
        prices = _prices(learned.counts, [each for each in learned.classes if each.key.gpus])
        products = sorted({each.key.product for each in learned.classes})
        self._product = np.array(
            [products.index(each.key.product) for each in learned.classes], dtype=np.int64
        )
        """(classes,) number of the product; the next two arrays are in this order."""
        self._large = np.stack([_large_table(prices, product) for product in products])
        """(products, free GPUs, cores): price of the room of a node for large pods."""
        self._bound = np.array([_bound_price(prices, product) for product in products])
        """(products,) price of one GPU, for single pods that take no other product."""

    def of_nodes(self, places: NodePlaces, demand: PodDemand) -> Floats:
        """Room for large pods, and the GPU itself."""
        product = self._product[places.number]
        before = self._large[product, places.free, places.cores]
        gained: Floats = self._large[product, places.after, places.cores_after] - before
        return gained - self._bound_milli(product, demand)

    def of_gpus(self, places: Places, demand: PodDemand) -> Floats:
        """A shared GPU is no room for large pods."""
        return -self._bound_milli(self._product[places.number], demand)

    def _bound_milli(self, product: Ints, demand: PodDemand) -> Floats:
        price: Floats = self._bound[product] * (demand.gpus + demand.milli / GPU_MILLI)
        return price


def _prices(counts: Mapping[PodClass, int], fleet: Sequence[NodeClass]) -> dict[PodClass, float]:
    """Price of each class that not every node can take: (demand / supply) ** 4."""
    asked: dict[PodClass, int] = {}
    for each, count in counts.items():
        if each.gpus > 1 or (each.gpu_milli and each.products):
            cpu_milli = -(-each.cpu_milli // CPU_CLASS_MILLI) * CPU_CLASS_MILLI
            merged = PodClass(max(each.gpus, 1), 0, cpu_milli, each.products)
            if merged.gpus == 1:
                merged = merged._replace(cpu_milli=0)
            asked[merged] = asked.get(merged, 0) + count * each.gpu_milli
    demand = sum(each.gpu_milli * count for each, count in counts.items())
    gpus = sum(each.nodes * each.key.gpus for each in fleet)
    prices = {}
    for one, amount in sorted(asked.items(), key=lambda item: (-item[1], item[0]))[:CLASSES_MAX]:
        supply = sum(each.nodes * one.gpus * _pods(one, each) for each in fleet)
        if supply:
            prices[one] = min(amount / demand * gpus / supply, PRICE_MAX) ** PRICE_POWER
    return prices


def _pods(asked: PodClass, nodes: NodeClass) -> int:
    """How many pods an empty node of the class takes."""
    if asked.products and nodes.key.product not in asked.products:
        return 0
    by_gpu = nodes.key.gpus // asked.gpus
    return pods_within(by_gpu, nodes.key.cpu_milli, asked.cpu_milli, 0, 0)


def _large_table(prices: Mapping[PodClass, float], product: str) -> Floats:
    """(free GPUs, cores): GPU that large pods could be given there, at its price."""
    table = np.zeros((GPUS + 1, CORES))
    free = np.arange(GPUS + 1)[:, None]
    cores = np.arange(CORES)[None, :]
    for each, price in prices.items():
        if each.gpus > 1 and (not each.products or product in each.products):
            by_cpu = cores * 1000 // max(each.cpu_milli, 1)
            table += price * GPU_MILLI * each.gpus * np.minimum(free // each.gpus, by_cpu)
    return table


def _bound_price(prices: Mapping[PodClass, float], product: str) -> float:
    """Milli by which one GPU of the product is dear to single pods that take no other."""
    return GPU_MILLI * sum(
        price for each, price in prices.items() if each.gpus == 1 and product in each.products
    )
