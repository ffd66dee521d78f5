"""What static filters see of a node: its class. A fleet has dozens of classes, however many nodes.

core/cluster/capacity_index.py keeps the capacity of each class; a node knows only the class that
it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from shared.core.model.mig.reported import Reported, reported_by, table_of
from shared.core.model.mig.table import MigTable
from shared.core.model.nouns import Node


@dataclass(frozen=True, slots=True, order=True)
class NodeClassKey:
    """Everything that static filters look at."""

    flavor: str
    product: str
    pool: str
    driver: str
    cuda: str
    gpu_memory_mib: int
    """The smallest memory of its GPUs; 0 without a GPU."""
    gpus: int
    cpu_milli: int
    taints: tuple[str, ...]
    mig: Reported = ()
    """Its MIG profiles, where they are reported."""
    pin: int = 0
    """Number of the promise for which the node is kept (core/backfill/backfill.py); 0 for none."""


def node_class_key(node: Node, pin: int = 0) -> NodeClassKey:
    """The node class to which `node` belongs while it has this `pin`."""
    return NodeClassKey(
        node.flavor,
        node.product,
        node.pool,
        node.driver,
        node.cuda,
        min((gpu.memory_mib for gpu in node.gpus), default=0),
        len(node.gpus),
        node.cpu_milli,
        tuple(sorted(node.taints)),
        reported_by(node),
        pin,
    )


class MigStates(Protocol):
    """The GPUs in MIG mode of one product, by their exact state (core/scoring/mig_pool.py)."""

    def put(self, state: int) -> None:
        """A GPU came into `state`."""

    def take(self, state: int) -> None:
        """A GPU left `state`."""

    def offers(self, name: str) -> Iterator[tuple[int, int, int]]:
        """(cost, state, start) of one more instance of `name`, the cheapest first."""

    def cheapest(self, states: Mapping[int, int], name: str) -> tuple[int, int]:
        """(GPU, start) for one more instance among GPUs given by index, one of which has room."""


StatesOf = Callable[[MigTable], MigStates]
"""The states of the product of a table, one object for each product of a flavor."""


class NodeClass:
    """Nodes that no static filter can tell apart."""

    __slots__ = ("cpu_per_gpu", "key", "nodes", "pool", "table", "unhealthy")

    def __init__(self, key: NodeClassKey, states_of: StatesOf) -> None:
        self.key = key
        self.table: MigTable | None = (
            table_of(key.product, key.gpu_memory_mib, key.mig) if key.gpus else None
        )
        self.pool: MigStates | None = states_of(self.table) if self.table else None
        """The GPUs in MIG mode of all classes of this product in the flavor."""
        self.nodes = 0
        """All of them, with room or without."""
        self.unhealthy = 0
        """GPUs out of service on nodes that take work."""
        self.cpu_per_gpu = key.cpu_milli // key.gpus if key.gpus else 0
        """CPU that should stay beside each free GPU."""

    def mig_milli(self, profile: str) -> int:
        """What quota counts for one instance of `profile` here, which the class must know."""
        assert self.table is not None
        return self.table.profiles[profile].milli
