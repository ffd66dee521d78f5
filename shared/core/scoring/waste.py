"""How much of a node's free GPU the learned mix of demand could not use: tables, built per mix.

Four amounts, the first three in the sense of placement.md 3.2, for every condition of a node:
- `fragments`: milli-GPU of no use in expectation over the classes of pods (Weng et al., ATC'23).
  For classes of one GPU it is a sum over the GPUs, which is why a table suffices.
- `deficit`: CPU that is missing beside the free GPUs, at the demand's mean CPU per GPU. Where the
  fleet has less CPU per GPU than is asked in all, pods without GPU count in that mean.
- `scarce`: room for classes that few nodes can take (large pods, pods bound to a product), priced
  by the fourth power of demand over supply: cheap while there is plenty, dear when there is not.
- `rests`: what the free part of a shared GPU is worth (core/scoring/share_values.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.cluster.node_class import NodeClass
from shared.core.model.units import GPU_MILLI
from shared.core.scoring.mix import PodClass
from shared.core.scoring.share_values import MILLI_STEP, rest_values

Floats = NDArray[np.float64]

CORES: Final = 256
"""Free CPU is told apart up to this many cores."""
GPUS: Final = 16
"""Free GPUs of a node are told apart up to this many."""
PART_MILLI: Final = 500
"""Step in which the free parts of shared GPUs are summed."""
PARTS: Final = GPUS * GPU_MILLI // PART_MILLI
PRICE_MAX: Final = 4.0
"""A class asked for at more than so many times its supply is priced as if at this."""
PRICE_POWER: Final = 4
"""Prices rise with this power of demand over supply: none to speak of while there is plenty."""
SCARCE_MAX: Final = 32
"""Classes that are priced, the most asked for first."""
CPU_STEP_MILLI: Final = 8_000
"""Large pods of about the same CPU are one class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """The tables; CPU in cores on the last axis."""

    nodes: Floats
    """(free GPUs, free parts, cores): fragments of a node."""
    gpu: Floats
    """(free milli / 10, cores): fragments of one GPU."""
    rests: Floats
    """(free milli / 10,) value of the free part of a shared GPU, in milli of a whole one."""
    cpu_per_gpu_milli: float
    """What `deficit` measures by."""
    product: NDArray[np.int64]
    """(kinds,) number of the product; the next two arrays are in this order."""
    scarce: Floats
    """(products, free GPUs, cores): price of the room of a node for large pods."""
    price_per_gpu: Floats
    """(products,) price of one GPU in milli, for pods bound to products."""
    bare: NDArray[np.bool_]
    """(kinds,) whether they have no GPU."""


def waste_of(counts: Mapping[PodClass, int], kinds: Sequence[NodeClass]) -> Waste:
    """Tables for a mix on a fleet of `kinds`, by number. O(classes + table), not O(nodes)."""
    fleet = [kind for kind in kinds if kind.key.gpus]
    gpu = _gpu_table(counts)
    restricted = _restricted(counts, fleet)
    products = sorted({kind.key.product for kind in kinds})
    return Waste(
        nodes=_node_table(counts, gpu),
        gpu=gpu,
        rests=rest_values(counts),
        cpu_per_gpu_milli=_cpu_per_gpu(counts, fleet),
        product=np.array([products.index(kind.key.product) for kind in kinds], dtype=np.int64),
        scarce=np.stack([_scarce_table(restricted, product) for product in products]),
        price_per_gpu=np.array([_bound_price(restricted, product) for product in products]),
        bare=np.array([not kind.key.gpus for kind in kinds]),
    )


def _gpu_table(counts: Mapping[PodClass, int]) -> Floats:
    """(free milli / 10, cores): free milli times the share of pods that cannot use them."""
    useful = np.zeros((GPU_MILLI // MILLI_STEP + 1, CORES))
    for each, count in counts.items():
        cores = _cores_up(each.cpu_milli)
        if each.gpus <= 1 and each.gpu_milli and cores < CORES:
            useful[-(-each.gpu_milli // MILLI_STEP), cores] += count
        elif each.gpus > 1:
            # Of free GPUs of its own; `_node_table` knows whether there are enough.
            useful[-1, 0] += count
    useless = sum(counts.values()) - useful.cumsum(axis=0).cumsum(axis=1)
    free_milli = MILLI_STEP * np.arange(len(useless))
    table: Floats = free_milli[:, None] * useless / sum(counts.values())
    return table


def _node_table(counts: Mapping[PodClass, int], gpu: Floats) -> Floats:
    """(free GPUs, free parts, cores): the sum over its GPUs, and what large pods cannot use."""
    free = np.arange(GPUS + 1)
    parts_milli = PART_MILLI * np.arange(PARTS + 1)
    part = gpu[PART_MILLI // MILLI_STEP] / PART_MILLI
    table: Floats = free[:, None, None] * gpu[-1] + parts_milli[:, None] * part
    total = sum(counts.values())
    useless = np.zeros((GPUS + 1, CORES))
    for each, count in counts.items():
        if each.gpus > 1:
            useless += count / total
            useless[each.gpus :, _cores_up(each.cpu_milli) :] -= count / total
    table += (GPU_MILLI * free[:, None] * useless)[:, None, :]
    return table


def _cpu_per_gpu(counts: Mapping[PodClass, int], fleet: list[NodeClass]) -> float:
    """Mean CPU per GPU of what is asked; in all if the fleet has less than that.

    While nobody asks for GPUs, what the fleet has beside them: CPU work that comes first must not
    leave the GPUs without CPU.
    """
    gpus = sum(each.gpu_milli * count for each, count in counts.items()) / GPU_MILLI
    gpus_there = sum(kind.nodes * kind.key.gpus for kind in fleet)
    if not gpus_there:
        return 0.0
    there = sum(kind.nodes * kind.key.cpu_milli for kind in fleet) / gpus_there
    if not gpus:
        return there
    beside = sum(each.cpu_milli * count for each, count in counts.items() if each.gpu_milli)
    asked = sum(each.cpu_milli * count for each, count in counts.items()) / gpus
    return asked if asked > there else beside / gpus


def _restricted(counts: Mapping[PodClass, int], fleet: list[NodeClass]) -> dict[PodClass, float]:
    """Price of each class that not every node can take: (demand / supply) ** 4."""
    asked: dict[PodClass, int] = {}
    for each, count in counts.items():
        if each.gpus > 1 or (each.gpu_milli and each.products):
            cpu_milli = -(-each.cpu_milli // CPU_STEP_MILLI) * CPU_STEP_MILLI
            merged = PodClass(max(each.gpus, 1), 0, cpu_milli, each.products)
            if merged.gpus == 1:
                merged = merged._replace(cpu_milli=0)
            asked[merged] = asked.get(merged, 0) + count * each.gpu_milli
    demand = sum(each.gpu_milli * count for each, count in counts.items())
    gpus = sum(kind.nodes * kind.key.gpus for kind in fleet)
    prices = {}
    for each, amount in sorted(asked.items(), key=lambda item: (-item[1], item[0]))[:SCARCE_MAX]:
        supply = sum(kind.nodes * each.gpus * _pods(each, kind) for kind in fleet)
        if supply:
            prices[each] = min(amount / demand * gpus / supply, PRICE_MAX) ** PRICE_POWER
    return prices


def _pods(each: PodClass, kind: NodeClass) -> int:
    """How many pods an empty node of the kind takes."""
    if each.products and kind.key.product not in each.products:
        return 0
    by_gpu = kind.key.gpus // each.gpus
    return min(by_gpu, kind.key.cpu_milli // each.cpu_milli) if each.cpu_milli else by_gpu


def _scarce_table(restricted: Mapping[PodClass, float], product: str) -> Floats:
    """(free GPUs, cores): GPU that large pods could be given there, at its price."""
    table = np.zeros((GPUS + 1, CORES))
    free = np.arange(GPUS + 1)[:, None]
    cores = np.arange(CORES)[None, :]
    for each, price in restricted.items():
        if each.gpus > 1 and (not each.products or product in each.products):
            by_cpu = cores * 1000 // max(each.cpu_milli, 1)
            table += price * GPU_MILLI * each.gpus * np.minimum(free // each.gpus, by_cpu)
    return table


def _bound_price(restricted: Mapping[PodClass, float], product: str) -> float:
    """Milli by which one GPU of the product is dear to single pods that take no other."""
    return GPU_MILLI * sum(
        price for each, price in restricted.items() if each.gpus == 1 and product in each.products
    )


def _cores_up(cpu_milli: int) -> int:
    return -(-cpu_milli // 1000)
