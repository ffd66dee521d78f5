"""One attempt in the cluster: what comes in, and what that makes of it.

Pure: results, events, lists and the time come in; operations (`gang_operations.py`) and facts
(`gang_facts.py`) are made from what is known (`gang_state.py`). What is known of a pod only moves
forward, by resource version.

    RUN    create all pods -> pin those that name devices -> bind all    PodsBound/Running/Finished
           -> wait until all ended
           of another size: create and bind more, or delete the highest  PodsResized, ResizeRefused
    CLEAR  delete what is left, because of an eviction, a refusal        PodsGone, BindRefused,
           or a failed pod -> wait until it is gone                      PodsFinished(failed)
    CLOSE  the last fact is committed: delete the pods that ended, forget the attempt
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from services.binder.create_refusals import refusal_of
from services.binder.gang_state import (
    ABSENT,
    BOUND,
    CREATED,
    FAILED,
    FOREIGN,
    GONE,
    NOT_THERE,
    OVER,
    PINNED,
    POD_LOST,
    RUNNING,
    SUCCEEDED,
    GangState,
    Noted,
    PodsGoal,
    ToldFact,
)
from shared.core.nodes.pod_failures import FailureCause, cause_of_failure, never_starts
from shared.events.pods import BindRefused, PodsFinished
from shared.ports.cluster import Pod, PodOperation, PodResult

BIND_DEADLINE_MS: Final = 30_000
"""Not all pods bound so long after the first request: the attempt is refused, its pods go."""
ADOPT_MS: Final = 3_000
"""So long pods of others that are not there (yet) are waited for."""
SETTLE_MS: Final = 200
"""So long `PodsBound` waits for the pods to run, because `PodsRunning` says it too."""
RETRY_MS: Final = 250
RETRY_MAX_MS: Final = 5_000
"""What is refused until it is mended is tried ever less often, up to this."""
DELETE_AGAIN_MS: Final = 30_000
"""So long after its grace a pod is asked to go again once its deletion was accepted."""
FAILED_GRACE_SECONDS: Final = 10
"""For the other pods of a gang in which one failed: time to write down what they have."""
_PHASES: Final = {"Running": RUNNING, "Succeeded": SUCCEEDED, "Failed": FAILED}
_OK, _CREATED, _UNAUTHORISED, _NOT_FOUND, _CONFLICT = 200, 201, 401, 404, 409
_REFUSED: Final = frozenset((400, 403, 422))
_RETRY: Final = frozenset((408, 425, 429, 500, 502, 503, 504))


class BoundGang(GangState):
    """See the module."""

    __slots__ = ()

    # ── commands, and what is committed ──────────────────────────────────────

    def evict(self, grace_seconds: int, fenced_nodes: Iterable[str] = ()) -> None:
        """Delete everything and answer PodsGone, whatever was going on.

        From `fenced_nodes` pods go without their kubelets.
        """
        self.fenced_nodes = frozenset(fenced_nodes)
        self.goal = PodsGoal.CLEAR
        self.outcome = None
        if grace_seconds < self.grace_seconds:
            self.deleting.clear()
        self.grace_seconds = grace_seconds
        self.told = min(self.told, ToldFact.RUNNING)

    def resize(self, number: int, pods: tuple[Pod, ...], grace_seconds: int) -> None:
        """Have `pods`, which are ranks 0..n-1, and none above; a rank may come back."""
        self.resizing, self.setback, self.deadline_ms = number, None, 0
        self.pods, self.grace_seconds = pods, grace_seconds
        self.size_before, self.size = self.size, len(pods)
        lacking = self.size - len(self.marks)
        self.marks += [ABSENT] * lacking
        self.uids += [""] * lacking
        self.versions += [0] * lacking
        for rank in range(self.size_before, self.size):
            self.marks[rank], self.uids[rank] = ABSENT, ""
            self.deleting.pop(rank, None)
            self.ended_well &= ~(1 << rank)

    def note(self) -> None:
        """It is committed that all pods ended well."""
        self.ended_well = (1 << len(self.marks)) - 1
        self.noted = Noted.YES

    def close(self) -> None:
        """The last fact is committed: only leftovers are to be deleted."""
        self.goal = PodsGoal.CLOSE
        self.told = ToldFact.END

    def expire(self, now_ms: int) -> None:
        """Refuse the attempt if it is not bound by its deadline."""
        if self.goal is PodsGoal.RUN and 0 < self.deadline_ms <= now_ms and not self.bound():
            message = f"not all pods were bound within {BIND_DEADLINE_MS // 1000} s"
            if self.hindrance:
                message += f": {self.hindrance}"
            self.unstarted = () if self.resizing else self.behind(BOUND)
            self._refuse(self.size - 1, "BindTimeout", message, "", now_ms)

    def _refuse(self, rank: int, reason: str, message: str, node: str, now_ms: int) -> None:
        """Give up the attempt, or only its growth if the pod came with that."""
        if self.resizing and rank >= self.size_before:
            self._set_back(reason, message, node)
        else:
            self.refuse(reason, message, node, now_ms)

    def _set_back(self, reason: str, message: str, node: str) -> None:
        """Delete the pods that were to be added, then tell ResizeRefused."""
        if self.goal is PodsGoal.RUN and self.setback is None:
            self.setback = (reason, message, node)
            self.size = self.size_before

    def refuse(self, reason: str, message: str, node: str, now_ms: int) -> None:
        """Give up binding: delete all pods, then tell BindRefused."""
        if self.goal is PodsGoal.RUN:
            self.goal = PodsGoal.CLEAR
            self.outcome = BindRefused(
                reason=reason,
                message=message,
                node=node,
                unstarted=self.unstarted,
                ends=self.never,
                **self.who(now_ms),
            )

    # ── what the cluster answered and showed ─────────────────────────────────

    def answered(self, rank: int, operation: PodOperation, result: PodResult, now_ms: int) -> None:
        """Take in the answer to one operation; an expired token is renewed elsewhere."""
        if result.status == _UNAUTHORISED:
            self._try_ever_later(now_ms)
        elif result.status in _RETRY or (result.status == _CONFLICT and result.pod is None):
            self.not_before_ms = now_ms + RETRY_MS
            self.hindrance = result.message
        elif operation.verb in ("create", "adopt"):
            self._created(rank, operation, result, now_ms)
        elif operation.verb == "pin":
            self._pinned(rank, operation, result, now_ms)
        elif operation.verb == "bind":
            self._bound(rank, operation, result, now_ms)
        elif operation.verb == "release" and result.status == _OK:
            self.advance(rank, GONE)
            self.refusals = 0
        elif result.status == _OK:
            accepted = self.forcing if operation.verb == "force_delete" else self.deleting
            accepted[rank] = now_ms + operation.grace_seconds * 1000 + DELETE_AGAIN_MS
            self.refusals = 0
        elif _says_gone(operation, result):
            self.advance(rank, GONE)
        else:  # refused, as 403 is: the pod is still there and keeps its devices
            self._try_ever_later(now_ms)

    def _try_ever_later(self, now_ms: int) -> None:
        """Once for all operations that were answered together."""
        if self.not_before_ms <= now_ms:
            self.not_before_ms = now_ms + min(RETRY_MS << self.refusals, RETRY_MAX_MS)
            self.refusals = min(self.refusals + 1, RETRY_MAX_MS.bit_length())

    def _created(self, rank: int, operation: PodOperation, result: PodResult, now_ms: int) -> None:
        pod = result.pod
        self.refusals = 0
        if operation.verb == "adopt" and result.status == _NOT_FOUND:
            self._wait_for_pods(result, now_ms)
        elif pod is None:
            refusal = refusal_of(result)
            grows = self.resizing and rank >= self.size_before
            self.never = self.never or (refusal.ends and not grows)
            self._refuse(rank, refusal.reason, refusal.message, "", now_ms)
        elif result.status == _CREATED or self._is_ours(pod, rank):
            self.observed("ADDED", pod, now_ms)
        else:
            self.advance(rank, FOREIGN)
            message = f"{pod.name} belongs to somebody else"
            self._refuse(rank, "NameTaken", message, pod.node, now_ms)

    def _wait_for_pods(self, result: PodResult, now_ms: int) -> None:
        """A moment, as what it holds is wanted by others; their controller may take minutes."""
        if now_ms - (self.deadline_ms - BIND_DEADLINE_MS) < ADOPT_MS:
            self.not_before_ms, self.hindrance = now_ms + RETRY_MS, result.message
        else:
            self.refuse(result.reason, result.message, "", now_ms)

    def _is_ours(self, pod: Pod, rank: int) -> bool:
        same = (pod.workload_id, pod.attempt, pod.rank) == (*self.key, rank)
        return same and pod.epoch <= self.pods[rank].epoch

    def _pinned(self, rank: int, operation: PodOperation, result: PodResult, now_ms: int) -> None:
        self.refusals = 0
        if result.status == _OK:
            self.advance(rank, PINNED)
            return
        if result.status == _NOT_FOUND:
            self.advance(rank, GONE)
        reason = result.reason or "PinFailed"
        message = f"devices of {operation.name} on {operation.node}: {result.message or reason}"
        self._refuse(rank, reason, message, operation.node, now_ms)

    def _bound(self, rank: int, operation: PodOperation, result: PodResult, now_ms: int) -> None:
        pod = result.pod
        self.refusals = 0
        if result.status == _CREATED:
            self.advance(rank, BOUND)
        elif result.status in _REFUSED:
            refusal = refusal_of(result)
            self._refuse(rank, refusal.reason, refusal.message, "", now_ms)
        elif pod is not None and pod.uid == operation.uid and pod.node == operation.node:
            self.observed("MODIFIED", pod, now_ms)
        elif pod is not None and pod.uid == operation.uid and not (pod.node or pod.deleting):
            self.not_before_ms = now_ms + RETRY_MS
        else:
            if result.status == _NOT_FOUND:
                self.advance(rank, GONE)
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
            self.deleting.pop(rank, None)
        self.versions[rank] = pod.resource_version
        self.uids[rank], self.namespace = pod.uid, pod.namespace
        self.note_name(rank, pod)
        mark = _PHASES.get(pod.phase) or _mark_of_pending(pod)
        if mark == SUCCEEDED and not pod.deleting:
            self.ended_well |= 1 << rank
        mark = GONE if kind == "DELETED" else mark
        self.advance(rank, mark)
        if pod.deleting and pod.node and mark not in OVER:
            self.stopping[rank] = pod.node
        else:
            self.stopping.pop(rank, None)
        if mark in OVER:
            self.allocated.ended(rank)
        else:
            self.allocated.saw(rank, pod.allocated)
        if pod.pulling and mark == BOUND:
            self.pulling.add(rank)
        else:
            self.pulling.discard(rank)
        if self.goal is PodsGoal.RUN and rank < self.size:
            self._check(rank, pod, mark, now_ms)
        return True

    def _check(self, rank: int, pod: Pod, mark: int, now_ms: int) -> None:
        if self.pods and pod.node not in ("", self.pods[rank].node):
            message = f"{pod.name} is on {pod.node}"
            self._refuse(rank, "BoundElsewhere", message, pod.node, now_ms)
        elif mark == GONE:
            self._vanished(rank, pod.reason or POD_LOST, pod, now_ms)
        elif mark == FAILED or (mark == SUCCEEDED and pod.deleting):
            cause = cause_of_failure(pod.reason, deleted=pod.deleting)
            self._lose(rank, pod.reason or "PodFailed", pod, now_ms, cause)
        elif mark == BOUND and never_starts(pod.waiting):
            self._lose(rank, pod.waiting, pod, now_ms, FailureCause.NEVER_STARTS)

    def _vanished(self, rank: int, reason: str, pod: Pod | None, now_ms: int) -> None:
        """Before anything was told it is a bind that did not hold, later a run that was lost."""
        if self.told:
            self._lose(rank, reason, pod, now_ms, FailureCause.TAKEN_AWAY)
        else:
            name = self.name_of(rank)
            node = pod.node if pod is not None else ""
            self.refuse(reason, f"{name} vanished before it ran", node, now_ms)

    def _lose(
        self, rank: int, reason: str, pod: Pod | None, now_ms: int, cause: FailureCause
    ) -> None:
        """A pod failed or vanished: delete the rest, then tell PodsFinished(succeeded=False)."""
        message = f"pod {self.name_of(rank)}: {reason}"
        if pod is not None and pod.message:
            message += f": {pod.message}"
        node = pod.node if pod is not None else ""
        if self.resizing and rank >= self.size_before:
            self._set_back(reason, message, node)
        elif self.goal is PodsGoal.RUN:
            self.goal = PodsGoal.CLEAR
            self.grace_seconds = FAILED_GRACE_SECONDS
            self.outcome = PodsFinished(
                succeeded=False,
                reason=reason,
                message=message,
                lost=cause in (FailureCause.TAKEN_AWAY, FailureCause.KUBELET_REFUSED),
                cause=cause,
                node=node,
                exit_code=0 if pod is None else pod.exit_code,
                **self.who(now_ms),
            )

    def listed(self, uids: Container[str], version: int, list_round: int, now_ms: int) -> bool:
        """Take in a whole list as of `version`: what is known and not in it is gone.

        False when that changes nothing for this gang.
        """
        changed = self.goal is not PodsGoal.RUN or self.unknown_round > 0
        if list_round >= self.unknown_round:
            self.unknown_round = 0
        for rank, uid in enumerate(self.uids):
            if self.marks[rank] in NOT_THERE or uid in uids or self.versions[rank] > version:
                continue
            changed = True
            self.advance(rank, GONE)
            if self.goal is PodsGoal.RUN and rank < self.size:
                self._vanished(rank, POD_LOST, None, now_ms)
        return changed


def _mark_of_pending(pod: Pod) -> int:
    if pod.node:
        return BOUND
    return CREATED if pod.unpinned else PINNED


def _says_gone(operation: PodOperation, result: PodResult) -> bool:
    """Whether a refused delete means that our pod is not there: by 404, or by another uid."""
    pod = result.pod
    return result.status == _NOT_FOUND or (pod is not None and pod.uid != operation.uid)
