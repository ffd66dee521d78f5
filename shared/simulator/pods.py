"""The pods of a cluster as a state machine: what the Kubernetes API would answer, time given.

Create answers 409 when the name is taken, 422 when the name is none, 403 when the namespace is
full; pin, bind and delete take the uid as a precondition; every change has the next resource
version. A bound pod runs after a start delay and ends after its duration, or its kubelet refuses
it or cannot start it (`simulator.kubelet`). A deleted one that is not bound goes at once, a bound
one within its grace, and not before its node is heard of. As in Kubernetes, it is not checked here
whether a node exists or has room: that is the scheduler's business.

The same machine stands behind `adapters.memory_cluster` and the process `simulator.cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from shared.ports.cluster import (
    NODE_READY,
    NOT_DELETING,
    Pod,
    PodOperation,
    PodResult,
    PodTemplate,
    refused_by_port,
)
from shared.simulator import kubelet as kubelets
from shared.simulator.admission import refused_by_admission
from shared.simulator.kubelet import Kubelet

CREATED: Final = 201
OK: Final = 200
NOT_FOUND: Final = PodResult(status=404, reason="NotFound")
DONE: Final = PodResult(status=OK)
BOUND: Final = PodResult(status=CREATED)
_MISMATCH: Final = "Precondition failed: UID in precondition"
_NO_TEMPLATE: Final = PodTemplate()
_COLLECTED: Final = "DeletionByPodGC"
"""Why the pods of a fenced node are gone, as the garbage collector of Kubernetes says it."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the simulated kubelet takes, milliseconds; 0 starts a pod as it is bound."""

    start_delay_ms: int = 500
    stop_delay_ms: int = 500
    """A running pod stops after this time or its grace, whichever is shorter."""
    pull_ms: int = 0
    """Within the start, an image is pulled for so long."""
    speed: float = 1.0
    """Durations pass so many times faster than they are told."""


@dataclass(slots=True, kw_only=True)
class PodRecord:
    """A pod with its timers, Unix milliseconds; 0 means that none is set."""

    serial: int
    pod: Pod
    start_at_ms: int = 0
    end_at_ms: int = 0
    gone_at_ms: int = 0


class PodChange(NamedTuple):
    """One watch event; `record` is the row to keep, or to drop after DELETED."""

    type: str
    pod: Pod
    record: PodRecord


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """Everything that a machine needs to go on where another one stopped."""

    records: list[PodRecord] = field(default_factory=list)
    version: int = 0
    serial: int = 0
    nodes_down: set[str] = field(default_factory=set)
    nodes_gone: set[str] = field(default_factory=set)


class Pods:
    """All pods of one cluster. Not safe for use by several threads.

    `kubelet` says what becomes of a pod that is to start now. `quotas` are the most pods that a
    namespace may have; they are of the process, not of the snapshot.
    """

    def __init__(
        self,
        timing: Timing,
        seed: int,
        snapshot: Snapshot | None = None,
        kubelet: Callable[[], Kubelet] = lambda: Kubelet.STARTS,
    ) -> None:
        state = snapshot or Snapshot()
        self.version = state.version
        self.serial = state.serial
        self.nodes_down = state.nodes_down
        """Nodes that are not heard of ..."""
        self.nodes_gone = state.nodes_gone
        """... and those of them that are fenced: what is deleted there goes at once."""
        self.quotas: dict[str, int] = {}
        self._timing = timing
        self._seed = seed
        self._kubelet = kubelet
        self._by_key: dict[Key, PodRecord] = {}
        self._by_node: dict[str, set[Key]] = {}
        self._timers: list[tuple[int, int, Key]] = []
        self._changes: list[PodChange] = []
        self._restore(state.records)

    def __len__(self) -> int:
        return len(self._by_key)

    def apply(self, operation: PodOperation, now_ms: int) -> PodResult:
        """Try one operation and answer as the API server would. O(log pods)."""
        refused = refused_by_port(operation)
        if refused is not None:
            return refused
        if operation.verb == "create":
            return self._create(operation)
        if operation.verb == "adopt":
            return self._adopt(operation)
        record = self._by_key.get((operation.namespace, operation.name))
        if record is None:
            return NOT_FOUND
        if operation.uid and operation.uid != record.pod.uid:
            return PodResult(status=409, reason=_MISMATCH, pod=record.pod)
        return self._change_pod(record, operation, now_ms)

    def tick(self, now_ms: int) -> None:
        """Let everything happen that is due; each at its own time, so a late tick is exact."""
        timers = self._timers
        while timers and timers[0][0] <= now_ms:
            due_ms, serial, key = heappop(timers)
            record = self._by_key.get(key)
            if record is not None and record.serial == serial:
                self._fire(record, due_ms)

    def next_due_ms(self) -> int | None:
        """When the next timer passes, Unix milliseconds."""
        return self._timers[0][0] if self._timers else None

    def all_pods(self) -> list[Pod]:
        """All pods of Muster, as of `version`; not those of others that wait to be adopted."""
        return [one.pod for one in self._by_key.values() if not _of_others(one.pod)]

    def unheard(self) -> list[tuple[str, bool]]:
        """Nodes that are not heard of, and whether they are fenced."""
        return sorted((node, node in self.nodes_gone) for node in self.nodes_down)

    def take_changes(self) -> list[PodChange]:
        """What changed since the last call, in the order of resource versions."""
        changes, self._changes = self._changes, []
        return changes

    # ── what others do to pods and nodes ─────────────────────────────────────

    def fail_pod(self, name: str, reason: str, exit_code: int = 1) -> bool:
        """End a container of a pod badly; False when there is none that has not ended. O(pods)."""
        named = [one for one in self._by_key.values() if one.pod.name == name]
        return sum(self._fail(one, reason, exit_code) for one in named) > 0

    def fail_node(self, node: str, reason: str) -> int:
        """End every pod of a node badly; the number of them."""
        return sum(self._fail(one, reason) for one in self._on(node))

    def let_go(self, name: str) -> bool:
        """Take away the finalizers of a pod, as their controllers would; False without any."""
        for record in list(self._by_key.values()):
            if record.pod.name == name and record.pod.finalizers:
                self._change(record, "MODIFIED", finalizers=())
                if record.pod.deleting and (record.pod.ended or not record.pod.node):
                    self._remove(record)
                return True
        return False

    def node_silent(self, node: str) -> None:
        """Hear no more of a node: its pods stay as they are, deleted ones too."""
        self.nodes_down.add(node)
        self.nodes_gone.discard(node)

    def fence_node(self, node: str) -> int:
        """Take it that no container runs on a node any more: its pods go; the number of them."""
        if node in self.nodes_down:
            self.nodes_gone.add(node)
        records = self._on(node)
        for record in records:
            self._stopped(record, _COLLECTED)
        return len(records)

    def node_down(self, node: str) -> int:
        """Lose a node for good: its pods vanish, and those bound to it later do not start."""
        self.node_silent(node)
        return self.fence_node(node)

    def node_up(self, node: str, now_ms: int) -> None:
        """Hear of a node again: its pods start, end and stop as they have meanwhile."""
        self.nodes_down.discard(node)
        self.nodes_gone.discard(node)
        for record in self._on(node):
            if record.pod.deleting:
                record.gone_at_ms = self._timer(record, now_ms + self._timing.stop_delay_ms)
            elif record.pod.phase == "Pending":
                self._schedule_start(record, now_ms)
            elif record.end_at_ms:
                record.end_at_ms = self._timer(record, max(record.end_at_ms, now_ms))

    def _on(self, node: str) -> list[PodRecord]:
        return [self._by_key[key] for key in sorted(self._by_node.get(node, ()))]

    def _fail(self, record: PodRecord, reason: str, exit_code: int = 0) -> bool:
        if record.pod.ended:
            return False
        self._end(record, "Failed", reason, exit_code=exit_code)
        return True

    # ── operations ───────────────────────────────────────────────────────────

    def _create(self, operation: PodOperation) -> PodResult:
        key = (operation.namespace, operation.name)
        existing = self._by_key.get(key)
        if existing is not None:
            return PodResult(status=409, reason="AlreadyExists", pod=existing.pod)
        refused = refused_by_admission(operation, self._in(operation.namespace), self.quotas)
        if refused is not None or operation.pod is None:
            return refused or PodResult(status=422, reason="Invalid")
        self.serial += 1
        uid = f"{self._seed & 0xFFFFFFFF:08x}-0000-4000-8000-{self.serial:012x}"
        record = PodRecord(serial=self.serial, pod=operation.pod)
        self._by_key[key] = record
        pod = self._change(
            record, "ADDED", uid=uid, namespace=operation.namespace, phase="Pending", node="",
            reason="", message="", waiting="", pulling=False, ready=False, deleting=False,
            devices=(), template=_NO_TEMPLATE,
        )  # fmt: skip
        return PodResult(status=CREATED, pod=pod)

    def _adopt(self, operation: PodOperation) -> PodResult:
        """Members of a group that is whole have their ranks by name. O(pods)."""
        wanted = operation.pod
        if wanted is None:
            return PodResult(status=422, reason="Invalid")
        records = sorted(self._by_key.items())
        waiting = [
            one
            for _, one in records
            if one.pod.group == wanted.group and not (one.pod.workload_id or one.pod.node)
        ]
        if len(waiting) < wanted.size:
            message = f"{len(waiting)} of {wanted.size} pods of group {wanted.group} are there"
            return PodResult(status=404, reason="WaitingForPods", message=message)
        pod = self._change(
            waiting[wanted.rank], "MODIFIED", workload_id=wanted.workload_id,
            attempt=wanted.attempt, rank=wanted.rank, size=wanted.size, epoch=wanted.epoch,
            team=wanted.team, shares=wanted.shares,
        )  # fmt: skip
        return PodResult(status=CREATED, pod=pod)

    def _release(self, record: PodRecord) -> PodResult:
        self._change(record, "DELETED", workload_id="", attempt=0, rank=0, size=0)
        return DONE

    def _change_pod(self, record: PodRecord, operation: PodOperation, now_ms: int) -> PodResult:
        if operation.verb == "release":
            return self._release(record)
        if operation.verb == "pin":
            return self._pin(record, operation.devices)
        if operation.verb == "bind":
            return self._bind(record, operation.node, now_ms)
        if operation.verb == "force_delete":
            return self._force_delete(record, operation.node)
        return self._delete(record, operation.grace_seconds, now_ms)

    def _in(self, namespace: str) -> int:
        """Pods that have not ended, of a namespace that has a quota. O(pods)."""
        if namespace not in self.quotas:
            return 0
        records = self._by_key.values()
        return sum(one.pod.namespace == namespace and not one.pod.ended for one in records)

    def _pin(self, record: PodRecord, devices: tuple[str, ...]) -> PodResult:
        pod = record.pod
        if pod.node or pod.deleting:
            return PodResult(status=409, reason="AlreadyBound", pod=pod)
        if pod.devices not in ((), devices):
            return PodResult(status=409, reason="AlreadyPinned", pod=pod)
        if pod.devices != devices:
            pod = self._change(record, "MODIFIED", devices=devices)
        return PodResult(status=OK, pod=pod)

    def _bind(self, record: PodRecord, node: str, now_ms: int) -> PodResult:
        pod = record.pod
        if pod.node:
            return PodResult(status=409, reason="AlreadyBound", pod=pod)
        if pod.deleting or not node:
            return PodResult(status=409, reason="Unbindable", pod=pod)
        self._by_node.setdefault(node, set()).add(_key(pod))
        if self._timing.start_delay_ms <= 0 and node not in self.nodes_down:
            self._start(record, now_ms, node=node)
        else:
            self._change(record, "MODIFIED", node=node)
            self._schedule_start(record, now_ms)
        return BOUND

    def _delete(self, record: PodRecord, grace_seconds: int, now_ms: int) -> PodResult:
        pod = record.pod
        if pod.ended or not pod.node:
            self._leave(record)
            return DONE
        stop_ms = min(grace_seconds * 1000, self._timing.stop_delay_ms)
        if pod.node in self.nodes_gone:
            self._stopped(record, _COLLECTED)
            return DONE
        silent = pod.node in self.nodes_down
        if stop_ms <= 0 and not silent:
            self._stopped(record, "")
            return DONE
        if not pod.deleting:
            self._change(record, "MODIFIED", deleting=True)
        if not silent and not 0 < record.gone_at_ms <= now_ms + stop_ms:
            record.gone_at_ms = self._timer(record, now_ms + stop_ms)
        return DONE

    def _force_delete(self, record: PodRecord, node: str) -> PodResult:
        pod = record.pod
        if not pod.deleting or pod.node != node:
            return PodResult(status=409, reason=NOT_DELETING, pod=pod)
        if node not in self.nodes_down:
            return PodResult(status=409, reason=NODE_READY, pod=pod)
        self._stopped(record, _COLLECTED)
        return DONE

    # ── the kubelet ──────────────────────────────────────────────────────────

    def _fire(self, record: PodRecord, due_ms: int) -> None:
        if record.pod.node in self.nodes_down:
            return
        if record.start_at_ms == due_ms:
            self._start(record, due_ms)
        if record.end_at_ms == due_ms:
            self._end(record, "Succeeded", "")
        if record.gone_at_ms == due_ms:
            self._stopped(record, "")

    def _start(self, record: PodRecord, now_ms: int, **fields: Any) -> None:  # noqa: ANN401  # pod fields
        record.start_at_ms = 0
        if record.pod.deleting:
            return
        does = Kubelet.STARTS if record.pod.pulling else self._kubelet()
        if does is Kubelet.REFUSES:
            fields["message"] = kubelets.WORDS_OF_REFUSAL
            self._end(record, "Failed", kubelets.REFUSED, **fields)
        elif does is not Kubelet.STARTS:
            self._wait(record, now_ms, does, fields)
        elif self._timing.pull_ms and not record.pod.pulling:
            fields |= {"waiting": "ContainerCreating", "message": "", "pulling": True}
            self._change(record, "MODIFIED", **fields)
            record.start_at_ms = self._timer(record, now_ms + self._timing.pull_ms)
        else:
            self._run(record, now_ms, fields)

    def _run(self, record: PodRecord, now_ms: int, fields: dict[str, Any]) -> None:
        duration = record.pod.duration_seconds
        if duration is not None:
            lasts_ms = max(int(duration * 1000 / self._timing.speed), 1)
            record.end_at_ms = self._timer(record, now_ms + lasts_ms)
        fields |= {"waiting": "", "message": "", "pulling": False, "ready": True}
        self._change(record, "MODIFIED", phase="Running", **fields)

    def _wait(self, record: PodRecord, now_ms: int, does: Kubelet, fields: dict[str, Any]) -> None:
        """The kubelet tries again and again, and says why it cannot."""
        waiting, message = kubelets.why_it_waits(does, record.pod.waiting)
        if waiting != record.pod.waiting or fields:
            self._change(record, "MODIFIED", waiting=waiting, message=message, **fields)
        record.start_at_ms = self._timer(record, now_ms + kubelets.TRIES_AGAIN_MS)

    def _end(self, record: PodRecord, phase: str, reason: str, **fields: Any) -> None:  # noqa: ANN401  # pod fields
        record.start_at_ms = record.end_at_ms = 0
        fields |= {"waiting": "", "pulling": False, "ready": False}
        self._change(record, "MODIFIED", phase=phase, reason=reason, **fields)

    def _stopped(self, record: PodRecord, reason: str) -> None:
        """No container of it runs any more, and it goes if nothing keeps it."""
        if record.pod.finalizers and not record.pod.ended:
            self._end(record, "Failed", reason, deleting=True)
        else:
            self._leave(record, reason)

    def _leave(self, record: PodRecord, reason: str = "") -> None:
        """Nothing of it runs: the object goes, unless a finalizer keeps it."""
        if not record.pod.finalizers:
            self._remove(record, reason)
        elif not record.pod.deleting:
            self._change(record, "MODIFIED", deleting=True)

    def _schedule_start(self, record: PodRecord, now_ms: int) -> None:
        if record.pod.node not in self.nodes_down:
            due_ms = now_ms + max(self._timing.start_delay_ms, 1)
            record.start_at_ms = self._timer(record, due_ms)

    # ── records ──────────────────────────────────────────────────────────────

    def _remove(self, record: PodRecord, reason: str = "") -> None:
        key, node = _key(record.pod), record.pod.node
        del self._by_key[key]
        if node:
            keys = self._by_node[node]
            keys.discard(key)
            if not keys:
                del self._by_node[node]
        self._change(record, "DELETED", reason=reason or record.pod.reason)

    def _change(self, record: PodRecord, kind: str, **fields: Any) -> Pod:  # noqa: ANN401  # pod fields
        self.version += 1
        pod = replace(record.pod, resource_version=self.version, **fields)
        record.pod = pod
        if not _of_others(pod) or kind == "DELETED":
            self._changes.append(PodChange(kind, pod, record))
        return pod

    def _timer(self, record: PodRecord, due_ms: int) -> int:
        heappush(self._timers, (due_ms, record.serial, _key(record.pod)))
        return due_ms

    def _restore(self, records: Iterable[PodRecord]) -> None:
        for record in records:
            pod = record.pod
            self._by_key[_key(pod)] = record
            if pod.node:
                self._by_node.setdefault(pod.node, set()).add(_key(pod))
            self._timers += [
                (due_ms, record.serial, _key(pod))
                for due_ms in (record.start_at_ms, record.end_at_ms, record.gone_at_ms)
                if due_ms
            ]
        heapify(self._timers)


def _of_others(pod: Pod) -> bool:
    return bool(pod.group) and not pod.workload_id


def _key(pod: Pod) -> Key:
    return pod.namespace, pod.name
