"""What has left, as a search for victims tries it out: for the judge, and on copies of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shared.core.cluster.node_state import NodeState, copy_of
from shared.core.model.amounts import Amount
from shared.core.model.units import GPU_MILLI
from shared.core.preemption.eligibility.columns import Column
from shared.core.preemption.eligibility.occupant import Occupant, gpu_milli_of
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.plan import Rule
from shared.core.preemption.eligibility.rules import EligibilityJudge
from shared.core.preemption.eligibility.screen import Screen
from shared.core.scoring import Cluster

T = TypeVar("T")

Out = dict[str, frozenset[int]]
"""Ranks that leave, by workload."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What one search looks at."""

    cluster: Cluster
    occupants: Occupants
    judge: EligibilityJudge
    screen: Screen
    team: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the fabric: its nodes by name, and their numbers in the columns."""

    name: str
    nodes: Mapping[str, NodeState]
    codes: Column | None
    """None for all."""


class SimulatedRemoval:
    """What has left, pod by pod, as the judge knows it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.out: Out = {}
        """Ranks that have left, by workload."""

    def cost(self, occupant: Occupant, ranks: Collection[int]) -> int:
        """What it costs that these pods leave."""
        scope = self.scope
        row = scope.occupants.row_of[occupant.id]
        if len(ranks) == len(occupant.placement.pods):
            weight = int(scope.occupants.workloads["weight"][row])
        elif not ranks:
            return 0
        else:
            weight = self._weight_milli(occupant, ranks)
        return int(scope.screen.rate_ms[row]) * weight // GPU_MILLI

    def _weight_milli(self, occupant: Occupant, ranks: Collection[int]) -> int:
        occupants, kept = self.scope.occupants, len(occupant.placement.pods) - len(ranks)
        surplus = occupants.surplus.get(occupant.id)
        if surplus is not None and min(ranks) == kept:
            return surplus.weights_milli[kept]
        pods = [pod for pod in occupant.placement.pods if pod.rank in ranks]
        return occupants.weight_milli(occupant, pods)

    @property
    def total_cost(self) -> int:
        """What all that have left cost."""
        running = self.scope.occupants.tenants.running
        return sum(self.cost(running[name], ranks) for name, ranks in self.out.items())

    def admits(self, occupant: Occupant, ranks: frozenset[int]) -> bool:
        """Whether so much of it may go by the rules, beside the others that have left."""
        judge, before = self.scope.judge, self.out.get(occupant.id)
        if before:
            judge.give_back(occupant, self.charge(occupant, before))
        verdict = judge.rule(occupant, self.charge(occupant, ranks))
        if before:
            judge.take(occupant, self.charge(occupant, before))
        return isinstance(verdict, Rule)

    def charge(self, occupant: Occupant, ranks: Collection[int]) -> Amount:
        """What these pods of it are charged."""
        if len(ranks) == len(occupant.placement.pods):
            whole = occupant.placement.charge
            return whole.gpu_milli, whole.cpu_milli, whole.memory_mib
        pods = [pod for pod in occupant.placement.pods if pod.rank in ranks]
        sizes = [self.scope.occupants.tenants.size(occupant, pod) for pod in pods]
        return (
            gpu_milli_of(pods),
            sum(cpu_milli for cpu_milli, _, _ in sizes),
            sum(memory_mib for _, memory_mib, _ in sizes),
        )

    def set(self, occupant: Occupant, ranks: frozenset[int]) -> None:
        """Let exactly `ranks` of it be gone."""
        before = self.out.get(occupant.id)
        judge = self.scope.judge
        if before:
            judge.give_back(occupant, self.charge(occupant, before))
        if ranks:
            judge.take(occupant, self.charge(occupant, ranks))
            self.out[occupant.id] = ranks
        else:
            self.out.pop(occupant.id, None)

    def settle(self) -> dict[str, Rule] | None:
        """The rule of each when they leave one after the other; None if there is no such order.

        Those of its own queue first, which may bring the preemptor within its nominal quota; then
        the largest last, as a queue must be above its own until then.
        """
        running, judge = self.scope.occupants.tenants.running, self.scope.judge
        mine = judge.preemptor.queue
        leaving = [
            (running[name].queue != mine, self.charge(running[name], ranks), name)
            for name, ranks in self.out.items()
        ]
        for _, charge, name in leaving:
            judge.give_back(running[name], charge)
        rules: dict[str, Rule] = {}
        for _, charge, name in sorted(leaving):
            verdict = judge.rule(running[name], charge)
            if isinstance(verdict, Rule):
                rules[name] = verdict
            judge.take(running[name], charge)
        return rules if len(rules) == len(leaving) else None


class SimulatedRelease(SimulatedRemoval):
    """The same with what they leave: on copies of the nodes, never on the cluster."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._copies: dict[str, NodeState] = {}

    def node(self, name: str) -> NodeState:
        """The node as it is with them gone; not to be changed."""
        return self._copies.get(name) or self.scope.cluster.nodes[name]

    def copy(self, name: str) -> NodeState:
        """The same, to be changed."""
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = copy_of(self.scope.cluster.nodes[name])
        return copy

    def changed(self) -> Collection[str]:
        """Nodes that are not as in the cluster."""
        return self._copies.keys()

    def vacate(self, occupant: Occupant, ranks: frozenset[int]) -> None:
        """Let exactly `ranks` of it be gone, from the copies too."""
        before = self.out.get(occupant.id, frozenset())
        self.set(occupant, ranks)
        tenants = self.scope.occupants.tenants
        for pod in occupant.placement.pods:
            if pod.rank in ranks and pod.rank not in before:
                tenants.leave(occupant, self.copy(pod.node), (pod,))
            elif pod.rank in before and pod.rank not in ranks:
                tenants.come_back(occupant, self.copy(pod.node), (pod,))

    def clear(self) -> None:
        """All are back, and nothing was tried."""
        running = self.scope.occupants.tenants.running
        for name in list(self.out):
            self.set(running[name], frozenset())
        self._copies.clear()


def least_gone(
    occupant: Occupant,
    sizes: Sequence[int],
    out: frozenset[int],
    let_go: Callable[[frozenset[int]], T | None],
) -> T | None:
    """Let as few of its pods go as will do, instead of `out`: none, or its highest ranks.

    `let_go` lets exactly these ranks be gone and answers, or leaves all as it was and answers
    None; what does with fewer gone does with more. `sizes` are those of its `Surplus`. The answer
    is that to the last that were let go, None if it is all of `out` that must.
    """
    found = let_go(frozenset())
    if found is not None:
        return found
    larger = [size for size in sizes if size > len(occupant.placement.pods) - len(out)]
    low, high = 0, len(larger)
    while low < high:
        middle = (low + high) // 2
        answer = let_go(occupant.ranks_from(larger[middle]))
        if answer is None:
            high = middle
        else:
            found, low = answer, middle + 1
    return found
