"""Who leaves a part of the fabric so that the pods of one demand find room there: counting.

Nodes are taken in order of price for each further pod; a lower bound from the columns of the
screen says which are worth a closer look (core/preemption_offers.py). A gang that goes makes room
on all its nodes. Then everyone who can come back does, the dearest first; then one at a time is
replaced by others if that is cheaper. Idea: weighted set cover, greedy, reverse delete (placement.md
3.5). Works on copies of nodes; only the quota tree knows, through the judge, who has left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

import numpy as np

from shared.core.amounts import Amount
from shared.core.cluster import Cluster
from shared.core.demand import PodDemand
from shared.core.devices import node_room, shares_on
from shared.core.evacuation import copy_of
from shared.core.kind import Kind
from shared.core.model import Level, PodPlacement
from shared.core.node_state import NodeState
from shared.core.occupants import Column, Occupant, Occupants, gpu_milli_of
from shared.core.preemption_offers import Offer, Way, by_counting, by_search
from shared.core.preemption_plan import Rule
from shared.core.preemption_rules import Judge, cost_gpu_ms
from shared.core.preemption_screen import Screen
from shared.core.room import ROOM_MAX, room_index
from shared.core.units import GPU_MILLI

Out = dict[str, frozenset[int]]
"""Ranks that leave, by workload."""
FRACTION: Final = 1 << 10
"""Prices for each pod are compared as integers with this denominator."""
SWAPS_MAX: Final = 16
"""Victims for whom cheaper ones are looked for, the dearest first."""
OTHERS_MAX: Final = 3
"""Dearer nodes that are told."""
SWAP_NODES_MAX: Final = 2_048
"""Nodes looked at by all swaps together."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What one search looks at."""

    cluster: Cluster
    occupants: Occupants
    judge: Judge
    screen: Screen
    team: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the fabric: its nodes by name, and their numbers in the columns."""

    name: str
    nodes: Mapping[str, NodeState]
    codes: Column


class Leavers:
    """Who has left, pod by pod, as the judge knows it."""

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
            pods = [pod for pod in occupant.placement.pods if pod.rank in ranks]
            weight = scope.occupants.weight_milli(occupant, pods)
        return cost_gpu_ms(int(scope.screen.rate_ms[row]), weight)

    @property
    def total_cost(self) -> int:
        """What all who have left cost."""
        running = self.scope.occupants.tenants.running
        return sum(self.cost(running[name], ranks) for name, ranks in self.out.items())

    def admits(self, occupant: Occupant, ranks: frozenset[int]) -> bool:
        """Whether so much of it may go by the rules, beside the others who have left."""
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


class Vacancy(Leavers):
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


class Choice:
    """Who leaves `part` for pods of one demand; `apart`: no two of these on one node."""

    def __init__(  # one search has so many sides
        self,
        leavers: Vacancy,
        part: Part,
        demand: PodDemand,
        pods: int,
        *,
        kinds: tuple[Kind, ...],
        apart: bool,
        amortised: bool = False,
    ) -> None:
        self.leavers = leavers
        self._scope = leavers.scope
        self._part = part
        self._demand = demand
        self._pods_wanted = pods
        self._kinds = frozenset(kinds)
        self._apart = apart
        self._amortised = amortised
        """Whether a node pays for its own pods of a gang only, not for the whole."""
        self._fixed = frozenset(leavers.out)
        self._banned: set[str] = set()
        self.bounds = lower_bounds(leavers.scope, part, demand, pods)
        self.dearer: list[tuple[int, str, Offer]] = []
        """Other nodes that were looked at for the first pod: (price, node, offer)."""
        self.room: dict[str, int] = {}
        self._count_all(kinds)

    @property
    def pods(self) -> int:
        """Pods that find room."""
        return sum(self.room.values())

    def reach(self) -> bool:
        """Let the cheapest leave until there is room; whether there is a way."""
        queue = _Queue(self, self._pods_wanted)
        while (missing := self._pods_wanted - self.pods) > 0:
            found = queue.pop(missing)
            if found is None:
                return False
            if not self.leavers.out and self._pods_wanted == 1:
                self.dearer = queue.others(found[0])
            changed = self._take(found[1])
            queue.look_again([found[0], *changed])
        return True

    def trim(self) -> None:
        """Let everyone come back who need not leave, the dearest first."""
        leavers = self.leavers
        running = self._scope.occupants.tenants.running
        mine = [running[name] for name in leavers.out if name not in self._fixed]
        mine.sort(key=lambda each: (-leavers.cost(each, leavers.out[each.id]), each.id))
        for occupant in mine:
            for ranks in smaller(occupant, leavers.out[occupant.id]):
                before = leavers.out[occupant.id]
                if not ranks < before:
                    continue
                self._set(occupant, ranks)
                if self.pods < self._pods_wanted:
                    self._set(occupant, before)
                elif not ranks:
                    break

    def improve(self) -> None:
        """Replace one victim at a time by others where that is cheaper."""
        leavers = self.leavers
        running = self._scope.occupants.tenants.running
        looked = 0
        mine = [running[name] for name in leavers.out if name not in self._fixed]
        mine.sort(key=lambda each: (-leavers.cost(each, leavers.out[each.id]), each.id))
        for occupant in mine[:SWAPS_MAX]:
            if occupant.id not in leavers.out:
                continue
            looked += len(leavers.changed())
            if looked > SWAP_NODES_MAX:
                break
            before, cost = dict(leavers.out), leavers.total_cost
            self._banned.add(occupant.id)
            self._set(occupant, frozenset())
            if self.reach():
                self.trim()
            if self.pods < self._pods_wanted or leavers.total_cost >= cost:
                self.restore(before)
            self._banned.discard(occupant.id)

    def restore(self, out: Mapping[str, frozenset[int]]) -> None:
        """Let exactly these be gone."""
        running = self._scope.occupants.tenants.running
        for name in [*self.leavers.out, *out]:
            wanted = out.get(name, frozenset())
            if self.leavers.out.get(name, frozenset()) != wanted:
                self._set(running[name], wanted)

    def occupy(self) -> None:
        """Hold the pods where there is room, so that those of the next demand find their own."""
        left, demand, team = self._pods_wanted, self._demand, self._scope.team
        for name in sorted(self.room, key=lambda each: (self.room[each], each)):
            copy = self.leavers.copy(name)
            for _ in range(min(self.room[name], left)):
                shares = shares_on(copy, demand, team)
                copy.hold(team, shares, demand.cpu_milli, demand.memory_mib, media=demand.media)
                left -= 1

    # ── one node ──

    def offers(self, name: str, pods_max: int) -> list[Offer]:
        """What the node offers for up to `pods_max` further pods."""
        node, demand = self.leavers.node(name), self._demand
        if not node.schedulable or node.kind not in self._kinds:
            return []
        if self._apart:
            pods_max = min(pods_max, 1 - self.room.get(name, 0))
        if pods_max < 1:
            return []
        ways, adds_up = self._ways(node)
        if not ways:
            return []
        if adds_up and demand.gpus and not demand.aligned:
            found = by_counting(node, demand, ways, pods_max)
            if found is not None:
                return found
        tenants = self._scope.occupants.tenants
        return by_search(
            copy_of(node),
            demand,
            self._scope.team,
            [each[0] for each in ways],
            pods_max,
            leave=lambda way, trial: tenants.leave(way.occupant, trial, way.pods),
            come_back=lambda way, trial: tenants.come_back(way.occupant, trial, way.pods),
        )

    def _ways(self, node: NodeState) -> tuple[list[list[Way]], bool]:
        """For each who may leave: whole, then by its surplus; and whether GPUs add up."""
        occupants, screen, out = self._scope.occupants, self._scope.screen, self.leavers.out
        found: list[list[Way]] = []
        adds_up = True
        for occupant in occupants.tenants.on(node.name):
            if not screen.allowed[occupants.row_of[occupant.id]] or occupant.id in self._banned:
                continue
            gone = out.get(occupant.id, frozenset())
            pods = tuple(
                pod
                for pod in occupants.tenants.pods_on(occupant, node.name)
                if pod.rank not in gone
            )
            if not pods:
                continue
            every = frozenset(pod.rank for pod in occupant.placement.pods)
            whole = self._way(node, occupant, pods, every)
            adds_up = adds_up and whole.gpus * GPU_MILLI == gpu_milli_of(pods)
            ways = [whole]
            surplus: tuple[PodPlacement, ...] = ()
            by_rank = {pod.rank: pod for pod in pods}
            for rank in occupant.spare_ranks:
                if rank in by_rank:
                    surplus = (*surplus, by_rank[rank])
                    ranks = gone.union(pod.rank for pod in surplus)
                    ways.append(self._way(node, occupant, surplus, ranks))
            found.append(ways)
        return found, adds_up

    def _way(
        self,
        node: NodeState,
        occupant: Occupant,
        pods: tuple[PodPlacement, ...],
        ranks: frozenset[int],
    ) -> Way:
        tenants, leavers = self._scope.occupants.tenants, self.leavers
        held: dict[int, int] = {}
        cpu_milli = memory_mib = 0
        for pod in pods:
            size = tenants.size(occupant, pod)
            cpu_milli += size[0]
            memory_mib += size[1]
            for share in pod.shares:
                held[share.index] = held.get(share.index, 0) + share.milli
        gpus = 0
        for index, milli in held.items():
            use = node.uses[index]
            gpus += use.milli == milli and use.usable and use.gpu is not None and not use.gpu.mig
        if self._amortised:
            price = leavers.cost(occupant, [pod.rank for pod in pods])
        else:
            price = leavers.cost(occupant, ranks) - leavers.cost(
                occupant, leavers.out.get(occupant.id, ())
            )
        return Way(occupant, ranks, pods, gpus, cpu_milli, memory_mib, price)

    # ── inside ──

    def _take(self, offer: Offer) -> list[str]:
        """Let those of an offer leave, all or none; the nodes that changed."""
        before = {way.occupant.id: self.leavers.out.get(way.occupant.id) for way in offer.ways}
        changed: list[str] = []
        for way in offer.ways:
            ranks = way.ranks | self.leavers.out.get(way.occupant.id, frozenset())
            if not self.leavers.admits(way.occupant, ranks):
                for other in offer.ways:
                    self._set(other.occupant, before[other.occupant.id] or frozenset())
                self._banned.add(way.occupant.id)
                return [name for name in way.occupant.nodes if name in self._part.nodes]
            changed += self._set(way.occupant, ranks)
        return changed

    def _set(self, occupant: Occupant, ranks: frozenset[int]) -> list[str]:
        """Let exactly `ranks` of it be gone; the nodes of the part that it is on."""
        self.leavers.vacate(occupant, ranks)
        mine = [name for name in sorted(occupant.nodes) if name in self._part.nodes]
        for name in mine:
            self._count(name)
        return mine

    def _count(self, name: str) -> None:
        node = self.leavers.node(name)
        room = 0
        if node.kind in self._kinds:
            room = node_room(node, self._demand, self._scope.team)
        if room:
            self.room[name] = min(room, 1) if self._apart else room
        else:
            self.room.pop(name, None)

    def _count_all(self, kinds: tuple[Kind, ...]) -> None:
        """Room of all nodes of the part: by the index, and of those that changed by counting."""
        scope, loose = self._scope, replace(self._demand, slices=())
        index = room_index(scope.cluster, kinds, loose, scope.team, distinct=self._apart)
        for room, _, node in index.at_least(Level.NODE, 1, ROOM_MAX):
            if node.name in self._part.nodes:
                self.room[node.name] = room
        for name in self.leavers.changed():
            if name in self._part.nodes:
                self._count(name)


class _Queue:
    """Nodes in order of their price for each further pod; looked at only when their turn comes."""

    def __init__(self, choice: Choice, pods: int) -> None:
        self._choice = choice
        self._pods = pods
        self._offers: dict[str, list[Offer]] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._waiting = choice.bounds
        self._next = 0
        self._ranks = {name: rank for _, rank, name in self._waiting}
        self.look_again(choice.leavers.changed())

    def look_again(self, names: Iterable[str]) -> None:
        """These nodes have changed."""
        for name in names:
            if name in self._ranks:
                self._offers[name] = []
                self._look(name, self._pods)

    def pop(self, missing: int) -> tuple[str, Offer] | None:
        """The node with the least price for each of the `missing` pods, and its offer."""
        while True:
            while self._next < len(self._waiting) and (
                not self._heap or self._waiting[self._next][0] <= self._heap[0][0]
            ):
                name = self._waiting[self._next][2]
                self._next += 1
                if name not in self._offers:
                    self._look(name, missing)
            if not self._heap:
                return None
            price, _, name = heappop(self._heap)
            best = _best(self._offers[name], missing)
            if best is None:
                continue
            now = _price(best, missing)
            if now == price:
                return name, best
            heappush(self._heap, (now, self._ranks[name], name))

    def others(self, taken: str) -> list[tuple[int, str, Offer]]:
        """The next nodes, beside `taken`."""
        for _, _, name in self._waiting[self._next : self._next + OTHERS_MAX]:
            if name not in self._offers:
                self._look(name, self._pods)
        found = []
        for _, _, name in sorted(set(self._heap)):
            best = _best(self._offers[name], self._pods)
            if name != taken and best is not None:
                found.append((best.price, name, best))
        return found[:OTHERS_MAX]

    def _look(self, name: str, missing: int) -> None:
        offers = self._offers[name] = self._choice.offers(name, missing)
        best = _best(offers, missing)
        if best is not None:
            heappush(self._heap, (_price(best, missing), self._ranks[name], name))


def _price(offer: Offer, missing: int) -> int:
    return FRACTION * offer.price // min(offer.pods, missing)


def _best(offers: list[Offer], missing: int) -> Offer | None:
    return min(offers, key=lambda each: (_price(each, missing), each.pods), default=None)


def smaller(occupant: Occupant, out: frozenset[int]) -> list[frozenset[int]]:
    """Fewer of its pods that could leave instead: none; its surplus only; then pod by pod."""
    found: list[frozenset[int]] = [frozenset()]
    spare = [rank for rank in occupant.spare_ranks if rank in out]
    found += [frozenset(spare[at + 1 :]) for at in range(len(spare))]
    if len(out) == len(occupant.placement.pods) and spare:
        found.insert(1, frozenset(spare))
    return found


def lower_bounds(
    scope: Scope, part: Part, demand: PodDemand, pods: int
) -> list[tuple[int, int, str]]:
    """(least price of one further pod, rank, node) for nodes of `part` with occupants, in order.

    Where whole GPUs have one holder each, a pod costs the GPUs that it lacks, the cheapest of the
    node first, as if these could go by parts; several pods cost no less for each. Elsewhere it is
    the smallest piece that could go there, for up to `pods` pods.
    """
    occupants, screen = scope.occupants, scope.screen
    holdings = occupants.holdings
    row = holdings["workload"]
    mine = np.flatnonzero((holdings["node"] > 0) & screen.allowed[row])
    mine = mine[np.lexsort((screen.rate_ms[row[mine]], holdings["node"][mine]))]
    row, at, weight = row[mine], holdings["node"][mine], holdings["weight"][mine]
    rate = screen.rate_ms[row]
    codes, first = np.unique(at, return_index=True)
    piece = np.minimum(weight, np.maximum(occupants.workloads["least"][row], 1))
    known = np.isin(codes, part.codes)
    if not known.any():
        return []
    least = np.minimum.reduceat(rate * piece // GPU_MILLI, first)
    shared = np.maximum.reduceat(holdings["gpu"][mine] % GPU_MILLI, first) > 0
    bound = least // pods
    names = [occupants.nodes.names[code] for code in codes.tolist()]
    nodes = [scope.cluster.nodes[name] for name in names]
    if demand.gpus:
        free = np.fromiter((node.free_count for node in nodes), np.int64, len(nodes))
        lacks = (demand.gpus - free % demand.gpus) * GPU_MILLI
        bound = np.where(shared, bound, _cheapest_parts(rate, weight, first, lacks))
    ranks = np.fromiter((node.rank for node in nodes), np.int64, len(nodes))
    order = np.lexsort((ranks, bound))
    bounds = (bound * FRACTION).tolist()
    return [
        (bounds[index], nodes[index].rank, names[index]) for index in order[known[order]].tolist()
    ]


def _cheapest_parts(rate: Column, weight: Column, first: Column, lacks: Column) -> Column:
    """What `lacks` of each node cost when its holdings, in order of rate, can go by parts.

    `rate` and `weight` by holding, those of one node together from its `first` on.
    """
    weights = np.concatenate([[0], np.cumsum(weight)])
    prices = np.concatenate([[0], np.cumsum(rate * weight // GPU_MILLI)])
    last = np.append(first[1:], len(rate)) - 1
    wanted = weights[first] + lacks
    at = np.minimum(np.searchsorted(weights, wanted, side="right") - 1, last)
    rest = np.minimum(wanted, weights[last + 1]) - weights[at]
    found: Column = prices[at] - prices[first] + rate[at] * rest // GPU_MILLI
    return found
