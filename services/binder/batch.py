"""What one call of the binder's `decide` comes to: rows, facts, and what follows a commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from services.binder.actuator import Actuator
from services.binder.answers import beyond, last_fact, resize_fact
from services.binder.attempts import (
    ANSWERED,
    FINISHED,
    REFUSED,
    STATES,
    Attempt,
    BinderMemory,
    fence,
    gang_of,
    insert,
    update,
)
from services.binder.gang_state import Key
from services.binder.metrics import FACTS
from shared.core.model.reason import Reason
from shared.events.envelope import Received
from shared.events.pods import (
    AskAttempts,
    BindRefused,
    BindWorkload,
    EvictPods,
    PodDevicesTold,
    PodFact,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsPulled,
    PodsPulling,
    PodsResized,
    PodsRunning,
    PodsUnstarted,
    ResizePods,
    ResizeRefused,
)
from shared.events.topics import POD_FACTS
from shared.ports.cluster import GRACE_SECONDS_MIN, Pod, PodTemplate
from shared.runtime.handler import Emit, Outcome

_STATE_AFTER: Final[dict[type[PodFact], str]] = {
    PodsBound: "bound",
    PodsRunning: "running",
    PodsFinished: FINISHED,
    PodsGone: ANSWERED,
    BindRefused: REFUSED,
}
_ORDER: Final = {state: place for place, state in enumerate(STATES)}
_LAST: Final = len(STATES)
NO_TEMPLATE: Final = PodTemplate()

log = structlog.get_logger("binder")


class RowBatch:
    """Every row is written once, in its last state."""

    def __init__(
        self,
        memory: BinderMemory,
        over: dict[Key, Attempt],
        after_commit: list[Callable[[], None]],
        actuator: Actuator,
    ) -> None:
        self._memory = memory
        self._over = over
        self._after_commit = after_commit
        self._actuator = actuator
        self._outcome = Outcome()
        self._inserted: dict[Key, tuple[Attempt, tuple[Pod, ...]]] = {}
        self._updated: dict[Key, Attempt] = {}
        self._epochs: dict[int, int] = {}

    def bind(self, command: BindWorkload, cause: Received) -> None:
        """Record a new attempt; one that is known, or was evicted before, is left alone."""
        key = (command.workload_id, command.attempt)
        if not command.placement.pods:
            self._outcome.dead.append((cause, "placement.pods: must not be empty"))
        elif self._fresh(command.cell, command.epoch, key):
            if key in self._memory.attempts or key in self._memory.never_bound:
                return
            pods = pods_of(command)
            attempt = Attempt(
                workload_id=command.workload_id,
                attempt=command.attempt,
                cell=command.cell,
                epoch=command.epoch,
                team=command.team,
                state=STATES[0],
                size=len(pods),
            )
            self._memory.attempts[key] = attempt
            self._inserted[key] = (attempt, pods)
            gang = gang_of(attempt, pods, cause.event.correlation_id or cause.event.id)
            self._after_commit.append(lambda: self._actuator.add(gang))

    def evict(self, command: EvictPods, cause: Received) -> None:
        """Mark for deletion; what has no pods is answered at once."""
        key = (command.workload_id, command.attempt)
        if not self._fresh(command.cell, command.epoch, key):
            return
        attempt = self._memory.attempts.get(key)
        if attempt is not None:
            if command.reason is Reason.BIND_TIMEOUT and not attempt.evicting:
                self._tell_unstarted(command, cause)
            attempt.evicting = True
            attempt.grace_seconds = command.grace_seconds
            fenced = attempt.fenced_nodes = _joined(attempt.fenced_nodes, command.fenced_nodes)
            self._touch(attempt)
            grace = command.grace_seconds
            self._after_commit.append(lambda: self._actuator.evict(key, grace, fenced))
            return
        if key in self._memory.never_bound:
            return
        over = self._over.get(key)
        if over is None:
            self._never_bound(command.epoch, command.cell, key)
        elif over.state == ANSWERED:
            return
        else:
            over.state = ANSWERED
            self._touch(over)
        self._tell_gone(command.cell, key, cause, succeeded=over is not None and over.succeeded)

    def ask(self, question: AskAttempts, cause: Received) -> None:
        """Tell of each attempt what is known beyond what is known to placement."""
        for one in question.attempts:
            key = (one.workload_id, one.attempt)
            if not self._fresh(question.cell, question.epoch, key):
                return
            attempt = self._memory.attempts.get(key) or self._over.get(key)
            if attempt is None:
                self._never_bound(question.epoch, question.cell, key)
                self._tell_gone(question.cell, key, cause, succeeded=False)
            elif beyond(attempt, one.state):
                self._emit(last_fact(attempt, cause.event.time_ms), cause)
            elif one.resize and not attempt.resizing and not attempt.evicting:
                self._emit(resize_fact(attempt, one, cause.event.time_ms), cause)

    def _tell_gone(self, cell: int, key: Key, cause: Received, *, succeeded: bool) -> None:
        fact = PodsGone(
            workload_id=key[0],
            attempt=key[1],
            at_ms=cause.event.time_ms,
            cell=cell,
            succeeded=succeeded,
        )
        self._emit(fact, cause)

    def _tell_unstarted(self, command: EvictPods, cause: Received) -> None:
        """Which pods kept it from running, as far as this process has seen them."""
        ranks = self._actuator.unstarted((command.workload_id, command.attempt))
        if ranks:
            fact = PodsUnstarted(
                workload_id=command.workload_id,
                attempt=command.attempt,
                at_ms=cause.event.time_ms,
                cell=command.cell,
                ranks=ranks,
            )
            self._emit(fact, cause)

    def resize(self, command: ResizePods, cause: Received) -> None:
        """Note the wanted size of an attempt that runs; one that is ending is left to end."""
        key = (command.workload_id, command.attempt)
        if not command.placement.pods:
            self._outcome.dead.append((cause, "placement.pods: must not be empty"))
            return
        attempt = self._memory.attempts.get(key)
        if not self._fresh(command.cell, command.epoch, key) or attempt is None:
            return
        if attempt.evicting:
            return
        pods, number, grace = pods_of(command), command.number, command.grace_seconds
        attempt.resizing, attempt.pods_before = number, attempt.size
        attempt.size, attempt.wanted, attempt.grace_seconds = len(pods), pods, grace
        self._touch(attempt)
        self._after_commit.append(lambda: self._actuator.resize(key, number, pods, grace))

    def _never_bound(self, epoch: int, cell: int, key: Key) -> None:
        """A command to bind it that comes later is passed over."""
        if key in self._memory.never_bound:
            return
        attempt = Attempt(
            workload_id=key[0],
            attempt=key[1],
            cell=cell,
            epoch=epoch,
            team="",
            state=ANSWERED,
            size=0,
            active=False,
        )
        self._inserted[attempt.key] = (attempt, ())
        self._memory.never_bound.add(attempt.key)

    def observe(self, fact: PodFact, cause: Received) -> None:
        """Tell a fact unless the row says that it was told, or that another one is wanted."""
        key = (fact.workload_id, fact.attempt)
        attempt = self._memory.attempts.get(key)
        if attempt is None:
            return
        if attempt.evicting and not isinstance(fact, PodsGone):
            self._note(attempt, fact)
            return
        if isinstance(fact, (PodsResized, ResizeRefused)):
            self._resized(attempt, fact, cause)
            return
        if isinstance(fact, (PodsPulling, PodsPulled, PodDevicesTold)):
            self._emit(fact, cause)
            return
        after = _STATE_AFTER[type(fact)]
        if _ORDER.get(after, _LAST) <= _ORDER[attempt.state]:
            return
        attempt.state = after
        self._touch(attempt)
        if after not in _ORDER:
            attempt.active = False
            attempt.reason = getattr(fact, "pod_reason", "")
            attempt.succeeded = getattr(fact, "succeeded", False)
            self._over[key] = self._memory.attempts.pop(key)
            self._after_commit.append(lambda: self._actuator.close(key))
        else:
            self._after_commit.append(lambda: self._actuator.settled(key))
        self._emit(fact, cause)

    def _resized(
        self, attempt: Attempt, fact: PodsResized | ResizeRefused, cause: Received
    ) -> None:
        if fact.number != attempt.resizing:
            return
        if isinstance(fact, ResizeRefused):
            attempt.size = attempt.pods_before
        attempt.resizing, attempt.wanted = 0, ()
        self._touch(attempt)
        key = attempt.key
        self._after_commit.append(lambda: self._actuator.settled(key))
        self._emit(fact, cause)

    def _note(self, attempt: Attempt, fact: PodFact) -> None:
        """An eviction is answered by PodsGone alone; that all ended well goes into the row."""
        if isinstance(fact, PodsFinished) and fact.succeeded:
            attempt.succeeded = True
            self._touch(attempt)
            key = attempt.key
            self._after_commit.append(lambda: self._actuator.note(key))

    def finished(self, now_ms: int) -> Outcome:
        """The outcome with its writes."""
        for kind, count in Counter(type(one.payload) for one in self._outcome.emits).items():
            FACTS.labels(kind.__name__).inc(count)
        writes = self._outcome.writes
        if self._inserted:
            writes += insert(list(self._inserted.values()), now_ms)
        if self._updated:
            writes += update(self._updated.values(), now_ms)
        writes += [fence(cell, epoch) for cell, epoch in self._epochs.items()]
        return self._outcome

    def _fresh(self, cell: int, epoch: int, key: Key) -> bool:
        """Whether a command is of the newest placement; an older one has lost its lease."""
        highest = self._memory.epochs.get(cell, 0)
        if epoch > highest:
            self._memory.epochs[cell] = self._epochs[cell] = epoch
        elif epoch < highest:
            log.warning("command of an old epoch", attempt=key, epoch=epoch, highest=highest)
            return False
        return True

    def _touch(self, attempt: Attempt) -> None:
        if attempt.key not in self._inserted:
            self._updated[attempt.key] = attempt

    def _emit(self, fact: PodFact, cause: Received) -> None:
        self._outcome.emits.append(
            Emit(
                payload=fact,
                topic=POD_FACTS,
                subject=fact.workload_id,
                cause=cause,
                partition=fact.cell,
            )
        )


def _joined(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*known, *more}))


def pods_of(command: BindWorkload | ResizePods) -> tuple[Pod, ...]:
    """The pods to create, in order of rank; `rank` of a pod is dense from 0."""
    placed = sorted(command.placement.pods, key=lambda pod: pod.rank)
    templates = {
        pod_set.name: PodTemplate(
            pod_set=pod_set,
            service_account=command.service_account,
            grace_seconds=max(command.grace_seconds, GRACE_SECONDS_MIN),
            labels=command.labels,
        )
        for pod_set in command.pod_sets
    }
    prefix = f"{command.workload_id}-{command.attempt}-"
    return tuple(
        Pod(
            name=f"{prefix}{rank}",
            namespace=command.namespace or command.team,
            workload_id=command.workload_id,
            attempt=command.attempt,
            rank=rank,
            size=len(placed),
            epoch=command.epoch,
            team=command.team,
            node=pod.node,
            shares=pod.shares,
            template=templates.get(pod.pod_set, NO_TEMPLATE),
            duration_seconds=command.expected_duration_seconds,
            group=command.pod_group if isinstance(command, BindWorkload) else "",
        )
        for rank, pod in enumerate(placed)
    )
