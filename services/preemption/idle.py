"""Idle reclaim: what was seen idle for too long is released, if the policy says so now (ADR 27).

Monitoring tells what was seen; here the policy of the team, the time-out of the workload and its
class decide. Evidence is looked at in a turn, while it is fresh. Whatever is missed or refused is
told again by monitoring, as long as the work is idle.
"""

from __future__ import annotations

from typing import Final

from services.preemption import metrics
from services.preemption.memory import IDLE, POLICY, PreemptionMemory
from shared.core.model.lifecycle import State
from shared.core.nodes.idleness import Idleness, limits_of, why_spared
from shared.events.idleness import IdlenessEnded, IdlenessNoticed
from shared.events.organisation import TeamApplied
from shared.events.plans import ReleaseIdleWorkload

RELEASES_MAX: Final = 64
"""Workloads that are looked at in one turn."""


class IdleReclaim:
    """The idle work of one cell."""

    def __init__(self, memory: PreemptionMemory) -> None:
        self._memory = memory

    def policy(self, fact: TeamApplied) -> None:
        """What a team wants of its idle work."""
        memory = self._memory
        if fact.idle is not None:
            memory.put(POLICY, memory.policies, fact.name, fact.idle)
        elif memory.policies.pop(fact.name, None) is not None:
            memory.journal.drop(POLICY, fact.name)

    def noticed(self, fact: IdlenessNoticed) -> None:
        """It may be time: look at it in the next turn."""
        if fact.release_at_ms and fact.until_ms >= fact.release_at_ms:
            self._memory.put(IDLE, self._memory.idle, fact.workload_id, fact)

    def ended(self, fact: IdlenessEnded) -> None:
        """It uses its GPUs again, or nothing is seen of it."""
        self._memory.no_longer_idle(fact.workload_id)

    def due_ms(self) -> int | None:
        """When the next turn begins; None when nothing is idle."""
        return 0 if self._memory.idle else None

    def turn(self, name: str, now_ms: int) -> list[ReleaseIdleWorkload]:
        """Look at what is idle; `name` makes the ids of the plans."""
        memory = self._memory
        released: list[ReleaseIdleWorkload] = []
        for workload_id in list(memory.idle)[:RELEASES_MAX]:
            fact = memory.idle[workload_id]
            memory.no_longer_idle(workload_id)
            spared = self._why_spared(fact, now_ms)
            metrics.IDLE.labels(spared or "released").inc()
            if not spared:
                plan_id = f"{name}-idle-{len(released)}"
                released.append(_release(plan_id, fact, memory.class_told(workload_id)))
        return released

    def _why_spared(self, fact: IdlenessNoticed, now_ms: int) -> str:
        memory, name = self._memory, fact.workload_id
        offer, stand = memory.offers.get(name), memory.stands.get(name)
        if offer is None or stand is None or stand.state is not State.RUNNING:
            return "not-running"
        if stand.attempt != fact.attempt:
            return "not-running"
        spec = offer.workload.spec
        return why_spared(
            Idleness(since_ms=fact.since_ms, until_ms=fact.until_ms),
            limits_of(memory.policies.get(offer.workload.team), spec.idle_timeout_seconds),
            protected=memory.spares(offer.workload),
            now_ms=now_ms,
        )


def _release(plan_id: str, fact: IdlenessNoticed, priority_class: str) -> ReleaseIdleWorkload:
    return ReleaseIdleWorkload(
        plan_id=plan_id,
        workload_id=fact.workload_id,
        attempt=fact.attempt,
        since_ms=fact.since_ms,
        until_ms=fact.until_ms,
        utilization_percent=fact.utilization_percent,
        team=fact.team,
        queue=fact.queue,
        cell=fact.cell,
        priority_class=priority_class,
    )
