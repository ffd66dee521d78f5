"""Which idle GPU to move between the two baskets of a flavor: whole GPUs, and GPUs in MIG mode.

Each GPU is in one of them, and a switch costs: it must be idle and takes no work meanwhile (an
Ampere board is reset). So one is moved at a time, towards the share of MIG in what is asked for
(core/mix.py), and only when the split is off by more than a band; whoever waits is helped inside
the band. A basket never gives a GPU away while someone waits for it, nor its last one. The time
between two switches is the caller's. Two baskets after GRMU (arXiv 2502.01909; placement.md 3.4).
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from shared.core.cluster import Cluster
from shared.core.kind import Kind
from shared.core.node_state import NodeState

BAND_PERCENT: Final = 10
"""Of the GPUs that can have MIG; at least one GPU."""
LOOKED_MAX: Final = 64
EMPTY: Final = "0"
"""The shelf of GPUs in MIG mode on which nothing is held."""


class Waiting(NamedTuple):
    """Whether work that was refused for room waits for whole GPUs (or shares), and for MIG."""

    whole: bool = False
    mig: bool = False


class Switch(NamedTuple):
    """An idle GPU and whether it is to be in MIG mode."""

    node: str
    gpu: int
    mig: bool


def plan_switch(cluster: Cluster, flavor: str, waiting: Waiting) -> Switch | None:
    """The next switch in `flavor`; None when none is worth it. O(kinds x MIG states)."""
    modes = cluster.market(flavor).mix.modes
    kinds = [cluster.kinds[key] for key in sorted(cluster.kinds) if key.flavor == flavor]
    kinds = [kind for kind in kinds if kind.table is not None]
    total = sum(kind.nodes * kind.key.gpus for kind in kinds)
    in_mig = sum(shelf.size for kind in kinds for shelf in kind.mig.values())
    if not modes.known:
        return None
    missing = modes.mig_share_of(total) - in_mig
    band = max(1, total * BAND_PERCENT // 100)
    idle_mig = any(EMPTY in kind.mig for kind in kinds)
    wants_mig = missing > band or (waiting.mig and not idle_mig and missing > -band)
    wants_whole = missing < -band or (waiting.whole and missing < band)
    if wants_mig and not waiting.whole and total - in_mig > 1:
        return _to_mig(kinds)
    if wants_whole and not waiting.mig and in_mig > 1:
        return _to_whole(kinds)
    return None


def _to_mig(kinds: list[Kind]) -> Switch | None:
    """A free GPU of the node with the fewest of them: whole nodes are kept for gangs."""
    entries = (
        (free, entry[1], entry[3])
        for kind in kinds
        for free, shelf in enumerate(kind.by_free)
        if free and (entry := shelf.first(0, 0, 0)) is not None
    )
    found = min(entries, default=None, key=lambda each: each[:2])
    if found is None:
        return None
    node = found[2]
    gpu = min(index for index, use in node.uses.items() if use.offers_whole)
    return Switch(node.name, gpu, mig=True)


def _to_whole(kinds: list[Kind]) -> Switch | None:
    """An empty GPU of the node that has most whole ones free already."""
    found: list[tuple[int, int, int, NodeState]] = []
    for kind in kinds:
        for _, rank, gpu, node in islice(kind.mig.get(EMPTY, ()), LOOKED_MAX):
            found.append((-node.free_count, rank, gpu, node))
    best = min(found, default=None, key=lambda each: each[:3])
    return None if best is None else Switch(best[3].name, best[2], mig=False)
