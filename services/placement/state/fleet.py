"""What node facts do: the inventory in memory and in the ledger's node and GPU rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from shared.core.model.nouns import Node
from shared.core.model.value import replace
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
    switches: dict[tuple[str, int], int] = field(default_factory=dict)
    """GPUs that change their mode, with the time until which they may."""
    disputed: set[tuple[str, int]] = field(default_factory=set)
    """GPUs of which a kubelet told what cannot be (takeovers.py)."""
    out_of_service: set[tuple[str, int]] = field(default_factory=set)
    """GPUs that the ladder of health keeps from work (device_health.py)."""
    shunned: set[str] = field(default_factory=set)
    """Nodes on which nothing starts (shunning.py)."""

    def report(self, fact: NodeInventoryReported) -> bool:
        """Take an inventory; false when it is no newer than what is known."""
        if not self._newer(fact.node.name, fact.generation):
            return False
        known = self.present.get(fact.node.name)
        self.put(fact.node if known is None else still_switching(known, fact.node))
        return True

    def put(self, node: Node) -> None:
        """Take a node as it is, with what placement has asked of its GPUs."""
        before = self.present.get(node.name)
        for gpu in before.gpus if before is not None else ():
            self.switches.pop((node.name, gpu.index), None)
        self.present[node.name] = node
        for gpu in node.gpus:
            if gpu.switch_until_ms:
                self.switches[node.name, gpu.index] = gpu.switch_until_ms

    def switch(self, name: str, gpu: int, until_ms: int) -> None:
        """Keep a GPU from work until then, or no longer (0)."""
        node = self.present[name]
        gpus = (
            replace(one, switch_until_ms=until_ms) if one.index == gpu else one
            for one in node.gpus
        )
        self.put(replace(node, gpus=tuple(gpus)))
        self.changed[name] = None

    def health(self, fact: GpuHealthReported) -> bool:
        """Take a change of health; false when it is old or the node is unknown."""
        node = self.present.get(fact.node)
        if node is None or not self._newer(fact.node, fact.generation):
            return False
        self.put(with_health(node, fact.gpu, healthy=fact.healthy))
        return True

    def remove(self, name: str, generation: int) -> bool:
        """Take a node out; false when the news is old."""
        if name not in self.present or not self._newer(name, generation):
            return False
        for gpu in self.present.pop(name).gpus:
            self.switches.pop((name, gpu.index), None)
        return True

    def removed(self, name: str) -> bool:
        """Whether the machine was there and is not any more; the next of its name is another."""
        return name in self.generations and name not in self.present

    def noticed(self, name: str, generation: int) -> bool:
        """Whether a notice is of the machine that is there; no inventory tells what it does.

        One that came before its agent had told the inventory bears the inventory's generation.
        """
        return name in self.present and (
            self._newer(name, generation) or generation == self.generations[name]
        )

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


def still_switching(known: Node, node: Node) -> Node:
    """`node` with the switches of `known` that it does not show to be done."""
    asked = {gpu.index: gpu for gpu in known.gpus if gpu.switch_until_ms}
    gpus = (
        replace(gpu, switch_until_ms=asked[gpu.index].switch_until_ms)
        if gpu.index in asked and asked[gpu.index].mig == gpu.mig
        else replace(gpu, switch_until_ms=0)
        for gpu in node.gpus
    )
    return replace(node, gpus=tuple(gpus))


def usable(node: Node) -> Node:
    """The node as the search may use it: a GPU that changes its mode takes no work."""
    if not any(gpu.switch_until_ms for gpu in node.gpus):
        return node
    gpus = (replace(gpu, healthy=False) if gpu.switch_until_ms else gpu for gpu in node.gpus)
    return replace(node, gpus=tuple(gpus))
