"""What node facts do: the inventory in memory and in the ledger's node and GPU rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from shared.core.model import Node
from shared.core.value import replace
from shared.events.nodes import GpuHealthReported, NodeInventoryReported

_encode = msgspec.json.Encoder().encode


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the function `placement.put_nodes` takes it."""

    name: str
    generation: int
    present: bool
    ready: bool
    cpu_milli: int
    memory_mib: int
    gpus: tuple[tuple[int, int, bool], ...]
    body: str


@dataclass(slots=True)
class Fleet:
    """Last generation of each node, and the nodes that changed in this batch."""

    generations: dict[str, int] = field(default_factory=dict)
    present: dict[str, Node] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)

    def report(self, fact: NodeInventoryReported) -> bool:
        """Take an inventory; false when it is no newer than what is known."""
        if not self._newer(fact.node.name, fact.generation):
            return False
        self.present[fact.node.name] = fact.node
        return True

    def health(self, fact: GpuHealthReported) -> bool:
        """Take a change of health; false when it is old or the node is unknown."""
        node = self.present.get(fact.node)
        if node is None or not self._newer(fact.node, fact.generation):
            return False
        self.present[fact.node] = with_health(node, fact.gpu, healthy=fact.healthy)
        return True

    def remove(self, name: str, generation: int) -> bool:
        """Take a node out; false when the news is old."""
        if name not in self.present or not self._newer(name, generation):
            return False
        del self.present[name]
        return True

    def noticed(self, name: str, generation: int) -> bool:
        """Whether news of a node that is there is newer than all before."""
        return name in self.present and self._newer(name, generation)

    def _newer(self, name: str, generation: int) -> bool:
        if generation <= self.generations.get(name, -1):
            return False
        self.generations[name] = generation
        self.changed[name] = None
        return True

    def take_rows(self) -> list[str]:
        """Rows of the nodes that changed since the last call, for `placement.change_ledger`."""
        names, self.changed = self.changed, {}
        return [self._row(name) for name in names]

    def _row(self, name: str) -> str:
        node = self.present.get(name)
        generation = self.generations[name]
        if node is None:
            node = Node(name=name, flavor="", product="", cpu_milli=0, memory_mib=0, gpus=())
            return _row(node, generation, present=False)
        return _row(node, generation, present=True)


def _row(node: Node, generation: int, *, present: bool) -> str:
    row = NodeRow(
        name=node.name,
        generation=generation,
        present=present,
        ready=node.ready,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        gpus=tuple((gpu.index, gpu.memory_mib, gpu.healthy) for gpu in node.gpus),
        body=_encode(node).decode(),
    )
    return _encode(row).decode()


def with_health(node: Node, gpu: int, *, healthy: bool) -> Node:
    """`node` with the health of one GPU changed, or of the whole node for `gpu` -1."""
    if gpu < 0:
        return replace(node, ready=healthy)
    gpus = (replace(one, healthy=healthy) if one.index == gpu else one for one in node.gpus)
    return replace(node, gpus=tuple(gpus))
