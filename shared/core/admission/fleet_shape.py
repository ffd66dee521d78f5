"""The fleet as admission needs it: how many nodes of which shape, and how they hang together.

Nodes of one shape are counted, not listed, so that "could this ever run?" costs the number of
different shapes (tens), not of nodes (thousands). Health, cordons and use are left out on
purpose: the question is about the empty fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from shared.core.model.mig.reported import Reported, reported_by, table_of
from shared.core.model.nouns import Level, Node
from shared.core.model.taints import SOFT_EFFECT, is_for_gpu_work

SHAPES_MAX: Final = 4096
LEVELS: Final = (Level.NVLINK_DOMAIN, Level.RACK, Level.BLOCK, Level.ZONE)
"""Levels above the node, from the tightest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What makes two nodes equal for admission. GPUs are counted by whether MIG mode is on.

    Where GPUs change their mode when work asks for it, `either`, each counts in both numbers.

    A `dedicated` node has a taint for its own pool and takes only work that names the pool; one of
    `gpu_work_only` has the taint for GPUs. Other taints come and go and are placement's business.
    """

    flavor: str
    product: str
    pool: str
    driver: str
    cuda: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    mig_gpus: int
    gpu_memory_mib: int
    dedicated: bool = False
    gpu_work_only: bool = False
    gpus_by_numa: tuple[int, ...] = ()
    """GPUs outside MIG mode in each NUMA domain, the fewest first."""
    all_by_numa: tuple[int, ...] = ()
    """GPUs of either mode in each NUMA domain, the fewest first."""
    mig: Reported = ()
    """Its MIG profiles, where they are reported."""
    either: bool = False

    @property
    def devices(self) -> int:
        """GPUs of the node."""
        return self.gpus if self.either else self.gpus + self.mig_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutline:
    """One node: its shape, and its domain at each of `LEVELS` ("" where it has none)."""

    shape: NodeShape
    domains: tuple[str, ...] = ("", "", "", "")


Composition = dict[NodeShape, int]
"""Nodes by shape in one domain."""


def summary_of(node: Node) -> NodeOutline:
    """What admission keeps of a node."""
    mig_gpus = sum(gpu.mig for gpu in node.gpus)
    by_numa = Counter(gpu.numa for gpu in node.gpus if not gpu.mig)
    all_by_numa = Counter(gpu.numa for gpu in node.gpus)
    shape = NodeShape(
        flavor=node.flavor,
        product=node.product,
        pool=node.pool,
        driver=node.driver,
        cuda=node.cuda,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        gpus=len(node.gpus) - mig_gpus,
        mig_gpus=mig_gpus,
        gpu_memory_mib=max((gpu.memory_mib for gpu in node.gpus), default=0),
        gpus_by_numa=tuple(sorted(by_numa.values())),
        all_by_numa=tuple(sorted(all_by_numa.values())),
        mig=reported_by(node),
        dedicated=bool(node.pool) and any(_keeps_for(taint, node.pool) for taint in node.taints),
        gpu_work_only=any(map(is_for_gpu_work, node.taints)),
    )
    return NodeOutline(shape=shape, domains=(node.nvlink_domain, node.rack, node.block, node.zone))


@lru_cache(SHAPES_MAX)
def _in_either_mode(shape: NodeShape) -> NodeShape:
    """A node with GPUs that can be in MIG mode, each of them counted in both."""
    if table_of(shape.product, shape.gpu_memory_mib, shape.mig) is None:
        return shape
    devices = shape.devices
    numa = shape.all_by_numa
    return replace(shape, gpus=devices, mig_gpus=devices, gpus_by_numa=numa, either=True)


def _keeps_for(taint: str, pool: str) -> bool:
    """Whether a taint such as `dedicated=research:NoSchedule` keeps a node for `pool`."""
    body, _, effect = taint.partition(":")
    return effect != SOFT_EFFECT and body.partition("=")[2] == pool


class FleetShape:
    """Counts of nodes by shape, kept up to date node by node; `version` counts changes.

    Args:
        switching: GPUs go into MIG mode and out of it when work asks for it, so that no request is
            refused for the modes in which they are now (`core/nodes/mig_switch.py`).
    """

    def __init__(self, *, switching: bool = False) -> None:
        self.version = 0
        self._switching = switching
        self.shapes: Composition = {}
        self._nodes: dict[str, NodeOutline] = {}
        self._compositions: dict[Level, tuple[int, tuple[Composition, ...]]] = {}
        self._alike: tuple[int, Counter[NodeOutline]] = (0, Counter())

    def __len__(self) -> int:
        """Number of nodes known."""
        return len(self._nodes)

    def put(self, name: str, summary: NodeOutline) -> bool:
        """Learn or replace a node; says whether anything changed. O(1)."""
        before = self._nodes.get(name)
        if before == summary:
            return False
        if before is not None:
            self._count(before.shape, -1)
        self._nodes[name] = summary
        self._count(summary.shape, 1)
        self.version += 1
        return True

    def remove(self, name: str) -> bool:
        """Forget a node; says whether it was known. O(1)."""
        before = self._nodes.pop(name, None)
        if before is None:
            return False
        self._count(before.shape, -1)
        self.version += 1
        return True

    def _count(self, reported: NodeShape, change: int) -> None:
        shape = self._counted(reported)
        nodes = self.shapes.get(shape, 0) + change
        if nodes:
            self.shapes[shape] = nodes
        else:
            del self.shapes[shape]

    def _counted(self, reported: NodeShape) -> NodeShape:
        return _in_either_mode(reported) if self._switching else reported

    def alike(self) -> Mapping[NodeOutline, int]:
        """Nodes by shape and domains; O(nodes) after a change of the fleet, then O(1)."""
        if self._alike[0] != self.version:
            nodes = (replace(one, shape=self._counted(one.shape)) for one in self._nodes.values())
            self._alike = (self.version, Counter(nodes))
        return self._alike[1]

    def compositions(self, level: Level) -> tuple[Composition, ...]:
        """The different domains of `level`: nodes by shape, equal domains only once.

        O(nodes) after a change of the fleet, O(1) until the next one. A node without a label at
        `level` stands for itself at the widest tighter level that it has. Equal names in two wider
        domains are two domains.
        """
        if level is Level.NODE:
            return tuple({shape: 1} for shape in self.shapes)
        known = self._compositions.get(level)
        if known is None or known[0] != self.version:
            known = (self.version, _distinct(self._domains(LEVELS.index(level))))
            self._compositions[level] = known
        return known[1]

    def _domains(self, index: int) -> Iterable[Counter[NodeShape]]:
        domains: dict[tuple[int, tuple[str, ...]], Counter[NodeShape]] = {}
        for name, summary in self._nodes.items():
            key: tuple[int, tuple[str, ...]] = (-1, (name,))
            for depth in range(index, -1, -1):
                if summary.domains[depth]:
                    key = (depth, summary.domains[depth:])
                    break
            domains.setdefault(key, Counter())[self._counted(summary.shape)] += 1
        return domains.values()


def _distinct(domains: Iterable[Counter[NodeShape]]) -> tuple[Composition, ...]:
    found = {frozenset(domain.items()): dict(domain) for domain in domains}
    return tuple(found.values())
