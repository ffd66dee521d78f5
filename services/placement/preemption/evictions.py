"""Eviction plans: tried again on the ledger's own state, then carried out, or refused.

Accepted, in one unit: the victims are evicted with their own grace and a reservation keeps the
room; so it does for those that go on elsewhere (moves.py). When the last victim's pods are gone,
the unit that releases it places the preemptor just where it was promised. A preemptor that leaves,
a node that is lost or the time that runs out gives the room back to all, and that is told
(ADR 24).
"""

from __future__ import annotations

from typing import Any, Final

from services.placement.cycle.scheduling_cycle import SchedulingCycle
from services.placement.preemption import moves
from services.placement.preemption.plan_checks import preemptor_problem, victim_problem
from services.placement.state.records import Record
from services.placement.state.reservations import Reservation, given_up
from services.placement.unit.cell_state import CellState
from services.placement.workloads import resizing, transitions
from services.placement.workloads.transitions import RESERVATION
from shared.core.backfill.spare_room import BRIEF, WIDE
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.core.model.wording import moment
from shared.core.placement.place import PlacementRequest, learn
from shared.core.preemption.moves import Holder, place_without, take
from shared.events import plans
from shared.events.envelope import Received
from shared.events.workloads import Wire

SLACK_SECONDS: Final = 60
"""What a reservation waits beyond the longest grace of its victims."""


class Evictions:
    """Plans and reservations of one cell."""

    def __init__(self, state: CellState, cycle: SchedulingCycle) -> None:
        self._state = state
        self._cycle = cycle

    def propose(self, message: Received, plan: plans.ProposeEvictionPlan) -> None:
        """Carry the plan out, or say why not."""
        record = self._state.records.alive.get(plan.workload_id)
        problem = preemptor_problem(self._state, record, plan)
        if record is None or problem:
            self._refuse(plan, Reason.PREEMPTOR_CHANGED, problem, message)
            return
        problem = victim_problem(self._state, plan)
        if problem:
            self._refuse(plan, Reason.VICTIM_CHANGED, problem, message)
            return
        placement = self._try(record, plan)
        if placement is None:
            text = (
                f"even without {len(plan.victims)} victims there is no room or quota for all of it"
            )
            self._refuse(plan, Reason.NO_LONGER_FITS, text, message)
        else:
            self._accept(record, plan, placement, message)

    def _try(self, record: Record, plan: plans.ProposeEvictionPlan) -> Placement | None:
        """Where the preemptor would go with the victims gone; nothing is changed."""
        state, queue, flavor = self._state, record.workload.queue, plan.flavor
        if not state.usage.names(queue, flavor):
            return None
        leaving: list[Holder] = []
        for one in plan.victims:
            victim = state.records.alive[one.workload_id]
            part = given_up(victim, one.pods_kept)
            if part is not None and one.moves_to is None:
                leaving.append((victim.workload, part))
        for workload, placement in leaving:
            state.usage.release(workload.queue, placement.flavor, placement.charge)
        headroom = {flavor: state.headroom.room(record, flavor)}
        for workload, placement in leaving:
            state.usage.charge(workload.queue, placement.flavor, placement.charge)
        request = PlacementRequest(
            workload=record.workload,
            flavors=(flavor,),
            headroom=headroom,
            # Rooms are for what waits; preemption does not know them.
            pins=(*state.pins_for(record), WIDE, BRIEF),
        )
        return place_without(state.cluster, leaving, request, moves.movers_of(state, plan))

    def _accept(
        self,
        record: Record,
        plan: plans.ProposeEvictionPlan,
        placement: Placement,
        message: Received,
    ) -> None:
        """`placement` is where the preemptor will be."""
        state = self._state
        victims = [state.records.alive[one.workload_id] for one in plan.victims]
        grace_seconds = max((one.workload.spec.grace_seconds for one in victims), default=0)
        expires_at_ms = state.unit.now_ms + (grace_seconds + SLACK_SECONDS) * 1000
        self._tell_accepted(record, plan, (placement, expires_at_ms), message)
        for planned in plan.victims:
            if planned.moves_to is not None:
                moves.move(state, planned, record, plan, message)
            else:
                self._evict(planned, record, plan, message)
        self._cycle.reserve(record)
        state.deadlines.set(record, RESERVATION, expires_at_ms)
        reservation = Reservation(
            plan_id=plan.plan_id,
            workload_id=plan.workload_id,
            queue=record.workload.queue,
            rule=plan.rule,
            placement=placement,
            victims=tuple(
                (one.workload_id, one.attempt, one.pods_kept)
                for one in plan.victims
                if one.moves_to is None
            ),
            expires_at_ms=expires_at_ms,
            movers=moves.out_of(state, plan, placement, plan.workload_id),
        )
        state.reservations.add(reservation)
        moves.keep_room(state, plan, expires_at_ms)

    def _evict(
        self,
        planned: plans.PlannedVictim,
        preemptor: Record,
        plan: plans.ProposeEvictionPlan,
        message: Received,
    ) -> None:
        state, workload, spec = self._state, preemptor.workload, preemptor.workload.spec
        victim, rule = state.records.alive[planned.workload_id], planned.rule or plan.rule
        limit = spec.expected_duration_seconds or spec.max_duration_seconds or 0
        start_ms = state.unit.now_ms + victim.workload.spec.grace_seconds * 1000
        back_at_ms = start_ms + limit * 1000 if limit else 0
        back = f"about {moment(back_at_ms)}" if back_at_ms else "as soon as there is room"
        text = (
            f"preempted at {moment(state.unit.now_ms)} for workload {workload.id}"
            f"{_and_more(plan.followers)} of team {workload.team}"
            f" (queue {workload.queue}, rule {rule})"
        )
        if planned.pods_kept:
            text += f"; it may grow again {back}"
            resizing.shrink(
                state, victim, planned.pods_kept, Reason.PREEMPTED, message, message=text
            )
            return
        text += f"; it keeps its place and may come back {back}"
        taken = moves.taken_for(workload, plan, rule)
        more: dict[str, Any] = {"preemption": taken, "back_at_ms": back_at_ms}
        transitions.evict(state, victim, Reason.PREEMPTED, text, message, **more)

    # ── what becomes of a reservation ──

    def settle(self, message: Received) -> None:
        """Place those of which the victims are gone; give up for those that wait no more."""
        reservations = self._state.reservations
        for workload_id in list(reservations.left):
            record = self._state.records.alive[workload_id]
            self.expire(record, Reason.PREEMPTOR_LEFT, f"it is {record.state.value}", message)
        for workload_id in list(reservations.ready):
            self._start(self._state.records.alive[workload_id], message)

    def _start(self, record: Record, message: Received) -> None:
        """In the unit in which its last victim is released."""
        state, workload = self._state, record.workload
        reservation = state.reservations.drop(workload.id)
        placement = reservation.placement
        headroom = state.headroom.room(record, placement.flavor)
        # A nomination of what moves is not withdrawn: there is none.
        shut = not state.usage.names(workload.queue, placement.flavor)
        fits = not shut and placement.charge.fits_in(headroom)
        if not fits or not take(state.cluster, workload, placement.pods):
            text = "its victims are gone, but room or quota changed meanwhile"
            self._tell_expired(record, reservation, (Reason.NO_LONGER_FITS, text), message)
            return
        state.waiting.remove(workload.id)
        learn(state.cluster, workload, placement.flavor)
        transitions.place(state, record, placement, message)

    def expire(self, record: Record, reason: Reason, text: str, message: Received) -> None:
        """Give the room back to all."""
        reservation = self._state.reservations.drop(record.workload.id)
        self._tell_expired(record, reservation, (reason, text), message)

    def lost(self, node: str, message: Received, why: str = "takes no work any more") -> None:
        """A node is gone, or takes no work any more, and the room there with it."""
        for reservation in self._state.reservations.on(node):
            record = self._state.records.alive[reservation.workload_id]
            self.expire(record, Reason.NO_LONGER_FITS, f"node {node} {why}", message)

    def nominated_again(self, record: Record, message: Received) -> None:
        """Another nomination keeps the reservation as long as it permits its flavor."""
        reservation = self._state.reservations.of(record.workload.id)
        assert reservation is not None
        assert record.nomination is not None
        if reservation.placement.flavor not in record.nomination.flavors:
            self.expire(
                record, Reason.PREEMPTOR_LEFT, "it may not use the flavor any more", message
            )

    # ── what is told ──

    def _refuse(
        self, plan: plans.ProposeEvictionPlan, reason: Reason, text: str, message: Received
    ) -> None:
        fact = plans.EvictionPlanRefused(
            plan_id=plan.plan_id,
            workload_id=plan.workload_id,
            team=plan.team,
            queue=plan.queue,
            cell=plan.cell,
            reason=reason,
            message=text,
        )
        self._tell(fact, plan.workload_id, message)

    def _tell_accepted(
        self,
        record: Record,
        plan: plans.ProposeEvictionPlan,
        room: tuple[Placement, int],
        message: Received,
    ) -> None:
        """`room` is where, and until when."""
        workload, (placement, expires_at_ms) = record.workload, room
        fact = plans.EvictionPlanAccepted(
            plan_id=plan.plan_id,
            workload_id=workload.id,
            team=workload.team,
            queue=workload.queue,
            cell=workload.cell,
            flavor=plan.flavor,
            rule=plan.rule,
            victims=plan.victims,
            alternatives=plan.alternatives,
            expires_at_ms=expires_at_ms,
            placement=placement,
            followers=plan.followers,
        )
        self._tell(fact, workload.id, message)

    def _tell_expired(
        self, record: Record, reservation: Reservation, why: tuple[Reason, str], message: Received
    ) -> None:
        """The refund; others, and the preemptor itself, may have the room."""
        state, workload = self._state, record.workload
        fact = plans.ReservationExpired(
            plan_id=reservation.plan_id,
            workload_id=workload.id,
            team=workload.team,
            queue=workload.queue,
            cell=workload.cell,
            reason=why[0],
            message=why[1],
            expired_at_ms=state.unit.now_ms,
        )
        self._tell(fact, workload.id, message)
        for node in sorted(reservation.nodes):
            state.unit.freed_nodes[node] = message
        for name in state.usage.path(workload.queue):
            state.unit.freed_queues[name] = message
        if record.deadline_kind == RESERVATION:
            state.deadlines.set(record, "", 0)
        if record.nomination is not None and record.state is State.QUEUED:
            self._cycle.add(record, message)

    def _tell(self, fact: Wire, workload_id: str, message: Received) -> None:
        self._state.unit.tell_about(fact, workload_id, message)


def _and_more(followers: int) -> str:
    return f" and {followers} more" if followers else ""
