"""What a reservation keeps from others: its placement less what its victims still hold there.

A victim's devices are charged to it until its pods are seen gone, so nothing else can have them.
Only the rest has to be held, and that follows from the placement and the victims that are left
alone: whatever else came and went since, before and after a restart, it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.state import pod_size
from shared.core.model.nouns import GpuShare, Placement, Workload
from shared.core.model.units import GPU_MILLI, SLICES
from shared.core.preemption.moves import Holder
from shared.core.scoring import Cluster

Place = tuple[str, int]
"""(node, GPU)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What is held on one node under one team."""

    node: str
    team: str
    shares: tuple[GpuShare, ...]
    cpu_milli: int = 0
    memory_mib: int = 0
    media: bool = False
    rest: bool = False
    """All that its last owners have left of a GPU: kept once, if several are to go there."""


@dataclass(slots=True)
class _HeldGpu:
    """What some workloads hold of one GPU."""

    team: str
    mask: int = 0
    milli: int = 0
    memory_mib: int = 0
    media: bool = False


@dataclass(slots=True)
class _Sums:
    """What some workloads hold, by node and by GPU."""

    cpu_milli: dict[str, int] = field(default_factory=dict)
    memory_mib: dict[str, int] = field(default_factory=dict)
    gpus: dict[Place, _HeldGpu] = field(default_factory=dict)

    def add(self, workload: Workload, placement: Placement) -> None:
        sizes = {one.name: pod_size(one) for one in workload.spec.pod_sets}
        for pod in placement.pods:
            cpu_milli, memory_mib, media = sizes[pod.pod_set]
            self.cpu_milli[pod.node] = self.cpu_milli.get(pod.node, 0) + cpu_milli
            self.memory_mib[pod.node] = self.memory_mib.get(pod.node, 0) + memory_mib
            for share in pod.shares:
                gpu = self.gpus.setdefault((pod.node, share.index), _HeldGpu(workload.team))
                gpu.mask |= share.mask
                gpu.milli += share.milli
                gpu.memory_mib += share.memory_mib
                gpu.media |= media


def pieces_of(workload: Workload, placement: Placement, leaving: Iterable[Holder]) -> list[Piece]:
    """What to hold for `workload` while `leaving` is still held by victims. O(pods)."""
    wanted, covered = _Sums(), _Sums()
    wanted.add(workload, placement)
    for victim, part in leaving:
        covered.add(victim, part)
    return [*_of_nodes(workload.team, wanted, covered), *_of_gpus(wanted, covered)]


def _of_nodes(team: str, wanted: _Sums, covered: _Sums) -> Iterator[Piece]:
    for node, cpu_milli in wanted.cpu_milli.items():
        yield Piece(
            node,
            team,
            (),
            max(0, cpu_milli - covered.cpu_milli.get(node, 0)),
            max(0, wanted.memory_mib[node] - covered.memory_mib.get(node, 0)),
        )


def _of_gpus(wanted: _Sums, covered: _Sums) -> Iterator[Piece]:
    for place, gpu in wanted.gpus.items():
        under = covered.gpus.get(place)
        node, index = place
        if under is None:
            share = GpuShare(
                index=index, mask=gpu.mask, milli=gpu.milli, memory_mib=gpu.memory_mib
            )
            yield Piece(node, gpu.team, (share,), media=gpu.media)
            continue
        team, rest = _beside(index, gpu, under)
        if rest.mask or rest.milli or rest.memory_mib:
            yield Piece(node, team, (rest,), rest=_changes(gpu, under))


def _beside(index: int, gpu: _HeldGpu, under: _HeldGpu) -> tuple[str, GpuShare]:
    """What is held of a GPU on which victims are, and under which team.

    Of one that is to change its owner or its mode, everything that they do not hold.
    """
    if under.mask:
        mask = gpu.mask & ~under.mask
        milli = GPU_MILLI * mask.bit_count() // SLICES
        return gpu.team, GpuShare(index=index, mask=mask, milli=milli, memory_mib=0)
    if _changes(gpu, under):
        milli = GPU_MILLI - under.milli
        return under.team, GpuShare(index=index, mask=0, milli=milli, memory_mib=0)
    milli = max(0, gpu.milli - under.milli)
    memory_mib = max(0, gpu.memory_mib - under.memory_mib)
    return gpu.team, GpuShare(index=index, mask=0, milli=milli, memory_mib=memory_mib)


def _changes(gpu: _HeldGpu, under: _HeldGpu) -> bool:
    """Whether shares make room for another team, or for instances."""
    return not under.mask and (gpu.mask > 0 or gpu.team != under.team)


def hold(cluster: Cluster, pieces: Sequence[Piece]) -> list[Piece]:
    """Hold `pieces`; those that could be, without the ones on nodes that are gone."""
    held = []
    for piece in pieces:
        state = cluster.nodes.get(piece.node)
        if state is not None and not (piece.rest and _is_kept(state, piece)):
            amounts = (piece.shares, piece.cpu_milli, piece.memory_mib)
            cluster.hold(state, piece.team, *amounts, media=piece.media)
            held.append(piece)
    return held


def _is_kept(state: NodeState, piece: Piece) -> bool:
    """Whether another keeps it already."""
    (share,) = piece.shares
    return state.use(share.index).milli + share.milli > GPU_MILLI


def let_go(cluster: Cluster, pieces: Sequence[Piece]) -> None:
    """Undo `hold`."""
    for piece in reversed(pieces):
        state = cluster.nodes[piece.node]
        amounts = (piece.shares, piece.cpu_milli, piece.memory_mib)
        cluster.free(state, *amounts, media=piece.media)
