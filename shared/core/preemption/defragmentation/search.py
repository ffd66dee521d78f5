"""The search for the fewest moves: what defragmentation/defragment.py tells, step by step."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from shared.core.cluster.tenants import Running, Tenants
from shared.core.model.demand import Gang, gang_of
from shared.core.model.nouns import Placement
from shared.core.model.units import Resources
from shared.core.placement.feasibility import permitted
from shared.core.placement.place import request_class
from shared.core.preemption.defragmentation.evacuation import (
    Evacuation,
    NodeRoom,
    choose,
    parts_of,
    room_of,
)
from shared.core.preemption.defragmentation.node_offers import MayLeave, Offers
from shared.core.preemption.defragmentation.plan import (
    DefragmentationLimits,
    DefragmentationObstacle,
    NoPlan,
    Plan,
    no_plan,
)
from shared.core.preemption.defragmentation.rehearsal import Move, MoveRehearsal
from shared.core.scoring import Cluster

PARTS_MAX: Final = 4
"""Parts of the fabric in which moves are rehearsed, those with the fewest moves first."""
TRIES_MAX: Final = 8
"""Choices of movers rehearsed in one part."""
DEPTH_MAX: Final = 2
"""A mover may need others moved, and these others again, no further."""


@dataclass(frozen=True, slots=True)
class DefragmentationGoal:
    """A gang that is to fit into one flavor."""

    gang: Gang
    flavor: str
    headroom: Resources


@dataclass(frozen=True, slots=True)
class Try:
    """One evacuation to rehearse; what could not go, or only with help, is put into `hard`."""

    evacuation: Evacuation
    hard: list[Running] = field(default_factory=list)


class DefragmentationSearch:
    """The moves rehearsed so far, and what stays whatever comes."""

    def __init__(
        self, cluster: Cluster, tenants: Tenants[Running], limits: DefragmentationLimits
    ) -> None:
        self._cluster = cluster
        self._tenants = tenants
        self._limits = limits
        self._rehearsal = MoveRehearsal(cluster, tenants)
        self._moves: list[Move] = []
        self._staying: set[str] = set()

    def fits(self, goal: DefragmentationGoal) -> Placement | None:
        """Where the gang would go now."""
        return self._rehearsal.fits(goal.gang, goal.flavor, goal.headroom)

    def plan(self, goal: DefragmentationGoal) -> Plan | NoPlan:
        """The best plan that was found within the limits."""
        best: Plan | None = None
        obstacle = DefragmentationObstacle.NO_ROOM
        for depth in range(DEPTH_MAX + 1):
            # Only fewer moves are better, and with help there are two at least.
            if best is not None and len(best.moves) <= 1 + (depth > 0):
                break
            for each in self._tries(goal, depth):
                moves_max = len(best.moves) - 1 if best else self._limits.moves_max
                if len(each.evacuation.movers) + (depth > 0) > moves_max:
                    obstacle = DefragmentationObstacle.LIMIT
                    continue
                mark = self._mark()
                placement = self._make_way(goal, each, depth)
                found = tuple(self._moves)
                self._take_back(mark)
                if placement is None:
                    obstacle = (
                        DefragmentationObstacle.LIMIT
                        if self._spent()
                        else DefragmentationObstacle.NO_REFUGE
                    )
                    continue
                plan = self._without_superfluous(found, placement, goal)
                if best is None or plan.size < best.size:
                    best = plan
        return best or no_plan(obstacle)

    def _tries(self, goal: DefragmentationGoal, depth: int) -> Iterator[Try]:
        """Evacuations worth a rehearsal: part by part, leaving out what was hard to move."""
        gang = goal.gang
        node_classes = tuple(
            frozenset(sum(permitted(self._cluster, gang, demand, goal.flavor), ()))
            for demand in gang.demands
        )
        may_leave = self._may_leave if depth else self._has_refuge()
        offers = Offers(self._cluster, self._tenants, gang, may_leave)
        chosen = [
            (found.size, number, part, found)
            for number, part in enumerate(parts_of(self._cluster, gang))
            if (found := choose(offers, part, node_classes)) is not None and found.movers
        ]
        if not chosen:
            yield from map(Try, self._as_if_all_left(goal, may_leave))
        for _, _, part, first in sorted(chosen, key=itemgetter(0, 1))[:PARTS_MAX]:
            evacuation: Evacuation | None = first
            staying = frozenset(self._staying)
            for _ in range(TRIES_MAX):
                if evacuation is None:
                    break
                each = Try(evacuation)
                yield each
                if not each.hard or self._spent():
                    break
                for mover in each.hard:
                    self._staying.add(mover.id)
                    offers.forget(mover)
                evacuation = choose(offers, part, node_classes)
            self._staying = set(staying)

    def _as_if_all_left(
        self, goal: DefragmentationGoal, may_leave: MayLeave
    ) -> Iterator[Evacuation]:
        """Where counting finds no way (unlike pods), what the placer does with all of it free."""
        mark = self._mark()
        leaving = [each for each in self._tenants.running.values() if may_leave(each)]
        for each in leaving:
            self._rehearsal.stop(each)
        placement = self.fits(goal)
        self._take_back(mark)
        if placement is not None:
            names = {pod.node for pod in placement.pods}
            demands = {demand.pod_set: demand for demand in goal.gang.demands}
            rooms: dict[str, NodeRoom] = {}
            for pod in placement.pods:
                room = room_of(pod.node, pod.shares, demands[pod.pod_set])
                rooms[pod.node] = rooms[pod.node] + room if pod.node in rooms else room
            movers = tuple(each for each in leaving if each.nodes & names)
            yield Evacuation(movers, tuple(rooms.values()))

    def _make_way(self, goal: DefragmentationGoal, each: Try, depth: int) -> Placement | None:
        """Rehearse one evacuation; where the gang goes then, or None. The moves stay made."""
        for room in each.evacuation.rooms:
            self._rehearsal.reserve(room)
        for mover in sorted(each.evacuation.movers, key=_hunger):
            made = len(self._moves)
            if any(move.workload_id == mover.id for move in self._moves):
                continue  # It made room for one before it.
            if not self._move(mover, depth):
                each.hard.append(mover)
                return None
            if len(self._moves) > made + 1:
                each.hard.append(mover)
        for room in each.evacuation.rooms:
            self._rehearsal.open(room)
        return self.fits(goal)

    def _move(self, mover: Running, depth: int) -> bool:
        """Move one workload, after others if need be; False, and nothing moved, if it cannot."""
        if len(self._moves) >= self._limits.moves_max or self._spent():
            return False
        mark = self._mark()
        move = self._rehearsal.move(mover)
        if move is None and depth:
            old = mover.placement
            goal = DefragmentationGoal(gang_of(mover.workload), old.flavor, old.charge)
            if self._make_room(goal, mover, depth - 1):
                move = self._rehearsal.move(mover)
        if move is None or len(self._moves) >= self._limits.moves_max:
            self._take_back(mark)  # also of those that made room for it
            return False
        self._moves.append(move)
        self._staying.add(mover.id)
        return True

    def _make_room(self, goal: DefragmentationGoal, mover: Running, depth: int) -> bool:
        """Move others so that `mover` finds a place; False, and nothing moved, if that fails."""
        mark = self._mark()
        self._staying.add(mover.id)
        for each in self._tries(goal, depth):
            inner = self._mark()
            if self._make_way(goal, each, depth) is not None:
                return True
            self._take_back(inner)
        self._take_back(mark)
        return False

    def _without_superfluous(
        self, moves: tuple[Move, ...], placement: Placement, goal: DefragmentationGoal
    ) -> Plan:
        """The plan without moves that the gang does not need, the dearest dropped first."""
        cost = {move: self._tenants.running[move.workload_id].cost for move in moves}
        dropped = True
        while dropped:
            dropped = False
            for move in sorted(moves, key=lambda each: (-cost[each], each.workload_id)):
                rest = tuple(each for each in moves if each is not move)
                without = self._placed_after(rest, goal)
                if without is not None:
                    moves, placement, dropped = rest, without, True
        return Plan(moves=moves, placement=placement, cost=sum(cost[each] for each in moves))

    def _placed_after(
        self, moves: tuple[Move, ...], goal: DefragmentationGoal
    ) -> Placement | None:
        """Where the gang goes after exactly these moves; None if one of them or it fails."""
        mark = self._mark()
        able = all(self._rehearsal.repeat(move) for move in moves)
        placement = self.fits(goal) if able else None
        self._take_back(mark)
        return placement

    def _may_leave(self, tenant: Running) -> bool:
        return tenant.movable and tenant.id not in self._staying

    def _has_refuge(self) -> MayLeave:
        """Whether one may leave and finds a place as things are, asked once for each class."""
        known: dict[Hashable, bool] = {}

        def may_leave(tenant: Running) -> bool:
            if not self._may_leave(tenant):
                return False
            old = tenant.placement
            key = (request_class(tenant.workload), tenant.workload.team, old.flavor, old.charge)
            if key not in known:
                goal = DefragmentationGoal(gang_of(tenant.workload), old.flavor, old.charge)
                known[key] = self.fits(goal) is not None
            return known[key]

        return may_leave

    def _spent(self) -> bool:
        return self._rehearsal.steps >= self._limits.steps_max

    def _mark(self) -> tuple[int, int, frozenset[str]]:
        return self._rehearsal.checkpoint(), len(self._moves), frozenset(self._staying)

    def _take_back(self, mark: tuple[int, int, frozenset[str]]) -> None:
        checkpoint, moves, staying = mark
        self._rehearsal.rollback(checkpoint)
        del self._moves[moves:]
        self._staying = set(staying)


def _hunger(mover: Running) -> tuple[int, int, str]:
    """Those hardest to place go first."""
    charge = mover.placement.charge
    return -charge.gpu_milli, -charge.cpu_milli, mover.id
