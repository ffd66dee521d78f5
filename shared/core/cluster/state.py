"""The fleet with everything that is held on it, indexed so that no decision looks at all of it.

Three things are kept for each node: the inventory that its agent reported, the amounts that the
ledger holds (core/cluster/node_state.py), and its places on the free lists of its node class
(core/cluster/capacity_index.py) and in the tree of the fabric (core/cluster/topology.py). Every
change touches one node and moves it on these free lists. Nothing depends on the order in which
nodes were reported: equals are told apart by a seeded rank of the name. Rebuilt from PostgreSQL at
start; `digest` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Generic, Protocol, TypeVar

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.images import ImageIndex
from shared.core.cluster.node_class import NodeClassKey, StatesOf, node_class_key
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.ordering_ties import node_rank
from shared.core.cluster.topology import Fabric
from shared.core.model.nouns import GpuShare, Node, PodPlacement, PodSet
from shared.core.model.units import GPU_MILLI
from shared.core.model.value import replace

CHANGES_MAX: Final = 1 << 16
"""Of so many changes the older half is forgotten: a reader that far behind starts anew."""


class FlavorIndex(Protocol):
    """What follows the nodes of one flavor; told of every change (scoring/packing_index.py)."""

    @property
    def images(self) -> ImageIndex:
        """The images on its nodes."""

    @property
    def states_of(self) -> StatesOf:
        """Its GPUs in MIG mode, by product."""

    def change(self, node: NodeState) -> None:
        """A node of the flavor changed."""

    def leave(self, node: NodeState) -> None:
        """A node is gone, or of another flavor."""

    def reorder(self, domains: Mapping[Domain, None]) -> None:
        """The nodes of `domains` come in another order now."""

    def follow(self) -> None:
        """Something was released: take in all changes."""


Index_co = TypeVar("Index_co", bound=FlavorIndex, covariant=True)


class ClusterState(Generic[Index_co]):
    """State of one cell. Not thread-safe; the placement service is its single writer."""

    def __init__(self, new_index: Callable[[], Index_co], *, seed: int = 0) -> None:
        """`new_index` makes what follows a flavor; `seed` decides ties only."""
        self._new_index = new_index
        self._seed = seed
        self.nodes: dict[str, NodeState] = {}
        """By name; also nodes that are gone but still hold something."""
        self.node_classes: dict[NodeClassKey, CapacityIndex] = {}
        self.plans: dict[Hashable, tuple[tuple[CapacityIndex, ...], ...]] = {}
        """What `placement.feasibility` worked out about the node classes; emptied with them."""
        self.fabric = Fabric(seed)
        self.changes_before = 0
        """Changes that are forgotten; then come these:"""
        self.changes: list[NodeState] = []
        """Nodes in the order they changed; `core.placement.room` follows it."""
        self.rooms: dict[Hashable, object] = {}
        """Indexes of `placement.room`, which alone looks at them; forgotten with the node
        classes."""
        self._indexes: dict[str, Index_co] = {}
        """By flavor."""
        self._index_of: dict[NodeState, Index_co] = {}
        """Which follows a node."""
        self._node_class_of: dict[NodeState, CapacityIndex] = {}
        """The one with the free lists that a node may be on."""
        self._gpu_milli_total = 0
        self._gpu_milli_used = 0

    # ── inventory ──

    def put_node(self, node: Node) -> None:
        """Add a node or replace what is known of it; what is held there stays charged. O(GPUs)."""
        state = self._state(node.name)
        state.healthy = True
        self._report(state, node)

    def set_gpu_health(self, node: str, gpu: int, healthy: bool) -> None:  # noqa: FBT001
        """Keep new work off a GPU, or off the whole node if `gpu` is -1; or let it return.

        An unknown node or GPU is ignored: its inventory, when it comes, brings its health.
        """
        state = self.nodes.get(node)
        if state is None or state.inventory is None:
            return
        if gpu < 0:
            state.healthy = healthy
            self._report(state, state.inventory)
            return
        gpus = tuple(
            replace(each, healthy=healthy) if each.index == gpu else each
            for each in state.inventory.gpus
        )
        self._report(state, replace(state.inventory, gpus=gpus))

    def remove_node(self, node: str) -> None:
        """Take a node out: no new work; what is held there stays known until released."""
        state = self.nodes.get(node)
        if state is not None:
            self._report(state, None)

    def pin(self, node: str, number: int) -> None:
        """Keep a node for promise `number`, or for none if 0: it is of another node class then.

        Only requests that name the number find it (core/placement/feasibility.py). An unknown node
        is ignored. O(GPUs).
        """
        state = self.nodes.get(node)
        if state is not None and state.pin != number:
            state.pin = number
            if state.inventory is not None:
                self._report(state, state.inventory)

    def node(self, name: str) -> Node | None:
        """The inventory of a node with its present health; None if unknown or removed."""
        state = self.nodes.get(name)
        return state.inventory if state else None

    def rank_of(self, node: str) -> int:
        """By which `node`, known or not, is told apart from equals."""
        return node_rank(self._seed, node)

    # ── the ledger ──

    def charge(self, team: str, pods: Sequence[PodPlacement], pod_sets: Sequence[PodSet]) -> None:
        """Hold what `pods` were given. An overlap is a programmer's error (AssertionError)."""
        sizes = {pod_set.name: pod_size(pod_set) for pod_set in pod_sets}
        for pod in pods:
            cpu_milli, memory_mib, media = sizes[pod.pod_set]
            state = self._state(pod.node)
            self.hold(state, team, pod.shares, cpu_milli, memory_mib, media=media)

    def release(self, team: str, pods: Sequence[PodPlacement], pod_sets: Sequence[PodSet]) -> None:
        """Give back what `charge` took with the same arguments."""
        del team
        sizes = {pod_set.name: pod_size(pod_set) for pod_set in pod_sets}
        for pod in pods:
            cpu_milli, memory_mib, media = sizes[pod.pod_set]
            self.free(self._state(pod.node), pod.shares, cpu_milli, memory_mib, media=media)
        for index in self._indexes.values():
            index.follow()

    def hold(
        self,
        state: NodeState,
        team: str,
        shares: Sequence[GpuShare],
        cpu_milli: int,
        memory_mib: int,
        *,
        media: bool,
    ) -> None:
        """Charge one pod to a node; the search uses it through `core.cluster.statement`."""
        state.hold(team, shares, cpu_milli, memory_mib, media=media)
        self._gpu_milli_used += sum(share.milli for share in shares)
        node_class = self._node_class_of.get(state)
        if node_class is not None:
            node_class.update(state, [share.index for share in shares])
        self._changed(state)
        self._forget_if_empty(state)

    def free(
        self,
        state: NodeState,
        shares: Sequence[GpuShare],
        cpu_milli: int,
        memory_mib: int,
        *,
        media: bool,
    ) -> None:
        """Undo `hold`."""
        state.free(shares, cpu_milli, memory_mib, media=media)
        self._gpu_milli_used -= sum(share.milli for share in shares)
        node_class = self._node_class_of.get(state)
        if node_class is not None:
            # All GPUs: the bounds of their free lists must learn of the CPU that came free.
            node_class.update(state, state.uses)
        self._changed(state)
        self._forget_if_empty(state)

    def index(self, flavor: str) -> Index_co:
        """What follows the nodes of `flavor`; made when it is first asked for."""
        index = self._indexes.get(flavor)
        if index is None:
            index = self._indexes[flavor] = self._new_index()
        return index

    # ── totals ──

    def gpu_milli_total(self) -> int:
        """Milli-GPU of all reported GPUs, healthy or not."""
        return self._gpu_milli_total

    def gpu_milli_used(self) -> int:
        """Milli-GPU held, also on nodes that are gone."""
        return self._gpu_milli_used

    def digest(self) -> bytes:
        """A hash of everything reported and held, whatever order it came in. O(cluster)."""
        hasher = blake2b(digest_size=16)
        for name in sorted(self.nodes):
            state = self.nodes[name]
            uses = sorted(
                (gpu, use.state, use.milli, use.memory_mib, use.team)
                for gpu, use in state.uses.items()
                if use.milli
            )
            held = (state.cpu_used_milli, state.memory_used_mib, uses)
            hasher.update(repr((name, state.inventory, state.healthy, held)).encode())
        return hasher.digest()

    # ── inside ──

    def _state(self, name: str) -> NodeState:
        state = self.nodes.get(name)
        if state is None:
            state = self.nodes[name] = NodeState(name, self.rank_of(name))
        return state

    def _report(self, state: NodeState, inventory: Node | None) -> None:
        before = state.inventory
        self._gpu_milli_total += GPU_MILLI * (
            (len(inventory.gpus) if inventory else 0) - (len(before.gpus) if before else 0)
        )
        gpus = set(state.uses)
        old = self._node_class_of.get(state)
        if old is not None:
            old.unhealthy -= state.unhealthy
        state.report(inventory)
        gpus.update(state.uses)
        node_class = self._node_class(inventory, state.pin) if inventory else None
        if old is not None and before is not None and before.images:
            old.images.take(state, before.images)
        if node_class is not None and inventory is not None and inventory.images:
            node_class.images.put(state, inventory.images)
        if old is not None and old is not node_class:
            self._leave(state, old, gpus)
        if node_class is not None:
            if old is not node_class:
                node_class.nodes += 1
                self._node_class_of[state] = state.node_class = node_class
            node_class.unhealthy += state.unhealthy
            node_class.update(state, gpus)
        if inventory is None:
            self.fabric.remove(state)
        else:
            self.fabric.put(state, inventory)
        self._changed(state)
        self._forget_if_empty(state)

    def _changed(self, state: NodeState) -> None:
        if len(self.changes) >= CHANGES_MAX:
            self.changes_before += CHANGES_MAX // 2
            del self.changes[: CHANGES_MAX // 2]
        self.changes.append(state)
        index = self.index(state.node_class.key.flavor) if state.node_class is not None else None
        before = self._index_of.get(state)
        if before is not index:
            if before is not None:
                before.leave(state)
                del self._index_of[state]
            if index is not None:
                self._index_of[state] = index
        if index is not None:
            index.change(state)
        self.fabric.follow(state)
        if self.fabric.reordered:
            for each in self._indexes.values():
                each.reorder(self.fabric.reordered)
            self.fabric.reordered.clear()

    def _node_classes_changed(self) -> None:
        self.plans.clear()
        self.rooms.clear()

    def _node_class(self, inventory: Node, pin: int) -> CapacityIndex:
        key = node_class_key(inventory, pin)
        node_class = self.node_classes.get(key)
        if node_class is None:
            index = self.index(key.flavor)
            node_class = self.node_classes[key] = CapacityIndex(key, index.states_of, index.images)
            self._node_classes_changed()
        return node_class

    def _leave(self, state: NodeState, node_class: CapacityIndex, gpus: set[int]) -> None:
        node_class.withdraw(state, gpus)
        del self._node_class_of[state]
        state.node_class = None
        node_class.nodes -= 1
        if not node_class.nodes:
            del self.node_classes[node_class.key]
            self._node_classes_changed()

    def _forget_if_empty(self, state: NodeState) -> None:
        if state.inventory is None and not (
            state.uses or state.cpu_used_milli or state.memory_used_mib
        ):
            self.nodes.pop(state.name, None)


def pod_size(pod_set: PodSet) -> tuple[int, int, bool]:
    """What a pod holds beside its GPUs: (milli-CPU, MiB, whether it has media engines)."""
    media = "+me" in pod_set.gpu.mig_profile
    return pod_set.cpu_milli or 0, pod_set.memory_mib or 0, media
