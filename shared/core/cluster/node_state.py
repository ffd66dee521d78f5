"""One node as placement sees it: what its agent reported, what the ledger holds, where it hangs.

Amounts held are kept apart from the inventory: a report replaces the one and never the other, and
a node may hold allocations before its first report or after its removal. Nodes are the leaves of
the tree of the fabric. Its domains stand here too; core/cluster/topology.py makes the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

from shared.core.cluster.gpu_use import GpuUse
from shared.core.cluster.node_class import NodeClass
from shared.core.cluster.node_links import LinkTable, link_table, numa_masks
from shared.core.model.nouns import GpuShare, Level, Node


class NodeState:
    """Mutable; changed only by `core.scoring.cluster`, which keeps its indexes in step."""

    __slots__ = (
        "cpu_used_milli",
        "domain",
        "free_count",
        "free_cpu_milli",
        "free_mask",
        "free_memory_mib",
        "healthy",
        "in_mig_mode",
        "inventory",
        "links",
        "memory_used_mib",
        "name",
        "node_class",
        "numa_masks",
        "pin",
        "rank",
        "unhealthy",
        "uses",
        "whole",
        "whole_count",
    )

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.inventory: Node | None = None
        self.healthy = True
        self.uses: dict[int, GpuUse] = {}
        self.unhealthy = 0
        """GPUs that are out although the node takes work."""
        self.cpu_used_milli = 0
        self.memory_used_mib = 0
        self.free_cpu_milli = 0
        self.free_memory_mib = 0
        self.free_mask = 0
        self.free_count = 0
        self.in_mig_mode = False
        """Whether instances may be made on any of its GPUs."""
        self.links: LinkTable | None = None
        """Which of its free GPUs to give away; None for more than 16 (cluster/node_links.py)."""
        self.numa_masks: tuple[int, ...] = ()
        """The GPUs of each NUMA domain, as masks."""
        self.pin = 0
        """The promise for which it is kept; part of its node class."""
        self.node_class: NodeClass | None = None
        self.domain: Domain | None = None
        """The tightest domain of the fabric that names it ..."""
        self.whole = False
        """... and whether it counts there as wholly free: takes work, and has ..."""
        self.whole_count = -1
        """... so many whole GPUs free; -1 if it never counts."""

    def __lt__(self, other: NodeState) -> bool:
        """Only asked if two names share a rank."""
        return self.name < other.name

    @property
    def schedulable(self) -> bool:
        """Whether the node takes new work at all."""
        node = self.inventory
        return node is not None and node.ready and not node.cordoned and self.healthy

    def use(self, gpu: int) -> GpuUse:
        """What is held of GPU `gpu`; an unknown one comes into being, unreported."""
        use = self.uses.get(gpu)
        if use is None:
            use = self.uses[gpu] = GpuUse()
        return use

    def gpu_memory_mib(self, gpu: int) -> int:
        """Memory of GPU `gpu` as reported; 0 if it is not."""
        known = self.uses[gpu].gpu
        return known.memory_mib if known else 0

    def report(self, inventory: Node | None) -> None:
        """Replace the inventory; None when the node is gone."""
        self.inventory = inventory
        gpus = {gpu.index: gpu for gpu in inventory.gpus} if inventory else {}
        numas = tuple(gpus[i].numa if i in gpus else -1 for i in range(max(gpus, default=-1) + 1))
        self.links = link_table(inventory.links if inventory else "", numas)
        self.numa_masks = numa_masks(numas)
        for index in gpus:
            self.use(index)
        takes_work = self.schedulable
        self.whole_count = len(gpus) if takes_work and gpus else -1
        self.unhealthy = sum(not gpu.healthy for gpu in gpus.values()) if takes_work else 0
        for index, use in list(self.uses.items()):
            use.gpu = gpus.get(index)
            use.usable = takes_work and use.gpu is not None and use.gpu.healthy
            if use.gpu is None and not use.milli:
                del self.uses[index]
        self.count()

    def hold(
        self,
        team: str,
        shares: Sequence[GpuShare],
        cpu_milli: int,
        memory_mib: int,
        *,
        media: bool,
    ) -> None:
        """Charge one pod. An overlap is a programmer's error: the ledger forbids it."""
        self.cpu_used_milli += cpu_milli
        self.memory_used_mib += memory_mib
        for share in shares:
            self.use(share.index).hold(team, share, media=media)
        self.count()

    def free(
        self, shares: Sequence[GpuShare], cpu_milli: int, memory_mib: int, *, media: bool
    ) -> None:
        """Undo `hold` of the same amounts."""
        self.cpu_used_milli -= cpu_milli
        self.memory_used_mib -= memory_mib
        for share in shares:
            use = self.uses[share.index]
            use.free(share, media=media)
            if use.gpu is None and not use.milli:
                del self.uses[share.index]
        self.count()

    def count(self) -> None:
        """Bring the free amounts in step; O(GPUs)."""
        node = self.inventory
        self.free_cpu_milli = (node.cpu_milli if node else 0) - self.cpu_used_milli
        self.free_memory_mib = (node.memory_mib if node else 0) - self.memory_used_mib
        self.free_mask = 0
        self.in_mig_mode = False
        for index, use in self.uses.items():
            if use.offers_whole:
                self.free_mask |= 1 << index
            elif use.offers_mig:
                self.in_mig_mode = True
        self.free_count = self.free_mask.bit_count()


class Domain:
    """A part of the fabric; `children` are the domains and the unlabelled nodes in it."""

    __slots__ = (
        "children",
        "fills",
        "is_block",
        "level",
        "name",
        "parent",
        "path",
        "rank",
        "size",
        "whole",
    )

    def __init__(
        self, level: Level, path: tuple[str, ...], parent: Domain | None, rank: int
    ) -> None:
        self.level = level
        self.path = path
        self.name = path[-1]
        self.parent = parent
        self.rank = rank
        self.children: dict[str, Domain | NodeState] = {}
        """By a key that is unique in this domain."""
        self.fills = level in (Level.RACK, Level.NVLINK_DOMAIN)
        """Whether single pods fill such parts one after the other.

        See core/scoring/policies/fabric_order.py.
        """
        self.is_block = level is Level.BLOCK
        self.size = 0
        """Nodes in it ..."""
        self.whole = 0
        """... and those that take new work and have all their GPUs free."""

    def __lt__(self, other: Domain) -> bool:
        """Only asked if two paths share a rank."""
        return self.path < other.path

    def nodes(self) -> Iterator[NodeState]:
        """All nodes in it. O(nodes in it)."""
        for child in self.children.values():
            if isinstance(child, Domain):
                yield from child.nodes()
            else:
                yield child


def copy_of(node: NodeState) -> NodeState:
    """A node of its own to try things on, on no free list and in no domain."""
    twin = NodeState(node.name, node.rank)
    twin.inventory, twin.healthy, twin.node_class = node.inventory, node.healthy, node.node_class
    twin.links, twin.numa_masks = node.links, node.numa_masks
    twin.uses = {index: copy(use) for index, use in node.uses.items()}
    twin.cpu_used_milli, twin.memory_used_mib = node.cpu_used_milli, node.memory_used_mib
    twin.count()
    return twin
