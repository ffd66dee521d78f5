"""The last resort for a gang of unlike pods: try other places in order, within a budget.

Pods of one shape never get in each other's way: whatever order they are placed in, as many find
room. Unlike pods may (a small one on the only node where the large one fits), and then the
greedy order can fail where another would not. That holds for leaders and for slices as well: a
slice goes on in its domain or not at all, and a leader takes the nearest node that is left to it,
so what is found keeps to the rules of ADR 17. Nothing is tried twice: of nodes in the same
condition one stands for all, and so of sets of positions that leave the same behind; and nothing
is tried after which a set that is still to come lacks room. So the search is complete while its
budget and its list of nodes last: nearly always on small clusters, and on large ones it rarely
matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Final

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.statement import Statement
from shared.core.cluster.topology import LEVELS, span_of
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.mig.table import Profile
from shared.core.model.nouns import GpuShare
from shared.core.placement.gang.ranks import domain_at
from shared.core.scoring import instance_share, node_room, share_of, shares_on, takes_share

CHARGES_MAX: Final = 200
"""Pods charged in all before giving up: a few milliseconds."""
NODES_MAX: Final = 12
"""Nodes tried for each pod set ..."""
SORTED_MAX: Final = 64
"""... which for slices are the first of so many in the order of the fabric."""
OPTIONS_MAX: Final = 64
"""Sets of positions tried for one pod with several MIG instances."""

States = dict[int, int]
"""By GPU."""
NodesFor = Callable[[PodDemand], Iterable[NodeState]]


def unlike(gang: Gang) -> bool:
    """Whether the gang has pods of different shapes."""
    return len({demand.shape for demand in gang.demands}) > 1


class Exhaustive:
    """One search; the budget is shared by all attempts of a decision."""

    def __init__(self, gang: Gang, statement: Statement) -> None:
        self._gang = gang
        self._statement = statement
        self._charges = CHARGES_MAX
        profiles = {demand.profile for demand in gang.demands if demand.profile}
        self._positions_matter = len(profiles) > 1
        self._sliced = any(demand.slices for demand in gang.demands)
        self._nodes: list[list[NodeState]] = []

    def place(self, nodes_for: NodesFor, *, distinct: bool) -> bool:
        """Charge the whole gang on the nodes given; or nothing, and False."""
        if not self._charges:
            return False
        self._nodes = [self._listed(nodes_for(demand)) for demand in self._gang.demands]
        pods = [at for at, demand in enumerate(self._gang.demands) for _ in range(demand.count)]
        return self._next(pods, 0, 0, set() if distinct else None)

    def _listed(self, nodes: Iterable[NodeState]) -> list[NodeState]:
        """Those that are tried; domain by domain if slices must lie whole in domains."""
        if not self._sliced:
            return list(islice(nodes, NODES_MAX))
        return sorted(islice(nodes, SORTED_MAX), key=_in_fabric)[:NODES_MAX]

    def _next(self, pods: list[int], pod: int, first: int, used: set[str] | None) -> bool:
        """Place pods from `pod` on; equal pods go to nodes in order, from `first`."""
        if pod == len(pods):
            return True
        demand = self._gang.demands[pods[pod]]
        last_of_set = pod + 1 == len(pods) or pods[pod + 1] != pods[pod]
        tried: set[Hashable] = set()
        for at, node in self._in_turn(pods[pod]):
            if at < first or (used is not None and node.name in used):
                continue
            if self._breaks_a_slice(demand, pod - pods.index(pods[pod]), node):
                continue
            condition = (_condition(node), node.domain if self._sliced else None)
            if condition in tried:
                continue
            tried.add(condition)
            after = None if used is None else used | {node.name}
            for shares in self._options(node, demand):
                if self._charges == 0:
                    return False
                self._charges -= 1
                checkpoint = self._statement.checkpoint()
                self._statement.charge(demand, node, shares)
                if self._others_have_room(pods, pod + 1, after) and self._next(
                    pods, pod + 1, 0 if last_of_set else at, after
                ):
                    return True
                self._statement.rollback(checkpoint)
        return False

    def _in_turn(self, each: int) -> Iterable[tuple[int, NodeState]]:
        """The nodes of a set with their numbers; for a leader those near the others first."""
        numbered = enumerate(self._nodes[each])
        if not self._gang.demands[each].leader:
            return numbered
        placed = dict.fromkeys(node for _, node, _ in self._statement.pods)

        def distance(numbered: tuple[int, NodeState]) -> int:
            spans = (span_of((numbered[1], other)) for other in placed)
            return min(LEVELS.index(span) if span else len(LEVELS) for span in spans)

        return sorted(numbered, key=distance)

    def _breaks_a_slice(self, demand: PodDemand, before: int, node: NodeState) -> bool:
        """Whether a slice that pods of the set have begun would go on outside its domain.

        Pods of a set go to nodes in the order of the fabric, and so do their ranks.
        """
        return any(
            before % each.pods
            and domain_at(node, each.level)
            is not domain_at(self._statement.pods[-1][1], each.level)
            for each in demand.slices
        )

    def _others_have_room(self, pods: list[int], pod: int, used: set[str] | None) -> bool:
        """Whether each set with pods from `pod` on has room for them, if it were alone."""
        left = Counter(pods[pod:])
        return all(self._room(each, count, used) >= count for each, count in left.items())

    def _room(self, each: int, enough: int, used: set[str] | None) -> int:
        room = 0
        for node in self._nodes[each]:
            if used is None:
                room += node_room(node, self._gang.demands[each], self._gang.team)
            elif node.name not in used:
                room += node_room(node, self._gang.demands[each], self._gang.team) > 0
            if room >= enough:
                break
        return room

    def _options(self, node: NodeState, demand: PodDemand) -> list[tuple[GpuShare, ...]]:
        """Ways to give one pod its devices on `node` that differ in what they leave behind."""
        team = self._gang.team
        if not node_room(node, demand, team):
            return []
        if demand.milli:
            return _gpus_to_share(node, demand, team)
        if demand.profile and self._positions_matter:
            return _sets_of_positions(node, demand)
        return [shares_on(node, demand, team)]


def _gpus_to_share(node: NodeState, demand: PodDemand, team: str) -> list[tuple[GpuShare, ...]]:
    """One GPU of each fill, the fullest first."""
    uses = {
        (use.milli, use.memory_mib): index
        for index, use in sorted(node.uses.items(), reverse=True)
        if takes_share(use, demand, team)
    }
    return [(share_of(index, demand),) for _, index in sorted(uses.items(), reverse=True)]


def _sets_of_positions(node: NodeState, demand: PodDemand) -> list[tuple[GpuShare, ...]]:
    """Legal choices, one of those that leave the same behind.

    Needed only beside other profiles: one alone never blocks itself.
    """
    states = {index: use.state for index, use in sorted(node.uses.items()) if use.offers_mig}
    table = node.node_class.table if node.node_class else None
    assert table is not None
    profile = table.profiles[demand.profile]
    choices: list[tuple[States, States]] = [(states, {})]
    for _ in range(demand.instances):
        further = (each for choice in choices for each in _one_more(*choice, profile))
        choices = list(islice(_unlike_states(further), OPTIONS_MAX))
    return [
        tuple(instance_share(node, index, mask) for index, mask in sorted(masks.items()))
        for _, masks in choices
    ]


def _one_more(states: States, masks: States, profile: Profile) -> Iterator[tuple[States, States]]:
    """(states, masks) by GPU with one instance more, on the first GPU of each state."""
    first = {state: index for index, state in reversed(states.items())}
    for state, index in first.items():
        for start in profile.legal_starts(state):
            mask = masks.get(index, 0) | profile.mask(start)
            yield {**states, index: profile.occupy(state, start)}, {**masks, index: mask}


def _unlike_states(choices: Iterable[tuple[States, States]]) -> Iterator[tuple[States, States]]:
    """Those after which the GPUs are not in the same states as after an earlier one."""
    seen: set[tuple[int, ...]] = set()
    for choice in choices:
        left = tuple(sorted(choice[0].values()))
        if left not in seen:
            seen.add(left)
            yield choice


def _in_fabric(node: NodeState) -> tuple[tuple[str, ...], int]:
    """Sort key: what lies in one domain comes together."""
    return (node.domain.path if node.domain else (), node.rank)


def _condition(node: NodeState) -> Hashable:
    """All that a pod finds on a node."""
    uses = [
        (use.usable, use.state, use.milli, use.team, use.free_memory_mib, use.gpu and use.gpu.mig)
        for _, use in sorted(node.uses.items())
    ]
    return node.node_class, node.free_cpu_milli, node.free_memory_mib, node.numa_masks, tuple(uses)
