"""Nodes that no filter can tell apart, and the free lists on which their free capacity lies.

Static filters (flavor, product, pool, driver, taints ...) are asked once for each node class, of
which a
fleet has dozens, and never for a node. Inside a node class every node that takes new work lies on:

- one free list by its number of free whole GPUs, in order of free CPU;
- for each GPU that a team shares: that team's free list, in order of free milli-GPU;
- for each GPU in MIG mode: the free list of its exact state (core/model/mig/table.py), in order of
  rank.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.cluster.free_list import Entry, FreeList
from shared.core.cluster.images import ImageIndex
from shared.core.cluster.node_class import NodeClass, NodeClassKey, StatesOf
from shared.core.cluster.node_state import NodeState
from shared.core.model.units import GPU_MILLI

_GpuEntry = tuple[dict[str, FreeList], str, Entry]
"""(free lists, name of the free list, entry)"""


class CapacityIndex(NodeClass):
    """The free lists of one class of nodes; `nodes` counts those on no free list, too."""

    __slots__ = ("_entries", "_gpu_entries", "by_free", "images", "mig", "occupied", "shared")

    def __init__(self, key: NodeClassKey, states_of: StatesOf, images: ImageIndex) -> None:
        super().__init__(key, states_of)
        self.images = images
        """Of all node classes of the flavor."""
        self.by_free = [FreeList() for _ in range(key.gpus + 1)]
        self.occupied = 0
        """Bit f is set while some node has exactly f whole GPUs free."""
        self.shared: dict[str, FreeList] = {}
        self.mig: dict[str, FreeList] = {}
        """By state, in decimal."""
        self._entries: dict[NodeState, tuple[int, Entry]] = {}
        """Nodes on a free list of `by_free`: (free whole GPUs, entry)."""
        self._gpu_entries: dict[NodeState, dict[int, _GpuEntry]] = {}
        """By node and GPU, of those on a free list of `shared` or `mig`."""

    def entry_of(self, node: NodeState) -> tuple[int, Entry] | None:
        """Its free whole GPUs, and its entry on that list of `by_free`; None: it is on none."""
        return self._entries.get(node)

    def update(self, node: NodeState, gpus: Iterable[int]) -> None:
        """Bring the free lists in step with `node`, where `gpus` may have changed."""
        self._take_out(node)
        if node.schedulable:
            free = node.free_count
            item = (node.free_cpu_milli, node.rank, -1, node)
            self.by_free[free].add(item)
            self.occupied |= 1 << free
            self._entries[node] = (free, item)
        for gpu in gpus:
            self._take_gpu_out(node, gpu)
            self._put_gpu_in(node, gpu)

    def withdraw(self, node: NodeState, gpus: Iterable[int]) -> None:
        """Take `node` off all free lists: it is gone, or of another node class now."""
        self._take_out(node)
        for gpu in gpus:
            self._take_gpu_out(node, gpu)

    def _take_out(self, node: NodeState) -> None:
        old = self._entries.pop(node, None)
        if old is None:
            return
        free, item = old
        free_list = self.by_free[free]
        free_list.remove(item)
        if not free_list.size:
            self.occupied &= ~(1 << free)

    def _take_gpu_out(self, node: NodeState, gpu: int) -> None:
        entries = self._gpu_entries.get(node)
        old = entries.pop(gpu, None) if entries else None
        if entries is None or old is None:
            return
        if not entries:
            del self._gpu_entries[node]
        free_lists, name, item = old
        free_list = free_lists[name]
        free_list.remove(item)
        if not free_list.size:
            del free_lists[name]
        if free_lists is self.mig and self.pool is not None:
            self.pool.take(int(name))

    def _put_gpu_in(self, node: NodeState, gpu: int) -> None:
        use = node.uses.get(gpu)
        if use is None:
            return
        if use.offers_mig:
            free_lists, name, amount = self.mig, str(use.state), 0
        elif use.offers_shares:
            free_lists, name, amount = self.shared, use.team, GPU_MILLI - use.milli
        else:
            return
        item = (amount, node.rank, gpu, node)
        free_list = free_lists.get(name)
        if free_list is None:
            free_list = free_lists[name] = FreeList()
        free_list.add(item)
        if free_lists is self.mig and self.pool is not None:
            self.pool.put(int(name))
        self._gpu_entries.setdefault(node, {})[gpu] = (free_lists, name, item)
