"""Who leaves a part of the fabric so that the pods of one demand find room there: counting.

Nodes are taken in order of price for each further pod; a lower bound from the columns of the
screen says which are worth a closer look (core/preemption/offers.py). A gang that goes makes room
on all its nodes. Then everyone who can come back does, the dearest first; then one at a time is
replaced by others if that is cheaper. Idea: weighted set cover, greedy, then reverse delete (see
placement.md 3.5). Works on copies of nodes; only the quota tree knows, through the judge, who
has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from shared.core.defragment.evacuation import copy_of
from shared.core.demand import PodDemand
from shared.core.devices import node_room, shares_on
from shared.core.kind import Kind
from shared.core.model import Level, PodPlacement
from shared.core.node_state import NodeState
from shared.core.preemption.bounds import FRACTION, Bounds
from shared.core.preemption.leavers import Part, Vacancy, smaller
from shared.core.preemption.occupants import Occupant, gpu_milli_of
from shared.core.preemption.offers import Offer, Way, by_counting, by_search
from shared.core.room import ROOM_MAX, room_index
from shared.core.units import GPU_MILLI

SWAPS_MAX: Final = 16
"""Victims for whom cheaper ones are looked for, the dearest first."""
OTHERS_MAX: Final = 3
"""Dearer nodes that are told."""
SWAP_NODES_MAX: Final = 2_048
"""Nodes looked at by all swaps together."""


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
        self.part = part
        self._demand = demand
        self._pods_wanted = pods
        self._kinds = frozenset(kinds)
        self._apart = apart
        self._amortised = amortised
        """Whether a node pays for its own pods of a gang only, not for the whole."""
        self._fixed = frozenset(leavers.out)
        self._banned: set[str] = set()
        self.bounds = Bounds(leavers.scope, part, demand, pods)
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
                return [name for name in way.occupant.nodes if name in self.part.nodes]
            changed += self._set(way.occupant, ranks)
        return changed

    def _set(self, occupant: Occupant, ranks: frozenset[int]) -> list[str]:
        """Let exactly `ranks` of it be gone; the nodes of the part that it is on."""
        self.leavers.vacate(occupant, ranks)
        mine = [name for name in sorted(occupant.nodes) if name in self.part.nodes]
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
            if node.name in self.part.nodes:
                self.room[node.name] = room
        for name in self.leavers.changed():
            if name in self.part.nodes:
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
        self.look_again(choice.leavers.changed())

    def look_again(self, names: Iterable[str]) -> None:
        """These nodes have changed."""
        for name in names:
            if name in self._choice.part.nodes:
                self._offers[name] = []
                self._look(name, self._pods)

    def pop(self, missing: int) -> tuple[str, Offer] | None:
        """The node with the least price for each of the `missing` pods, and its offer."""
        while True:
            while self._next < len(self._waiting) and (
                not self._heap or self._waiting.price(self._next) <= self._heap[0][0]
            ):
                name = self._waiting.name(self._next)
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
            heappush(self._heap, (now, self._rank(name), name))

    def others(self, taken: str) -> list[tuple[int, str, Offer]]:
        """The next nodes, beside `taken`."""
        for at in range(self._next, min(self._next + OTHERS_MAX, len(self._waiting))):
            name = self._waiting.name(at)
            if name not in self._offers:
                self._look(name, self._pods)
        found = []
        for _, _, name in sorted(set(self._heap)):
            best = _best(self._offers[name], self._pods)
            if name != taken and best is not None:
                found.append((best.price, name, best))
        return found[:OTHERS_MAX]

    def _rank(self, name: str) -> int:
        return self._choice.part.nodes[name].rank

    def _look(self, name: str, missing: int) -> None:
        offers = self._offers[name] = self._choice.offers(name, missing)
        best = _best(offers, missing)
        if best is not None:
            heappush(self._heap, (_price(best, missing), self._rank(name), name))


def _price(offer: Offer, missing: int) -> int:
    return FRACTION * offer.price // min(offer.pods, missing)


def _best(offers: list[Offer], missing: int) -> Offer | None:
    return min(offers, key=lambda each: (_price(each, missing), each.pods), default=None)
