"""Looks for victims: in order, a few searches at a time, and never twice for one room.

A plan is in flight from its proposal until its preemptor is placed, or it is refused or expired;
as long its preemptor is looked for no more, and its victims count as gone (world.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final

from services.preemption import metrics
from services.preemption.followers import Followers
from services.preemption.losses import Losses
from services.preemption.memory import PreemptionMemory
from services.preemption.moving import Moving, planned
from services.preemption.preemptor_classes import PreemptorClasses
from services.preemption.proposals import Proposals
from services.preemption.records import Flight, PreemptorRequest
from services.preemption.refusals import Refusals
from services.preemption.searching import Searching
from services.preemption.world import World
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.placement.place import PlacementRequest, request_class
from shared.core.preemption.eligibility.plan import EvictionPlan, NoEviction, Victim
from shared.events import plans

SEARCHES_MIN: Final = 8
"""Searches of one turn, however long they take."""
LOOKS_MAX: Final = 128
"""What is looked at in one turn, if there is time."""
ANSWER_MS: Final = 60_000
"""A proposal without an answer for so long is given up."""
STOPPING: Final = (State.RUNNING, State.EVICTING, State.QUEUED)
"""Where a mover is on its way to its new place."""


class Planner:
    """Plans of one cell."""

    def __init__(
        self, memory: PreemptionMemory, world: World, cell: int, moves_per_hour: int
    ) -> None:
        self._memory = memory
        self._world = world
        self._cell = cell
        self._moving = Moving(memory, world, moves_per_hour)
        self._losses = Losses(memory, world)
        self._searching = Searching(memory, world, self._losses)
        self.refusals = Refusals(memory, self._searching, cell)
        self.lines = PreemptorClasses()
        self._followers = Followers(memory, world, self.lines)
        for name, stand in memory.stands.items():
            if stand.refused:
                self.refused(name)

    # ── what waits ──

    def refused(self, workload_id: str) -> None:
        """It waits for room that others hold."""
        offer = self._memory.offers.get(workload_id)
        if offer is None or workload_id in self._memory.followers:
            return
        if self._flight_of(workload_id) is None:
            self.lines.add(workload_id, self._class_of(offer), offer.order_key)

    def _class_of(self, offer: PreemptorRequest) -> Hashable:
        """Equals get the same answer."""
        workload = self._searching.preemptor(offer.workload)
        return workload.queue, offer.flavors, workload.priority, request_class(workload)

    def nominated(self, workload_id: str) -> None:
        """What it asks for is known now, perhaps after its refusal."""
        stand = self._memory.stands.get(workload_id)
        if stand is not None and stand.refused:
            self.refused(workload_id)

    def changed(self, workload_id: str, state: State) -> None:
        """A workload that waits no more is not looked for; what was planned for it is at its end.

        One that has another class only is looked for as before.
        """
        waited = workload_id in self.lines or workload_id in self._memory.followers
        self.withdrawn(workload_id)
        flight = self._flight_of(workload_id)
        if flight is not None and state not in (STOPPING if flight.moves else (State.QUEUED,)):
            self._land(flight.plan_id)
            if state is State.PLACED:
                self._started(flight)
        if state is State.PLACED:
            self._memory.starts_again(workload_id)
        if waited and self._waits_on(workload_id):
            self.refused(workload_id)

    def _waits_on(self, workload_id: str) -> bool:
        """Refused still, and nominated by the priority that it has; by another it will be anew."""
        stand = self._memory.stands.get(workload_id)
        offer = self._memory.offers.get(workload_id)
        if stand is None or offer is None or not stand.refused:
            return False
        return offer.order_key[:1] == (-stand.priority,)

    def _started(self, flight: Flight) -> None:
        """The next of its class is due, and all are if a gang may be asked for pods again."""
        offer = self._memory.offers.get(flight.workload_id)
        if offer is not None:
            self.lines.wake(self._class_of(offer))
        if any(flight.victims.values()):
            self.lines.all_due()

    def withdrawn(self, workload_id: str) -> None:
        """It is not looked for any more."""
        self.lines.remove(workload_id)
        self._followers.left(workload_id)

    def _land(self, plan_id: str) -> Flight | None:
        """Followers that have no place by now wait again."""
        flight = self._memory.land(plan_id)
        for name in self._followers.landed(plan_id):
            self.refused(name)
        return flight

    def _flight_of(self, workload_id: str) -> Flight | None:
        flights = self._memory.flights.values()
        return next((one for one in flights if one.workload_id == workload_id), None)

    # ── answers ──

    def accepted(self, fact: plans.EvictionPlanAccepted, now_ms: int) -> None:
        """The victims are being evicted; of placement's own plans this is the first that is heard.

        Where the preemptor will be is placement's word.
        """
        if fact.placement is None or self._memory.was_accepted(fact.plan_id):
            return
        victims = {one.workload_id: one.pods_kept for one in fact.victims}
        flight = Flight(fact.plan_id, fact.workload_id, victims, fact.placement, now_ms)
        self._memory.fly(flight)
        self._memory.tell(fact.workload_id, None)
        self._moving.accepted(fact, now_ms)
        self.withdrawn(fact.workload_id)
        for victim in fact.victims:
            self._losses.note(victim, now_ms)
        metrics.PLANS.labels("accepted").inc()

    def refused_plan(self, fact: plans.EvictionPlanRefused, now_ms: int) -> None:
        """The world was another already: look again, but not at once."""
        metrics.PLANS.labels(fact.reason).inc()
        self._ended(fact.plan_id, now_ms)

    def expired(self, fact: plans.ReservationExpired, now_ms: int) -> None:
        """The room is free for all."""
        metrics.PLANS.labels("expired").inc()
        self._ended(fact.plan_id, now_ms)

    def _ended(self, plan_id: str, now_ms: int) -> None:
        flight = self._land(plan_id)
        if flight is None:
            return
        for name in flight.victims if flight.losses else ():
            self._memory.land(f"{plan_id}/{name}")  # it was never accepted, so nothing moves
        stand = self._memory.stands.get(flight.workload_id)
        if stand is not None and stand.state is State.QUEUED and stand.refused:
            self.refused(flight.workload_id)
            if flight.workload_id in self.lines:
                self.lines.rest(flight.workload_id, now_ms)

    # ── plans ──

    def turn(
        self, name: str, now_ms: int, has_time: Callable[[], bool]
    ) -> list[plans.ProposeEvictionPlan]:
        """Search for those that are due, the first of all first; `name` makes the plans' ids."""
        self._give_up(now_ms)
        self._followers.look()
        proposals = Proposals(self._memory, self._world)
        searches, moves = 0, True
        for number in range(LOOKS_MAX):
            workload_id = self.lines.first(now_ms)
            if workload_id is None or (searches >= SEARCHES_MIN and not has_time()):
                break
            self._world.refresh()
            if self._are_displaced():
                continue
            request = self._searching.request(workload_id)
            answer = self._searching.search(request, now_ms)
            if isinstance(answer, NoEviction) and self._follows(workload_id, answer):
                self.refusals.has_room((workload_id,), now_ms)
                continue
            searches += 1
            if isinstance(answer, NoEviction):
                may_move = moves and self._may_move(request, answer, now_ms)
                moves = moves and not may_move
                answer = self._otherwise(request, answer, now_ms, may_move=may_move)
            if isinstance(answer, NoEviction):
                metrics.SPARED.labels(answer.obstacle.value).inc()
                self.refusals.note(workload_id, answer, now_ms)
                self.lines.rest(workload_id, now_ms, answer.retry_at_ms)
                continue
            plan, behind = self._together(request, answer, proposals, now_ms)
            if not proposals.asks_again(plan):
                proposals.add(self._propose(f"{name}-{number}", plan, behind, now_ms))
            elif flight := proposals.join(plan, request.workload.queue):
                behind = [(workload_id, plan.placement), *behind]
                self._followers.proposed(flight, behind)
                self.refusals.has_room((name for name, _ in behind), now_ms)
            else:
                proposals.asks_no_more(plan)
        metrics.WAITING.set(len(self.lines))
        metrics.IN_FLIGHT.set(len(self._memory.flights))
        return proposals.end()

    def _together(
        self, request: PlacementRequest, plan: EvictionPlan, proposals: Proposals, now_ms: int
    ) -> tuple[EvictionPlan, Sequence[tuple[str, Placement]]]:
        """The plan, for more than one if that may be; the followers, and where."""
        choose = partial(self._searching.search, now_ms=now_ms)
        may_be = partial(proposals.may_be, queue=request.workload.queue)
        return self._followers.together(request, plan, choose, may_be, now_ms)

    def _are_displaced(self) -> bool:
        """Let followers wait again where another is in their place; whether there are any."""
        names, self._world.displaced = self._world.displaced, ()
        for name in names:
            self._followers.left(name)
            self.refused(name)
        return bool(names)

    def _give_up(self, now_ms: int) -> None:
        late = [
            flight.plan_id
            for flight in self._memory.flights.values()
            if flight.losses and flight.proposed_at_ms + ANSWER_MS < now_ms
        ]
        for plan_id in late:
            metrics.PLANS.labels("unanswered").inc()
            self._ended(plan_id, now_ms)

    def _follows(self, workload_id: str, answer: NoEviction) -> bool:
        """Whether it has room as soon as the plans of others are at their end."""
        place = answer.placement
        return place is not None and self._followers.follows(workload_id, place)

    def _may_move(self, request: PlacementRequest, answer: NoEviction, now_ms: int) -> bool:
        may = self._moving.may_help(request, answer, now_ms)
        return may and self.lines.takes_moves(request.workload.id, now_ms)

    def _otherwise(
        self, request: PlacementRequest, answer: NoEviction, now_ms: int, *, may_move: bool
    ) -> EvictionPlan | NoEviction:
        """Evictions alone make no room: others go on elsewhere besides. Or no work has to go."""
        if may_move:
            wider = self._searching.wider(request)
            return self._moving.choose(wider, self._losses.rules(now_ms), now_ms) or answer
        workload_id, place = request.workload.id, answer.placement
        if place is None or not answer.may_evict or not self.lines.has_rested(workload_id):
            return answer
        return EvictionPlan(
            workload_id=workload_id, flavor=place.flavor, victims=(), placement=place
        )

    def _propose(
        self,
        plan_id: str,
        plan: EvictionPlan,
        behind: Sequence[tuple[str, Placement]],
        now_ms: int,
    ) -> plans.ProposeEvictionPlan:
        """`behind` are those that follow, and where."""
        memory = self._memory
        offer = memory.offers[plan.workload_id]
        losses: dict[str, int] = {"": 0}
        for name, lost in plan.losses:
            team = memory.offers[name].workload.team
            losses[team] = losses.get(team, 0) + lost
        leaving = [_leaving(one, memory.class_told(one.workload_id)) for one in plan.victims]
        victims = (*leaving, *map(planned, plan.moves))
        kept = {one.workload_id: one.pods_kept for one in victims}
        flight = Flight(plan_id, plan.workload_id, kept, plan.placement, now_ms, losses)
        memory.fly(flight)
        memory.tell(plan.workload_id, None)
        self._moving.proposed(plan_id, plan, now_ms)
        self._followers.proposed(flight, behind)
        self.refusals.has_room((name for name, _ in behind), now_ms)
        self.lines.remove(plan.workload_id)
        metrics.PLANS.labels("proposed").inc()
        return plans.ProposeEvictionPlan(
            plan_id=plan_id,
            workload_id=plan.workload_id,
            version=self._searching.stand(offer.workload).version,
            nomination=offer.nomination,
            flavor=plan.flavor,
            rule=plan.rule.value,
            victims=victims,
            alternatives=tuple(
                plans.RefusedAlternative(
                    why=one.why, victims=one.victims, lost_gpu_ms=one.lost_gpu_ms
                )
                for one in plan.alternatives
            ),
            team=offer.workload.team,
            queue=offer.workload.queue,
            cell=self._cell,
            followers=plan.followers,
        )


def _leaving(victim: Victim, priority_class: str) -> plans.PlannedVictim:
    return plans.PlannedVictim(
        workload_id=victim.workload_id,
        version=victim.version,
        attempt=victim.attempt,
        pods_kept=len(victim.kept_ranks),
        rule=victim.rule.value,
        lost_gpu_ms=victim.lost_gpu_ms,
        priority_class=priority_class,
    )
