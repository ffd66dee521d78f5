"""What becomes of accepted work, told to its team on the topic that answers its submissions.

Facts of placement are passed on with their own reasons, in their order and behind the answer: one
service writes the topic, and one unit of work holds what was read and what is told (ADR 64).
"""

from __future__ import annotations

from typing import Final

from services.admission.memory import AdmissionMemory
from services.admission.teller import VerdictTeller
from shared.events import workloads
from shared.events.envelope import Received
from shared.events.registry import NAME_BY_TYPE

TOLD: Final[tuple[type[workloads.WorkloadFact], ...]] = (
    workloads.WorkloadPlaced,
    workloads.WorkloadRunning,
    workloads.WorkloadEvicted,
    workloads.WorkloadRequeued,
    workloads.WorkloadHeld,
    workloads.WorkloadReleased,
    workloads.WorkloadSucceeded,
    workloads.WorkloadFailed,
    workloads.WorkloadCancelled,
)


class Changes:
    """The action for facts of placement."""

    def __init__(self, memory: AdmissionMemory, teller: VerdictTeller) -> None:
        self._memory = memory
        self._teller = teller

    def changed(self, message: Received, fact: workloads.WorkloadFact) -> None:
        """One fact, to its team if that is told."""
        at_ms = message.event.time_ms
        if not self._memory.told.tells(fact.team, at_ms):
            return
        change = workloads.WorkloadChanged(
            workload_id=fact.workload_id,
            type=NAME_BY_TYPE[type(fact)],
            version=fact.version,
            state=fact.state,
            attempt=fact.attempt,
            at_ms=at_ms,
            reason=fact.reason,
            message=fact.message,
            pod_reason=fact.pod_reason,
            exit_code=getattr(fact, "exit_code", 0),
        )
        self._teller.tell_team(fact.team, change, message)
