"""Nodes that no filter can tell apart, and the shelves on which their free capacity lies.

Static filters (flavor, product, pool, driver, taints ...) are asked once for each kind, of which a
fleet has dozens, and never for a node. Inside a kind every node that takes new work lies on:

- one shelf by its number of free whole GPUs, in order of free CPU;
- for each GPU that a team shares: that team's shelf, in order of free milli-GPU;
- for each GPU in MIG mode: the shelf of its exact state (core/model/mig/table.py), in order of
  rank.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.cluster.images import ImageIndex
from shared.core.cluster.node_class import KindKey, NodeClass, StatesOf
from shared.core.cluster.node_state import NodeState
from shared.core.cluster.shelf import Entry, Shelf
from shared.core.model.units import GPU_MILLI

_GpuEntry = tuple[dict[str, Shelf], str, Entry]
"""(shelves, name of the shelf, entry)"""


class Kind(NodeClass):
    """The shelves of one class of nodes; `nodes` counts those on no shelf, too."""

    __slots__ = ("_entries", "_gpu_entries", "by_free", "images", "mig", "occupied", "shared")

    def __init__(self, key: KindKey, states_of: StatesOf, images: ImageIndex) -> None:
        super().__init__(key, states_of)
        self.images = images
        """Of all kinds of the flavor."""
        self.by_free = [Shelf() for _ in range(key.gpus + 1)]
        self.occupied = 0
        """Bit f is set while some node has exactly f whole GPUs free."""
        self.shared: dict[str, Shelf] = {}
        self.mig: dict[str, Shelf] = {}
        """By state, in decimal."""
        self._entries: dict[NodeState, tuple[int, Entry]] = {}
        """Nodes on a shelf of `by_free`: (free whole GPUs, entry)."""
        self._gpu_entries: dict[NodeState, dict[int, _GpuEntry]] = {}
        """By node and GPU, of those on a shelf of `shared` or `mig`."""

    def entry_of(self, node: NodeState) -> tuple[int, Entry] | None:
        """Its free whole GPUs, and its entry on that shelf of `by_free`; None: it is on none."""
        return self._entries.get(node)

    def shelve(self, node: NodeState, gpus: Iterable[int]) -> None:
        """Bring the shelves in step with `node`, whose GPUs `gpus` may have changed."""
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
        """Take `node` off all shelves: it is gone, or of another kind now."""
        self._take_out(node)
        for gpu in gpus:
            self._take_gpu_out(node, gpu)

    def _take_out(self, node: NodeState) -> None:
        old = self._entries.pop(node, None)
        if old is None:
            return
        free, item = old
        shelf = self.by_free[free]
        shelf.remove(item)
        if not shelf.size:
            self.occupied &= ~(1 << free)

    def _take_gpu_out(self, node: NodeState, gpu: int) -> None:
        entries = self._gpu_entries.get(node)
        old = entries.pop(gpu, None) if entries else None
        if entries is None or old is None:
            return
        if not entries:
            del self._gpu_entries[node]
        shelves, name, item = old
        shelf = shelves[name]
        shelf.remove(item)
        if not shelf.size:
            del shelves[name]
        if shelves is self.mig and self.pool is not None:
            self.pool.take(int(name))

    def _put_gpu_in(self, node: NodeState, gpu: int) -> None:
        use = node.uses.get(gpu)
        if use is None:
            return
        if use.offers_mig:
            shelves, name, amount = self.mig, str(use.state), 0
        elif use.offers_shares:
            shelves, name, amount = self.shared, use.team, GPU_MILLI - use.milli
        else:
            return
        item = (amount, node.rank, gpu, node)
        shelf = shelves.get(name)
        if shelf is None:
            shelf = shelves[name] = Shelf()
        shelf.add(item)
        if shelves is self.mig and self.pool is not None:
            self.pool.put(int(name))
        self._gpu_entries.setdefault(node, {})[gpu] = (shelves, name, item)
