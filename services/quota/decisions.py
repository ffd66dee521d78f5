"""Decisions of the core become facts: nominations, their withdrawal, refusals."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from services.quota import metrics
from services.quota.memory import QuotaMemory
from shared.core.model.amounts import resources
from shared.core.queueing.nomination import Expect, Nominate, Refuse, Withdraw
from shared.events.envelope import Received
from shared.events.quotas import (
    NominationWithdrawn,
    PermittedFlavor,
    QuotaRefused,
    WorkloadNominated,
)
from shared.events.topics import QUOTA_FACTS, Topic
from shared.events.workloads import Wire
from shared.runtime.handler import Emit, Outcome

PERMITTED_MAX: Final = 1_000
"""Answers about flavors kept, so that equal ones are made once."""


class Decisions:
    """Puts facts into the outcome of the present batch."""

    def __init__(self, memory: QuotaMemory, cell: int) -> None:
        self._memory = memory
        self._cell = cell
        self._counts: Counter[str] = Counter()
        self._permitted: dict[tuple[Any, ...], tuple[PermittedFlavor, ...]] = {}
        self.outcome = Outcome()

    def emit(
        self, payload: Wire, subject: str, cause: Received, topic: Topic = QUOTA_FACTS
    ) -> None:
        """Tell a fact."""
        self.outcome.emits.append(
            Emit(
                payload=payload,
                topic=topic,
                subject=subject,
                cause=cause,
                partition=self._cell,
            )
        )

    def tell(self, cause: Received) -> None:
        """All that the core decided since the last call."""
        for decision in self._memory.core.take():
            pending = decision.pending
            if not isinstance(decision, Expect):
                self.emit(self._fact(decision), pending.id, cause)
            if not isinstance(decision, Refuse):
                self._memory.records.touch(pending)
            if isinstance(decision, Nominate | Expect):
                now_ms = self._memory.now_ms
                self._memory.answers.nominated(pending, decision.nomination, now_ms)

    def _fact(self, decision: Nominate | Withdraw | Refuse) -> Wire:
        match decision:
            case Nominate():
                self._counts["nominated"] += 1
                return self._nomination(decision)
            case Withdraw(pending, nomination):
                self._counts["withdrawn"] += 1
                return NominationWithdrawn(workload_id=pending.id, nomination=nomination)
            case Refuse():
                self._counts["refused"] += 1
                return self._refusal(decision)

    def _nomination(self, decision: Nominate) -> WorkloadNominated:
        pending = decision.pending
        return WorkloadNominated(
            workload=self._memory.records.whole(pending),
            version=pending.version,
            nomination=decision.nomination,
            order_key=pending.key,
            flavors=self._flavors(decision),
            strict=decision.strict,
            within_nominal=decision.within_nominal,
            next_of_own=decision.next_of_own,
        )

    def _flavors(self, decision: Nominate) -> tuple[PermittedFlavor, ...]:
        """Mostly the same as before: few queues borrow, and few workloads wait for evictions."""
        key = (decision.flavors, decision.borrowable, decision.by_eviction)
        flavors = self._permitted.get(key)
        if flavors is None:
            if len(self._permitted) == PERMITTED_MAX:
                self._permitted.clear()
            flavors = self._permitted[key] = tuple(
                PermittedFlavor(
                    flavor=flavor,
                    borrowable=resources(borrowable),
                    needs_eviction=decision.by_eviction,
                )
                for flavor, borrowable in zip(decision.flavors, decision.borrowable, strict=True)
            )
        return flavors

    def _refusal(self, decision: Refuse) -> QuotaRefused:
        pending, refusal = decision.pending, decision.refusal
        return QuotaRefused(
            workload_id=pending.id,
            team=pending.team,
            queue=pending.queue,
            reason=refusal.reason,
            message=refusal.message,
            next_step=refusal.next_step,
            evidence=refusal.evidence,
            cell=self._cell,
        )

    def measure(self) -> None:
        """Counts of decisions since the last call."""
        for kind, count in self._counts.items():
            metrics.DECISIONS.labels(kind).inc(count)
        self._counts.clear()
