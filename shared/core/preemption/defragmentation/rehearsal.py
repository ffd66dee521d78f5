"""Moves tried out on the cluster itself, with a log that takes every one of them back.

A move is place before evict: the new place is found and charged by the placer while the old one is
still held, then the old one is given back. After `rollback` the cluster is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from shared.core.cluster.gpu_use import GpuUse
from shared.core.cluster.node_state import NodeState
from shared.core.cluster.state import pod_size
from shared.core.cluster.tenants import Running, Tenants
from shared.core.model.demand import Gang, gang_of
from shared.core.model.mig.table import MEDIA_BIT
from shared.core.model.nouns import WHOLE_MASK, GpuShare, Placement, PodPlacement, Workload
from shared.core.model.units import GPU_MILLI, Resources
from shared.core.model.value import replace
from shared.core.placement.gang import attempt
from shared.core.placement.place import placement_of
from shared.core.preemption.defragmentation.evacuation import NodeRoom
from shared.core.scoring import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of a plan: start `workload_id` at `to_pods`, then stop it at `from_pods`."""

    workload_id: str
    from_pods: tuple[PodPlacement, ...]
    to_pods: tuple[PodPlacement, ...]


class MoveRehearsal:
    """One series of moves; `steps` counts what was asked of the placer in all."""

    def __init__(self, cluster: Cluster, tenants: Tenants[Running]) -> None:
        self._cluster = cluster
        self._tenants = tenants
        self._undo: list[Callable[[], None]] = []
        self.steps = 0

    def checkpoint(self) -> int:
        """A point to roll back to."""
        return len(self._undo)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo everything since `checkpoint`, the latest first."""
        while len(self._undo) > checkpoint:
            self._undo.pop()()

    def reserve(self, room: NodeRoom) -> None:
        """Keep new work off these GPUs, and charge the CPU and memory at once.

        While those that must leave are there, less than nothing of these may be free.
        """
        self._keep(room)
        self._undo.append(partial(self._let_go, room))

    def open(self, room: NodeRoom) -> None:
        """Let new work onto what was reserved."""
        self._let_go(room)
        self._undo.append(partial(self._keep, room))

    def fits(self, gang: Gang, flavor: str, headroom: Resources) -> Placement | None:
        """Where the gang would go now; nothing stays charged."""
        self.steps += 1
        statement = attempt(self._cluster, gang, flavor, headroom)
        if statement is None:
            return None
        placement = placement_of(flavor, statement)
        statement.rollback()
        return placement

    def move(self, running: Running) -> Move | None:
        """Move a workload to the best other place in its flavor, for no larger a charge."""
        old = running.placement
        found = self.fits(gang_of(running.workload), old.flavor, old.charge)
        if found is None:
            return None
        move = Move(workload_id=running.id, from_pods=old.pods, to_pods=found.pods)
        self._carry_out(move)
        return move

    def repeat(self, move: Move) -> bool:
        """Make the very same move again; False, and nothing done, if its place is not free."""
        self.steps += 1
        workload = self._tenants.running[move.workload_id].workload
        if not take(self._cluster, workload, move.to_pods):
            return False
        self._cluster.release(workload.team, move.to_pods, workload.spec.pod_sets)
        self._carry_out(move)
        return True

    def stop(self, running: Running) -> None:
        """Give back what a workload holds."""
        workload, pods = running.workload, running.placement.pods
        self._cluster.release(workload.team, pods, workload.spec.pod_sets)
        self._undo.append(
            partial(self._cluster.charge, workload.team, pods, workload.spec.pod_sets)
        )

    def _carry_out(self, move: Move) -> None:
        workload = self._tenants.running[move.workload_id].workload
        team, pod_sets = workload.team, workload.spec.pod_sets
        self._cluster.charge(team, move.to_pods, pod_sets)
        self._cluster.release(team, move.from_pods, pod_sets)
        self._undo.append(partial(self._cluster.release, team, move.to_pods, pod_sets))
        self._undo.append(partial(self._cluster.charge, team, move.from_pods, pod_sets))

    def _keep(self, room: NodeRoom) -> None:
        node = self._cluster.nodes[room.node]
        self._set_health(node, room.gpus, healthy=False)
        self._cluster.hold(node, "", (), room.cpu_milli, room.memory_mib, media=False)

    def _let_go(self, room: NodeRoom) -> None:
        node = self._cluster.nodes[room.node]
        self._cluster.free(node, (), room.cpu_milli, room.memory_mib, media=False)
        self._set_health(node, room.gpus, healthy=True)

    def _set_health(self, node: NodeState, gpus: frozenset[int], *, healthy: bool) -> None:
        """As if these GPUs, which are healthy, were not; or as they are again."""
        if gpus:
            assert node.inventory is not None
            changed = tuple(
                replace(gpu, healthy=healthy) if gpu.index in gpus else gpu
                for gpu in node.inventory.gpus
            )
            self._cluster.put_node(replace(node.inventory, gpus=changed))


def take(cluster: Cluster, workload: Workload, pods: Sequence[PodPlacement]) -> bool:
    """Charge exactly `pods`; False, and nothing charged, if any part of them is not free."""
    sizes = {pod_set.name: pod_size(pod_set) for pod_set in workload.spec.pod_sets}
    charged: list[PodPlacement] = []
    for pod in pods:
        node = cluster.nodes.get(pod.node)
        if node is None or not takes(node, pod.shares, workload.team, sizes[pod.pod_set]):
            cluster.release(workload.team, charged, workload.spec.pod_sets)
            return False
        cluster.charge(workload.team, (pod,), workload.spec.pod_sets)
        charged.append(pod)
    return True


def takes(
    node: NodeState, shares: tuple[GpuShare, ...], team: str, size: tuple[int, int, bool]
) -> bool:
    """Whether exactly these devices are there and free on `node`, with the CPU and memory."""
    cpu_milli, memory_mib, media = size
    if not node.schedulable or node.free_cpu_milli < cpu_milli:
        return False
    if node.free_memory_mib < memory_mib:
        return False
    uses = node.uses
    return all(
        share.index in uses and _free(uses[share.index], share, team, media=media)
        for share in shares
    )


def _free(use: GpuUse, share: GpuShare, team: str, *, media: bool) -> bool:
    if share.mask == WHOLE_MASK and not use.offers_mig:
        return use.offers_whole
    if share.mask:
        wanted = share.mask | (MEDIA_BIT if media else 0)
        return use.offers_mig and not use.state & wanted
    opens = use.offers_whole or (use.offers_shares and use.team == team)
    enough = use.milli + share.milli <= GPU_MILLI
    return opens and enough and use.free_memory_mib >= share.memory_mib
