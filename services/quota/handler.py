"""The quota service: who may be tried next.

Three streams meet here in no order between them: queues and commands (`queue.facts`), limits
(`organisation.facts`), and what the ledger did (`workload.facts`). Commands and facts therefore
keep flags of their own: `hold_asked` follows the commands, `held` follows the facts, and only
who is free of both is nominated. Charges and places in a queue follow the facts alone.

A nomination that nobody answers (placement tells only some of many equal workloads that they
must wait) counts as use for `ANSWER_WAIT_MS` and no longer, so nothing can be lost for good.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import structlog

from services.quota import metrics
from services.quota.budgets import Budgets
from services.quota.documents import Documents
from services.quota.ended import Ended
from services.quota.history import History
from services.quota.records import Early, Records
from shared.core.amounts import amount, resources
from shared.core.nomination import Nominate, Nominator, Refuse, Withdraw
from shared.core.pending import Pending, Phase
from shared.core.team_policy import budget_problems
from shared.core.usage_history import HALF_LIFE_MS
from shared.events import organisation, workloads
from shared.events.deadlines import DeadlinePassed, deadline_message
from shared.events.envelope import Received
from shared.events.quotas import (
    EndedWorkloadsCounted,
    NominationWithdrawn,
    PermittedFlavor,
    QuotaRefused,
    WorkloadNominated,
)
from shared.events.topics import (
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    TEAM_FACTS,
    WORKLOAD_FACTS,
    Topic,
)
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Emit, Outcome

ANSWER_WAIT_MS: Final = 5_000
PERMITTED_MAX: Final = 1_000
"""Answers about flavors kept, so that equal ones are made once."""
ANSWERS_MAX: Final = 1_000
"""Overdue answers that one message gives up."""
_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("quota")


class QuotaHandler:
    """One cell's quota."""

    name = "quota"

    def __init__(self, *, cell: int = 0, half_life_ms: int = HALF_LIFE_MS) -> None:
        self._cell = cell
        self._half_life_ms = half_life_ms
        self._actions: dict[type[Wire], Callable[[Received, Any], None]] = {
            workloads.WorkloadQueued: self._queued,
            workloads.CancelWorkload: self._with_record(self._cancel),
            workloads.HoldWorkload: self._with_record(self._hold),
            workloads.ReleaseWorkload: self._with_record(self._release),
            workloads.ReprioritiseWorkload: self._with_record(self._reprioritise),
            organisation.QueueApplied: self._limits,
            organisation.CohortApplied: self._limits,
            organisation.FlavorApplied: self._flavor,
            organisation.TeamApplied: self._team,
            workloads.WorkloadPlaced: self._with_record(self._placed),
            workloads.WorkloadResized: self._with_record(self._resized),
            workloads.PlacementRefused: self._refused,
            workloads.WorkloadRequeued: self._fact(self._requeued),
            workloads.WorkloadReleased: self._fact(self._requeued),
            workloads.WorkloadHeld: self._fact(self._held),
            workloads.WorkloadSucceeded: self._ending,
            workloads.WorkloadFailed: self._ending,
            workloads.WorkloadCancelled: self._ending,
            DeadlinePassed: self._overdue,
        }
        self._permitted: dict[tuple[Any, ...], tuple[PermittedFlavor, ...]] = {}
        self._forget()

    def _forget(self) -> None:
        self._core = Nominator()
        self._documents = Documents(self._core)
        self._records = Records()
        self._ended = Ended()
        self._history = History(self._half_life_ms)
        self._budgets = Budgets(self._core)
        self._core.used = lambda queue: self._history.at(queue, self._now_ms)
        self._over_by_fact = self._fact(self._over)
        self._outcome = Outcome()
        self._counts: Counter[str] = Counter()
        self._turns = 0
        self._now_ms = 0
        self._unanswered: deque[tuple[int, Pending, int]] = deque()
        """(time, workload, nomination) in order of time; time 0: before the last restart."""

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Limits, queue facts and the ledger's facts of the cell."""
        cell = (self._cell,)
        return [(ORGANISATION_FACTS, (0,)), (QUEUE_FACTS, cell), (WORKLOAD_FACTS, cell)]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    async def load(self, reader: Reader) -> None:
        """Rebuild from quota's own tables."""
        self._forget()
        await self._documents.load(reader)
        await self._records.load(reader, self._core)
        await self._ended.load(reader)
        await self._history.load(reader, self._records.alive.values())
        await self._budgets.load(reader, self._records.alive.values())
        self._core.resume()
        for pending in self._records.alive.values():
            if pending.phase is Phase.OFFERED:
                self._unanswered.append((0, pending, pending.nomination))

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Everything is in memory."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Apply the messages in order, then look once at every queue that they could help."""
        self._outcome = outcome = Outcome()
        self._now_ms = now_ms
        actions, core = self._actions, self._core
        for message in messages:
            action = actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
                if core.decisions:
                    self._tell(message)
        if messages:
            for warned in self._budgets.review(now_ms, self._cell):
                self._emit(warned, warned.team, messages[-1])
            core.settle()
            self._tell(messages[-1])
        outcome.writes.extend(self._records.writes())
        outcome.writes.extend(self._documents.writes())
        outcome.writes.extend(self._ended.writes())
        outcome.writes.extend(self._history.writes())
        outcome.writes.extend(self._budgets.writes())
        self._measure()
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        """Another turn after one that was cut short, overdue answers, and totals to tell."""
        self._begin_waiting(now_ms)
        messages = []
        for kind, due_ms in self._dues():
            if due_ms is not None and due_ms <= now_ms:
                self._turns += 1
                messages.append(deadline_message(kind, self._place, self._turns, now_ms))
        return messages

    def next_due_ms(self) -> int | None:
        """At once when a turn is left, else the first of what is due."""
        return min((due_ms for _, due_ms in self._dues() if due_ms is not None), default=None)

    def _dues(self) -> tuple[tuple[str, int | None], ...]:
        """What is to be done without a message, and when."""
        return (
            ("turn", 0 if self._core.unsettled else None),
            ("answers", self._answer_due_ms()),
            ("ended", self._ended.due_ms()),
            ("usage", self._history.due_ms()),
            ("budgets", self._budgets.due_ms()),
        )

    @property
    def _place(self) -> str:
        return f"cell-{self._cell}"

    def _begin_waiting(self, now_ms: int) -> None:
        """After a restart the wait for answers begins anew."""
        waiting = self._unanswered
        while waiting and not waiting[0][0]:
            _, pending, nomination = waiting.popleft()
            waiting.append((now_ms, pending, nomination))

    def _answer_due_ms(self) -> int | None:
        """When the oldest nomination without an answer is overdue; forgets the answered."""
        waiting = self._unanswered
        while waiting:
            since_ms, pending, nomination = waiting[0]
            if pending.phase is Phase.OFFERED and pending.nomination == nomination:
                return since_ms + ANSWER_WAIT_MS
            waiting.popleft()
        return None

    def _overdue(self, message: Received, fact: DeadlinePassed) -> None:
        if fact.kind == "ended":
            self._tell_ended(message)
        elif fact.kind == "usage":
            for told in self._history.tell(self._now_ms, self._cell):
                self._emit(told, told.queue, message)
        elif fact.kind == "answers":
            self._give_up_answers()

    def _give_up_answers(self) -> None:
        for _ in range(ANSWERS_MAX):
            due_ms = self._answer_due_ms()
            if due_ms is None or due_ms > self._now_ms:
                return
            _, pending, nomination = self._unanswered.popleft()
            self._core.refused(pending, nomination)
            self._records.touch(pending)

    def _tell_ended(self, cause: Received) -> None:
        for team, ended in self._ended.tell(self._now_ms):
            fact = EndedWorkloadsCounted(team=team, ended=ended, cell=self._cell)
            self._emit(fact, team, cause, TEAM_FACTS)

    # ── queue facts ──────────────────────────────────────────────────────────────────────────

    def _queued(self, message: Received, fact: workloads.WorkloadQueued) -> None:  # noqa: ARG002
        identifier = fact.workload.id
        if identifier in self._records.alive:
            return
        early = self._records.take_early(identifier)
        if early is not None and early.gone:
            return
        pending = self._records.add(fact.workload, fact.version)
        if early is not None:
            pending.version, pending.held = early.version, early.held
        self._enter(pending)

    def _with_record(
        self, apply: Callable[[Pending, Any], None]
    ) -> Callable[[Received, Any], None]:
        def act(message: Received, payload: Any) -> None:  # noqa: ANN401, ARG001  # one of many
            pending = self._records.alive.get(payload.workload_id)
            if pending is not None and pending.phase is not Phase.GONE:
                apply(pending, payload)
                self._records.touch(pending)

        return act

    def _cancel(self, pending: Pending, command: workloads.CancelWorkload) -> None:  # noqa: ARG002
        pending.cancelled = True
        self._core.leave(pending)

    def _hold(self, pending: Pending, command: workloads.HoldWorkload) -> None:  # noqa: ARG002
        pending.hold_asked = True
        self._core.leave(pending)

    def _release(self, pending: Pending, command: workloads.ReleaseWorkload) -> None:  # noqa: ARG002
        pending.hold_asked = False
        self._enter(pending)

    def _reprioritise(self, pending: Pending, command: workloads.ReprioritiseWorkload) -> None:
        self._core.reprioritise(pending, command.priority)

    # ── facts of the ledger ──────────────────────────────────────────────────────────────────

    def _fact(
        self, apply: Callable[[Pending, workloads.WorkloadFact], None]
    ) -> Callable[[Received, Any], None]:
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
            apply(pending, fact)
            self._records.touch(pending)

        return act

    def _came_early(self, fact: workloads.WorkloadFact) -> None:
        """Placement read the queue before quota did; nothing was charged yet."""
        known = self._records.early.get(fact.workload_id)
        if known is None or known.version < fact.version:
            held = isinstance(fact, workloads.WorkloadHeld)
            gone = isinstance(fact, _OVER)
            self._records.note_early(fact.workload_id, Early(fact.version, held, gone))

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
        self._core.placed(pending, placement.flavor, amount(placement.charge), fact.attempt)
        pending.placed_at_ms = at_ms
        self._history.change(pending.queue, at_ms, pending.charge[0])
        self._budgets.change(pending, at_ms, 1)

    def _refused(self, message: Received, fact: workloads.PlacementRefused) -> None:  # noqa: ARG002
        pending = self._records.alive.get(fact.workload_id)
        if pending is not None and pending.phase is Phase.OFFERED:
            self._core.refused(pending, fact.nomination)
            self._records.touch(pending)

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

    def _requeued(self, pending: Pending, fact: workloads.WorkloadFact) -> None:  # noqa: ARG002
        pending.held = False
        self._enter(pending)

    def _held(self, pending: Pending, fact: workloads.WorkloadFact) -> None:  # noqa: ARG002
        pending.held = True
        self._core.leave(pending)

    def _ending(self, message: Received, fact: workloads.WorkloadFact) -> None:
        self._ended.count(fact.team)
        self._over_by_fact(message, fact)

    def _over(self, pending: Pending, fact: workloads.WorkloadFact) -> None:  # noqa: ARG002
        self._core.forget(pending)

    def _enter(self, pending: Pending) -> None:
        if pending.eligible and pending.phase is Phase.IDLE:
            self._core.enter(pending)

    # ── limits ───────────────────────────────────────────────────────────────────────────────

    def _limits(
        self, message: Received, applied: organisation.QueueApplied | organisation.CohortApplied
    ) -> None:
        node, problem = self._documents.apply(applied)
        if problem:
            self._complain(problem)
        if node is not None:
            self._emit(self._documents.limits(node, self._cell), node.name, message)

    def _flavor(self, message: Received, flavor: organisation.FlavorApplied) -> None:
        problem = self._documents.apply_flavor(flavor)
        if problem:
            self._complain(problem)
        else:
            alive = self._records.alive.values()
            self._budgets.apply_price(flavor, message.event.time_ms, alive)

    def _team(self, message: Received, team: organisation.TeamApplied) -> None:  # noqa: ARG002
        problems = budget_problems(team.budget) if team.budget is not None else []
        if problems:
            self._complain(f"{team.name}: {problems[0].field} {problems[0].rule}")
        else:
            self._budgets.apply(team)

    def _complain(self, problem: str) -> None:
        metrics.REFUSED_DOCUMENTS.inc()
        _log.warning("document refused, the old one stays", problem=problem[:500])

    # ── decisions become facts ───────────────────────────────────────────────────────────────

    def _tell(self, cause: Received) -> None:
        for decision in self._core.take():
            pending = decision.pending
            if isinstance(decision, Refuse):
                self._emit(self._refusal(decision), pending.id, cause)
                self._counts["refused"] += 1
                continue
            self._records.touch(pending)
            if isinstance(decision, Withdraw):
                fact = NominationWithdrawn(workload_id=pending.id, nomination=decision.nomination)
                self._emit(fact, pending.id, cause)
                self._counts["withdrawn"] += 1
            else:
                self._emit(self._nomination(decision), pending.id, cause)
                self._unanswered.append((self._now_ms, pending, decision.nomination))
                self._counts["nominated"] += 1

    def _nomination(self, decision: Nominate) -> WorkloadNominated:
        pending = decision.pending
        return WorkloadNominated(
            workload=self._records.whole(pending),
            version=pending.version,
            nomination=decision.nomination,
            order_key=pending.key,
            flavors=self._flavors(decision),
            strict=decision.strict,
            within_nominal=decision.within_nominal,
        )

    def _flavors(self, decision: Nominate) -> tuple[PermittedFlavor, ...]:
        """Mostly the same as before: few queues borrow, and hardly anybody waits for evictions."""
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

    def _emit(
        self, payload: Wire, subject: str, cause: Received, topic: Topic = QUOTA_FACTS
    ) -> None:
        self._outcome.emits.append(
            Emit(
                payload=payload,
                topic=topic,
                subject=subject,
                cause=cause,
                partition=self._cell,
            )
        )

    def _measure(self) -> None:
        for kind, count in self._counts.items():
            metrics.DECISIONS.labels(kind).inc(count)
        self._counts.clear()
        metrics.OPEN.set(self._core.open)
        metrics.ALIVE.set(len(self._records.alive))


_OVER: Final = (
    workloads.WorkloadSucceeded,
    workloads.WorkloadFailed,
    workloads.WorkloadCancelled,
)
