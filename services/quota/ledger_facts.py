"""What the ledger did: charges, use over time and places in a queue follow these facts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from services.quota.memory import Action, QuotaMemory
from services.quota.records import EarlyFacts
from shared.core.model.amounts import amount
from shared.core.model.lifecycle import HOLDING, State
from shared.core.queueing.nomination import Pending, Phase
from shared.events import workloads
from shared.events.envelope import Received
from shared.events.workloads import Wire

_OVER: Final = (
    workloads.WorkloadSucceeded,
    workloads.WorkloadFailed,
    workloads.WorkloadCancelled,
)


class LedgerFacts:
    """Actions for `workload.facts`."""

    def __init__(self, memory: QuotaMemory) -> None:
        self._memory = memory
        self._core = memory.core
        self._records = memory.records
        self._history = memory.history
        self._budgets = memory.budgets
        self._over_by_fact = self._fact(self._over)
        self._waits_on = self._fact(lambda _: None)
        self._holds_on = self._charge(self._weighs)

    def actions(self) -> Mapping[type[Wire], Action]:
        """By payload."""
        return {
            workloads.WorkloadPlaced: self._charge(self._placed),
            workloads.WorkloadResized: self._charge(self._resized),
            workloads.PlacementRefused: self._refused,
            workloads.WorkloadRequeued: self._fact(self._requeued),
            workloads.WorkloadReleased: self._fact(self._requeued),
            workloads.WorkloadHeld: self._fact(self._held),
            workloads.WorkloadReprioritised: self._reprioritised,
            **dict.fromkeys(_OVER, self._ending),
        }

    def _charge(self, apply: Callable[[Pending, Any], None]) -> Action:
        """For facts that charge what is alive here."""

        def act(message: Received, fact: Any) -> None:  # noqa: ANN401, ARG001  # one of two
            pending = self._records.alive.get(fact.workload_id)
            if pending is not None and pending.phase is not Phase.GONE:
                apply(pending, fact)
                self._records.touch(pending)

        return act

    def _placed(self, pending: Pending, fact: workloads.WorkloadPlaced) -> None:
        """In a gap of the facts the attempt before is over as well."""
        self._holds(pending, fact, fact.placed_at_ms, 0)

    def _resized(self, pending: Pending, fact: workloads.WorkloadResized) -> None:
        self._holds(pending, fact, fact.resized_at_ms, fact.resizes - 1)

    def _holds(
        self,
        pending: Pending,
        fact: workloads.WorkloadPlaced | workloads.WorkloadResized,
        at_ms: int,
        resizes_before: int,
    ) -> None:
        """From now on it is charged as `fact` says, and for nothing else."""
        if fact.version <= pending.version:
            return
        pending.version = fact.version
        placement = fact.placement
        if pending.phase is Phase.PLACED:
            self._used(pending, at_ms, resizes_before)
        if pending.phase is Phase.OFFERED:
            self._memory.answers.answered(pending, self._memory.now_ms)
        self._core.placed(pending, placement.flavor, amount(placement.charge), fact.attempt)
        pending.placed_at_ms = at_ms
        self._history.change(pending.queue, at_ms, pending.charge[0])
        self._budgets.change(pending, at_ms, 1)

    def _refused(self, message: Received, fact: workloads.PlacementRefused) -> None:  # noqa: ARG002
        pending = self._records.alive.get(fact.workload_id)
        if pending is not None and pending.phase is Phase.OFFERED:
            if pending.nomination == fact.nomination:
                self._memory.answers.answered(pending, self._memory.now_ms)
            self._core.refused(pending, fact.nomination)
            self._records.touch(pending)

    def _fact(self, apply: Callable[[Pending], None]) -> Action:
        """For facts that carry the whole state: what is older than known changes nothing."""

        def act(message: Received, fact: workloads.WorkloadFact) -> None:
            pending = self._records.alive.get(fact.workload_id)
            if pending is None:
                self._came_early(fact)
                return
            if pending.phase is Phase.GONE or fact.version <= pending.version:
                return
            pending.version = fact.version
            self._give_back(pending, fact, message.event.time_ms)
            self._core.reprioritise(pending, fact.priority)
            apply(pending)
            self._records.touch(pending)

        return act

    def _reprioritised(self, message: Received, fact: workloads.WorkloadReprioritised) -> None:
        """It has another place in its queue, or what it holds is of another priority."""
        (self._holds_on if fact.state in HOLDING else self._waits_on)(message, fact)

    def _weighs(self, pending: Pending, fact: workloads.WorkloadReprioritised) -> None:
        if fact.version > pending.version:
            pending.version = fact.version
            self._core.reprioritise(pending, fact.priority)

    def _came_early(self, fact: workloads.WorkloadFact) -> None:
        """Placement read the queue before quota did; nothing was charged yet."""
        known = self._records.early.get(fact.workload_id)
        if known is None or known.version < fact.version:
            held, gone = fact.state is State.HELD, isinstance(fact, _OVER)
            early = EarlyFacts(fact.version, held, gone, fact.priority)
            self._records.note_early(fact.workload_id, early)

    def _give_back(self, pending: Pending, fact: workloads.WorkloadFact, at_ms: int) -> None:
        """The ledger holds nothing for the attempt any more."""
        if pending.phase is not Phase.PLACED:
            return
        ended_at_ms = getattr(fact, "released_at_ms", 0) or at_ms
        self._used(pending, ended_at_ms, getattr(fact, "released_resizes", 0))
        self._core.released(pending)

    def _used(self, pending: Pending, ended_at_ms: int, resizes: int) -> None:
        """An attempt is over, or its size of that number."""
        ended_at_ms = max(ended_at_ms, pending.placed_at_ms)
        self._records.remember_use(pending, ended_at_ms, resizes)
        self._history.change(pending.queue, ended_at_ms, -pending.charge[0])
        self._budgets.change(pending, ended_at_ms, -1)

    def _requeued(self, pending: Pending) -> None:
        pending.held = False
        self._memory.enter(pending)

    def _held(self, pending: Pending) -> None:
        pending.held = True
        self._core.leave(pending)

    def _ending(self, message: Received, fact: workloads.WorkloadFact) -> None:
        self._memory.ended.count(fact.team)
        self._over_by_fact(message, fact)

    def _over(self, pending: Pending) -> None:
        self._core.forget(pending)
