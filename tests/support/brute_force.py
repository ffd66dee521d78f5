"""Is there any legal way to place a gang? Answered by trying all of them, from a plain ledger.

Written apart from the core on purpose: its own ledger, its own MIG table (A100-80 only), no index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from shared.core.model.nouns import GpuShare, Level, Node, Placement, PodSet, Spread, Workload

STARTS = {
    "1g.10gb": (1, range(7)),
    "1g.20gb": (2, (0, 2, 4, 6)),
    "2g.20gb": (2, (0, 2, 4)),
    "3g.40gb": (4, (0, 4)),
    "4g.40gb": (4, (0,)),
    "7g.80gb": (8, (0,)),
}
LEVELS = (Level.NODE, Level.NVLINK_DOMAIN, Level.RACK, Level.BLOCK, Level.ZONE)
Row = tuple[str, str, tuple[GpuShare, ...], int, int]
"""(team, node, shares, milli-CPU, MiB)"""


@dataclass
class Ledger:
    """What pods hold, as rows; everything else is summed up when asked."""

    nodes: dict[str, Node]
    rows: list[Row] = field(default_factory=list)

    def add(self, workload: Workload, placement: Placement) -> None:
        sizes = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
        for pod in placement.pods:
            pod_set = sizes[pod.pod_set]
            self.rows.append(
                (
                    workload.team,
                    pod.node,
                    pod.shares,
                    pod_set.cpu_milli or 0,
                    pod_set.memory_mib or 0,
                )
            )

    def remove(self, workload: Workload, placement: Placement) -> None:
        gone = Ledger(self.nodes)
        gone.add(workload, placement)
        for row in gone.rows:
            self.rows.remove(row)

    def check(self) -> None:
        """Conservation on every GPU and node; no two pods on one slice; one team for shares."""
        for name, node in self.nodes.items():
            rows = [row for row in self.rows if row[1] == name]
            assert sum(row[3] for row in rows) <= node.cpu_milli
            assert sum(row[4] for row in rows) <= node.memory_mib
            for gpu in node.gpus:
                held = [(row[0], each) for row in rows for each in row[2]]
                held = [(team, each) for team, each in held if each.index == gpu.index]
                assert sum(each.milli for _, each in held) <= 1000
                assert sum(each.memory_mib for _, each in held) <= gpu.memory_mib
                masks = [each.mask for _, each in held]
                union = 0
                for mask in masks:
                    assert not union & mask
                    union |= mask
                assert not (0 in masks and union), "shares beside slices"
                if 0 in masks:
                    assert len({team for team, _ in held}) == 1
                for _, each in held:
                    assert (each.mask == 0) or each.milli == each.mask.bit_count() * 125

    def free(self, name: str) -> tuple[int, int]:
        node = self.nodes[name]
        rows = [row for row in self.rows if row[1] == name]
        cpu_milli = node.cpu_milli - sum(row[3] for row in rows)
        return cpu_milli, node.memory_mib - sum(row[4] for row in rows)

    def held(self, name: str, gpu: int) -> list[tuple[str, GpuShare]]:
        return [
            (row[0], each)
            for row in self.rows
            if row[1] == name
            for each in row[2]
            if each.index == gpu
        ]

    def options(self, team: str, name: str, pod_set: PodSet) -> Iterator[tuple[GpuShare, ...]]:
        """Every way to give a pod its devices on one node."""
        node = self.nodes[name]
        cpu_milli, memory_mib = self.free(name)
        takes_work = node.ready and not node.cordoned
        if not takes_work or cpu_milli < (pod_set.cpu_milli or 0):
            return
        if memory_mib < (pod_set.memory_mib or 0):
            return
        gpu = pod_set.gpu
        healthy = [each for each in node.gpus if each.healthy]
        plain = [each for each in healthy if not each.mig]
        if gpu.count:
            free = [each.index for each in plain if not self.held(name, each.index)]
            for chosen in list(combinations(free, gpu.count))[:1]:
                yield tuple(GpuShare(index=i, mask=255, milli=1000, memory_mib=0) for i in chosen)
        elif gpu.milli:
            for each in plain:
                held = self.held(name, each.index)
                if any(owner != team or other.mask for owner, other in held):
                    continue
                milli = sum(other.milli for _, other in held)
                memory = sum(other.memory_mib for _, other in held)
                if milli + gpu.milli <= 1000 and memory + gpu.memory_mib <= each.memory_mib:
                    yield (
                        GpuShare(
                            index=each.index,
                            mask=0,
                            milli=gpu.milli,
                            memory_mib=gpu.memory_mib,
                        ),
                    )
        elif gpu.mig_profile:
            yield from self._instances(name, pod_set)
        else:
            yield ()

    def _instances(self, name: str, pod_set: PodSet) -> Iterator[tuple[GpuShare, ...]]:
        size, starts = STARTS[pod_set.gpu.mig_profile]
        positions = []
        for each in self.nodes[name].gpus:
            busy = 0
            for _, other in self.held(name, each.index):
                busy |= other.mask
            for start in starts:
                mask = ((1 << size) - 1) << start
                if each.mig and each.healthy and not busy & mask:
                    positions.append(
                        GpuShare(index=each.index, mask=mask, milli=size * 125, memory_mib=0)
                    )
        yield from combinations(positions, max(pod_set.gpu.mig_count, 1))


def feasible(ledger: Ledger, workload: Workload) -> bool:
    """Whether the whole gang can be placed at once, under its required level and spread."""
    required = workload.spec.topology.required
    nodes = list(ledger.nodes)
    groups = [nodes]
    if required is not None:
        levels = LEVELS[: LEVELS.index(required) + 1]
        domains = {
            (level, _domain(ledger.nodes[name], level)) for level in levels for name in nodes
        }
        groups = [
            [name for name in nodes if _domain(ledger.nodes[name], level) == domain]
            for level, domain in domains
        ]
    sets = [pod_set for pod_set in workload.spec.pod_sets for _ in range(pod_set.count)]
    return any(_fits(ledger, workload, sets, group) for group in groups)


def _fits(ledger: Ledger, workload: Workload, sets: list[PodSet], nodes: list[str]) -> bool:
    if not sets:
        return True
    apart = workload.spec.spread is Spread.REQUIRED
    pod_set = sets[0]
    for name in nodes:
        others = [other for other in nodes if other != name] if apart else nodes
        for shares in ledger.options(workload.team, name, pod_set):
            ledger.rows.append(
                (
                    workload.team,
                    name,
                    shares,
                    pod_set.cpu_milli or 0,
                    pod_set.memory_mib or 0,
                )
            )
            found = _fits(ledger, workload, sets[1:], others)
            ledger.rows.pop()
            if found:
                return True
    return False


def _domain(node: Node, level: Level) -> tuple[str, ...]:
    """The domain of a node at `level`; a node without a label there is alone."""
    labels = {
        Level.ZONE: (node.zone,),
        Level.BLOCK: (node.zone, node.block),
        Level.RACK: (node.zone, node.block, node.rack),
        Level.NVLINK_DOMAIN: (node.zone, node.block, node.rack, node.nvlink_domain),
        Level.NODE: ("",),
    }[level]
    return labels if labels[-1] else ("alone", node.name)
