"""One attempt in the cluster: what is known of its pods, what to do next, what to tell.

Pure: results, events, lists and the time come in; operations and facts come out. Level-triggered:
`operations` compares the goal with what is known, so it does not matter which message was lost
or how often something was told. What is known of a pod only moves forward, by resource version.

    RUN    create all pods -> bind all -> wait until all ended           PodsBound/Running/Finished
           of another size: create and bind more, or delete the highest  PodsResized, ResizeRefused
    CLEAR  delete what is left, because of an eviction, a refusal        PodsGone, BindRefused,
           or a failed pod -> wait until it is gone                      PodsFinished(failed)
    CLOSE  the last fact is committed: delete the pods that ended, forget the attempt
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from enum import IntEnum
from typing import Any, Final

from shared.events.pods import (
    BindRefused,
    PodFact,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsResized,
    PodsRunning,
    ResizeRefused,
)
from shared.ports.cluster import Operation, Pod, Result

BIND_DEADLINE_MS: Final = 30_000
"""Not all pods bound after so long: the attempt is refused, all of its pods are deleted."""
SETTLE_MS: Final = 200
"""So long `PodsBound` waits for the pods to run, because `PodsRunning` says it too."""
RETRY_MS: Final = 250
FAILED_GRACE_SECONDS: Final = 10
"""For the other pods of a gang in which one failed: time to write down what they have."""

ABSENT, CREATED, BOUND, RUNNING, SUCCEEDED, FAILED, GONE, FOREIGN = range(8)
_PHASES: Final = {"Running": RUNNING, "Succeeded": SUCCEEDED, "Failed": FAILED}
_NOT_THERE: Final = frozenset((ABSENT, GONE, FOREIGN))
_OVER: Final = _NOT_THERE | {SUCCEEDED, FAILED}
_OK, _CREATED, _NOT_FOUND, _CONFLICT = 200, 201, 404, 409
_RETRY: Final = frozenset((408, 425, 429, 500, 502, 503, 504))


class Goal(IntEnum):
    """What the cluster is to be brought to."""

    RUN = 0
    CLEAR = 1
    CLOSE = 2


class Told(IntEnum):
    """The last fact that was told; the same order as the states of an attempt."""

    NOTHING = 0
    BOUND = 1
    RUNNING = 2
    END = 3


class Noted(IntEnum):
    """Whether it is committed that all pods of an evicted attempt had ended well.

    Their deletion waits for it: afterwards nothing could tell any more.
    """

    NO = 0
    ASKED = 1
    YES = 2


Key = tuple[str, int]


class Gang:
    """See the module. `pods` are what to create; empty once that is done and committed."""

    __slots__ = (
        "cell", "correlation_id", "deadline_ms", "deleting", "ended_well", "goal",
        "grace_seconds", "in_flight", "key", "marks", "not_before_ms", "noted", "outcome", "pods",
        "resizing", "setback", "settle_at_ms", "size", "size_before", "told", "uids",
        "unknown_round", "versions",
    )  # fmt: skip

    def __init__(
        self,
        *,
        workload_id: str,
        attempt: int,
        size: int,
        pods: tuple[Pod, ...] = (),
        cell: int = 0,
        told: Told = Told.NOTHING,
        correlation_id: str = "",
    ) -> None:
        self.key: Key = (workload_id, attempt)
        self.cell = cell
        self.pods = pods
        self.told = told
        self.correlation_id = correlation_id
        self.goal = Goal.RUN
        self.outcome: PodFact | None = None
        """In CLEAR, what to tell once it is done; None stands for PodsGone."""
        self.grace_seconds = 0
        self.size = self.size_before = size
        """Ranks from `size` on are to go; the lists below keep their length."""
        self.resizing = 0
        """Number of the resize that is not told yet."""
        self.setback: tuple[str, str, str] | None = None
        """Reason, message and node for which a growth was given up."""
        self.uids = [""] * size
        self.marks = [ABSENT if told is Told.NOTHING else BOUND] * size
        self.versions = [0] * size
        self.deleting: set[int] = set()
        """Ranks whose deletion was accepted and not yet seen."""
        self.ended_well = 0
        """A bit for each rank that was seen to succeed."""
        self.noted = Noted.NO
        self.in_flight = False
        self.unknown_round = 0
        """After a lost reply nothing is assumed until the list of this round; 0: all known."""
        self.not_before_ms = 0
        self.deadline_ms = 0
        self.settle_at_ms = 0

    # ── what to do ───────────────────────────────────────────────────────────

    def operations(self, now_ms: int) -> list[tuple[int, Operation]]:
        """The next operations with their ranks; empty while waiting for something."""
        if self.in_flight or self.unknown_round or now_ms < self.not_before_ms:
            return []
        if self.goal is not Goal.RUN or self._surplus():
            return list(self._deletes())
        low = self._low()
        if low >= BOUND:
            return []
        return self._creates() if low == ABSENT else self._binds()

    def _creates(self) -> list[tuple[int, Operation]]:
        return [
            (rank, Operation(verb="create", name=pod.name, pod=pod))
            for rank, pod in enumerate(self.pods)
            if self.marks[rank] == ABSENT
        ]

    def _binds(self) -> list[tuple[int, Operation]]:
        return [
            (rank, Operation(verb="bind", name=pod.name, uid=self.uids[rank], node=pod.node))
            for rank, pod in enumerate(self.pods)
            if self.marks[rank] == CREATED
        ]

    def _deletes(self) -> Iterator[tuple[int, Operation]]:
        keep = _OVER if isinstance(self.outcome, PodsFinished) else _NOT_THERE
        spared = keep if self.goal is Goal.CLEAR else _NOT_THERE
        if self._to_be_noted():
            return
        first = self.size if self.goal is Goal.RUN else 0
        for rank, mark in enumerate(self.marks[first:], first):
            if mark not in spared and self.uids[rank] and rank not in self.deleting:
                name = pod_name(self.key, rank)
                uid, grace = self.uids[rank], self.grace_seconds
                yield rank, Operation(verb="delete", name=name, uid=uid, grace_seconds=grace)

    def _surplus(self) -> bool:
        """Whether a pod that is to go is still there."""
        return any(mark not in _NOT_THERE for mark in self.marks[self.size :])

    def _low(self) -> int:
        """The mark of that pod which is furthest behind."""
        return min(self.marks if len(self.marks) == self.size else self.marks[: self.size])

    def over(self) -> bool:
        """Whether nothing is left to do or to wait for, so that it can be forgotten."""
        return self.goal is Goal.CLOSE and not self.in_flight and not any(self._deletes())

    # ── what to tell ─────────────────────────────────────────────────────────

    def fact(self, now_ms: int) -> PodFact | None:
        """The next fact to tell, once; in RUN only the furthest of those that are true."""
        if self.told is Told.END or self.goal is Goal.CLOSE:
            return None
        return self._fact_of_run(now_ms) if self.goal is Goal.RUN else self._fact_of_clear(now_ms)

    def _fact_of_clear(self, now_ms: int) -> PodFact | None:
        if self._cleared():
            return self._end(now_ms)
        if self._to_be_noted() and self.noted is Noted.NO:
            self.noted = Noted.ASKED
            return PodsFinished(succeeded=True, **self._who(now_ms))
        return None

    def _fact_of_run(self, now_ms: int) -> PodFact | None:
        if self.resizing:
            return self._fact_of_resize(now_ms)
        low = self._low()
        if low == SUCCEEDED == max(self.marks[: self.size]):
            self.told = Told.END
            return PodsFinished(succeeded=True, **self._who(now_ms))
        if self.told < Told.RUNNING and low >= RUNNING:
            self.told = Told.RUNNING
            return PodsRunning(**self._who(now_ms))
        if self.told < Told.BOUND and low >= BOUND and now_ms >= self.settle_at_ms:
            self.told = Told.BOUND
            return PodsBound(**self._who(now_ms))
        return None

    def _fact_of_resize(self, now_ms: int) -> PodFact | None:
        if self.in_flight or self.unknown_round or self._surplus() or not self.bound():
            return None
        number, self.resizing = self.resizing, 0
        if self.setback is None:
            return PodsResized(number=number, pods=self.size, **self._who(now_ms))
        reason, message, node = self.setback
        return ResizeRefused(
            number=number, reason=reason, message=message, node=node, **self._who(now_ms)
        )

    def bound(self) -> bool:
        """Whether all pods are on their nodes."""
        return self._low() >= BOUND

    def _cleared(self) -> bool:
        if self.in_flight or self.unknown_round:
            return False
        done = _OVER if isinstance(self.outcome, PodsFinished) else _NOT_THERE
        return all(mark in done for mark in self.marks)

    def _end(self, now_ms: int) -> PodFact:
        self.told = Told.END
        if self.outcome is not None:
            return self.outcome
        return PodsGone(succeeded=self._all_well(), **self._who(now_ms))

    def _all_well(self) -> bool:
        everybody = (1 << self.size) - 1
        return everybody > 0 and self.ended_well & everybody == everybody

    def _to_be_noted(self) -> bool:
        evicted = self.goal is Goal.CLEAR and self.outcome is None
        return evicted and self.noted is not Noted.YES and self._all_well()

    def _who(self, now_ms: int) -> dict[str, Any]:
        return {
            "workload_id": self.key[0],
            "attempt": self.key[1],
            "at_ms": now_ms,
            "cell": self.cell,
        }

    # ── what came in ─────────────────────────────────────────────────────────

    def evict(self, grace_seconds: int) -> None:
        """Delete everything and answer PodsGone, whatever was going on."""
        self.goal = Goal.CLEAR
        self.outcome = None
        self.grace_seconds = grace_seconds
        self.told = min(self.told, Told.RUNNING)

    def resize(self, number: int, pods: tuple[Pod, ...], grace_seconds: int) -> None:
        """Have `pods`, which are ranks 0..n-1, and none above; a rank may come back."""
        self.resizing, self.setback = number, None
        self.pods, self.grace_seconds = pods, grace_seconds
        self.size_before, self.size = self.size, len(pods)
        lacking = self.size - len(self.marks)
        self.marks += [ABSENT] * lacking
        self.uids += [""] * lacking
        self.versions += [0] * lacking
        for rank in range(self.size_before, self.size):
            self.marks[rank], self.uids[rank] = ABSENT, ""
            self.deleting.discard(rank)
            self.ended_well &= ~(1 << rank)

    def note(self) -> None:
        """It is committed that all pods ended well."""
        self.ended_well = (1 << len(self.marks)) - 1
        self.noted = Noted.YES

    def close(self) -> None:
        """The last fact is committed: only leftovers are to be deleted."""
        self.goal = Goal.CLOSE
        self.told = Told.END

    def expire(self, now_ms: int) -> None:
        """Refuse the attempt if it is not bound by its deadline."""
        if self.goal is Goal.RUN and now_ms >= self.deadline_ms and not self.bound():
            message = f"not all pods were bound within {BIND_DEADLINE_MS // 1000} s"
            self._refuse(self.size - 1, "BindTimeout", message, "", now_ms)

    def _refuse(self, rank: int, reason: str, message: str, node: str, now_ms: int) -> None:
        """Give up the attempt, or only its growth if the pod came with that."""
        if self.resizing and rank >= self.size_before:
            self._set_back(reason, message, node)
        else:
            self.refuse(reason, message, node, now_ms)

    def _set_back(self, reason: str, message: str, node: str) -> None:
        """Delete the pods that were to be added, then tell ResizeRefused."""
        if self.goal is Goal.RUN and self.setback is None:
            self.setback = (reason, message, node)
            self.size = self.size_before

    def refuse(self, reason: str, message: str, node: str, now_ms: int) -> None:
        """Give up binding: delete all pods, then tell BindRefused."""
        if self.goal is Goal.RUN:
            self.goal = Goal.CLEAR
            self.outcome = BindRefused(
                reason=reason, message=message, node=node, **self._who(now_ms)
            )

    def answered(self, rank: int, operation: Operation, result: Result, now_ms: int) -> None:
        """Take in the answer to one operation."""
        if result.status in _RETRY or (result.status == _CONFLICT and result.pod is None):
            self.not_before_ms = now_ms + RETRY_MS
        elif operation.verb == "create":
            self._created(rank, result, now_ms)
        elif operation.verb == "bind":
            self._bound(rank, operation, result, now_ms)
        elif result.status == _OK:
            self.deleting.add(rank)
        else:  # 404, or 409 because the name has another uid by now: ours is gone
            self._mark(rank, GONE)

    def _created(self, rank: int, result: Result, now_ms: int) -> None:
        pod = result.pod
        if pod is None:
            self._refuse(rank, result.reason, f"create answered {result.status}", "", now_ms)
        elif result.status == _CREATED or self._is_ours(pod, rank):
            self.observed("ADDED", pod, now_ms)
        else:
            self._mark(rank, FOREIGN)
            message = f"{pod.name} belongs to somebody else"
            self._refuse(rank, "NameTaken", message, pod.node, now_ms)

    def _is_ours(self, pod: Pod, rank: int) -> bool:
        same = (pod.workload_id, pod.attempt, pod.rank) == (*self.key, rank)
        return same and pod.epoch <= self.pods[rank].epoch

    def _bound(self, rank: int, operation: Operation, result: Result, now_ms: int) -> None:
        pod = result.pod
        if result.status == _CREATED:
            self._mark(rank, BOUND)
        elif pod is not None and pod.uid == operation.uid and pod.node == operation.node:
            self.observed("MODIFIED", pod, now_ms)
        else:
            if result.status == _NOT_FOUND:
                self._mark(rank, GONE)
            place = f", it is on {pod.node}" if pod is not None and pod.node else ""
            message = f"bind of {operation.name} to {operation.node}: {result.reason}{place}"
            reason = result.reason or "BindFailed"
            self._refuse(rank, reason, message, operation.node, now_ms)

    def observed(self, kind: str, pod: Pod, now_ms: int) -> bool:
        """Take in a pod as the cluster showed it; False when that is no news."""
        rank = pod.rank
        if not 0 <= rank < len(self.marks) or pod.resource_version <= self.versions[rank]:
            return False
        known = self.uids[rank]
        if known and known != pod.uid:
            if kind == "DELETED":
                return False
            message = f"{pod.name} was made anew by somebody else"
            self._refuse(rank, "UidChanged", message, "", now_ms)
            self.marks[rank] = CREATED
            self.deleting.discard(rank)
        self.versions[rank] = pod.resource_version
        self.uids[rank] = pod.uid
        mark = _PHASES.get(pod.phase, BOUND if pod.node else CREATED)
        if mark == SUCCEEDED:
            self.ended_well |= 1 << rank
        if kind == "DELETED":
            mark = GONE
        self._mark(rank, mark)
        if self.goal is Goal.RUN and rank < self.size:
            self._check(rank, pod, mark, now_ms)
        return True

    def _check(self, rank: int, pod: Pod, mark: int, now_ms: int) -> None:
        if self.pods and pod.node not in ("", self.pods[rank].node):
            message = f"{pod.name} is on {pod.node}"
            self._refuse(rank, "BoundElsewhere", message, pod.node, now_ms)
        elif mark == GONE:
            self._vanished(rank, pod.reason or "PodLost", pod.node, now_ms)
        elif mark == FAILED:
            self._lose(rank, pod.reason or "PodFailed", pod.node, now_ms)

    def _vanished(self, rank: int, reason: str, node: str, now_ms: int) -> None:
        """Before anything was told it is a bind that did not hold, later a run that was lost."""
        if self.told:
            self._lose(rank, reason, node, now_ms)
        else:
            name = pod_name(self.key, rank)
            self.refuse(reason, f"{name} vanished before it ran", node, now_ms)

    def _lose(self, rank: int, reason: str, node: str, now_ms: int) -> None:
        """A pod failed or vanished: delete the rest, then tell PodsFinished(succeeded=False)."""
        name = pod_name(self.key, rank)
        if self.resizing and rank >= self.size_before:
            self._set_back(reason, f"pod {name}: {reason}", node)
        elif self.goal is Goal.RUN:
            self.goal = Goal.CLEAR
            self.grace_seconds = FAILED_GRACE_SECONDS
            self.outcome = PodsFinished(
                succeeded=False,
                reason=reason,
                message=f"pod {name}: {reason}",
                **self._who(now_ms),
            )

    def listed(self, uids: Container[str], version: int, list_round: int, now_ms: int) -> bool:
        """Take in a whole list as of `version`: what is known and not in it is gone.

        False when that changes nothing for this gang.
        """
        changed = self.goal is not Goal.RUN or self.unknown_round > 0
        if list_round >= self.unknown_round:
            self.unknown_round = 0
        self.deleting.clear()
        for rank, uid in enumerate(self.uids):
            if self.marks[rank] in _NOT_THERE or uid in uids or self.versions[rank] > version:
                continue
            changed = True
            self._mark(rank, GONE)
            if self.goal is Goal.RUN and rank < self.size:
                self._vanished(rank, "PodLost", "", now_ms)
        return changed

    def _mark(self, rank: int, mark: int) -> None:
        self.marks[rank] = max(self.marks[rank], mark)


def pod_name(key: Key, rank: int) -> str:
    """The one name that a pod can have: it makes creating idempotent."""
    return f"{key[0]}-{key[1]}-{rank}"
