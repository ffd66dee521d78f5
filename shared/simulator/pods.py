"""The pods of a cluster as a state machine: what the Kubernetes API would answer, time given.

Create answers 409 when the name is taken, bind and delete take the uid as a precondition, every
change has the next resource version. A bound pod runs after a start delay and ends after its
duration; a deleted one stops within its grace. As in Kubernetes, nobody checks here whether a
node exists or has room: that is the scheduler's business. Nodes only matter once they fail.

The same machine stands behind `adapters.memory_cluster` and the process `simulator.cluster`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from shared.ports.cluster import Operation, Pod, Result

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
CREATED: Final = 201
OK: Final = 200
NOT_FOUND: Final = Result(status=404, reason="NotFound")
DONE: Final = Result(status=OK)
BOUND: Final = Result(status=CREATED)
_MISMATCH: Final = "Precondition failed: UID in precondition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the simulated kubelet takes, milliseconds; 0 starts a pod as it is bound."""

    start_delay_ms: int = 500
    stop_delay_ms: int = 500
    """A running pod stops after this time or its grace, whichever is shorter."""
    speed: float = 1.0
    """Durations pass so many times faster than they are told."""


@dataclass(slots=True, kw_only=True)
class Record:
    """A pod with its timers, Unix milliseconds; 0 means that none is set."""

    serial: int
    pod: Pod
    start_at_ms: int = 0
    end_at_ms: int = 0
    gone_at_ms: int = 0


class Change(NamedTuple):
    """One watch event; `record` is the row to keep, or to drop after DELETED."""

    type: str
    pod: Pod
    record: Record


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """Everything that a machine needs to go on where another one stopped."""

    records: list[Record] = field(default_factory=list)
    version: int = 0
    serial: int = 0
    nodes_down: set[str] = field(default_factory=set)


class Pods:
    """All pods of one cluster. Not safe for use by several threads."""

    def __init__(self, timing: Timing, seed: int, snapshot: Snapshot | None = None) -> None:
        state = snapshot or Snapshot()
        self.version = state.version
        self.serial = state.serial
        self.nodes_down = state.nodes_down
        self._timing = timing
        self._seed = seed
        self._by_name: dict[str, Record] = {}
        self._by_node: dict[str, set[str]] = {}
        self._timers: list[tuple[int, int, str]] = []
        self._changes: list[Change] = []
        self._restore(state.records)

    def __len__(self) -> int:
        return len(self._by_name)

    def apply(self, operation: Operation, now_ms: int) -> Result:
        """Try one operation and answer as the API server would. O(log pods)."""
        if operation.verb == "create":
            return self._create(operation, now_ms)
        record = self._by_name.get(operation.name)
        if record is None:
            return NOT_FOUND
        if operation.uid and operation.uid != record.pod.uid:
            return Result(status=409, reason=_MISMATCH, pod=record.pod)
        if operation.verb == "bind":
            return self._bind(record, operation.node, now_ms)
        return self._delete(record, operation.grace_seconds, now_ms)

    def tick(self, now_ms: int) -> None:
        """Let everything happen that is due; each at its own time, so a late tick is exact."""
        timers = self._timers
        while timers and timers[0][0] <= now_ms:
            due_ms, serial, name = heappop(timers)
            record = self._by_name.get(name)
            if record is not None and record.serial == serial:
                self._fire(record, due_ms)

    def next_due_ms(self) -> int | None:
        """When the next timer passes, Unix milliseconds."""
        return self._timers[0][0] if self._timers else None

    def all_pods(self) -> list[Pod]:
        """All pods, as of `version`."""
        return [record.pod for record in self._by_name.values()]

    def take_changes(self) -> list[Change]:
        """What changed since the last call, in the order of resource versions."""
        changes, self._changes = self._changes, []
        return changes

    def fail_pod(self, name: str, reason: str) -> bool:
        """End a pod badly; False when there is no such pod or it has ended already."""
        record = self._by_name.get(name)
        if record is None or record.pod.phase in TERMINAL:
            return False
        self._end(record, "Failed", reason)
        return True

    def fail_node(self, node: str, reason: str) -> int:
        """End every pod of a node badly; the number of them."""
        return sum(self.fail_pod(name, reason) for name in sorted(self._by_node.get(node, ())))

    def node_down(self, node: str) -> int:
        """Lose a node: its pods vanish, and those bound to it later do not start."""
        self.nodes_down.add(node)
        names = sorted(self._by_node.get(node, ()))
        for name in names:
            self._remove(self._by_name[name], reason="NodeLost")
        return len(names)

    def node_up(self, node: str, now_ms: int) -> None:
        """Bring a node back; pods that waited on it start."""
        self.nodes_down.discard(node)
        for name in sorted(self._by_node.get(node, ())):
            record = self._by_name[name]
            if record.pod.phase == "Pending":
                self._schedule_start(record, now_ms)

    def _create(self, operation: Operation, now_ms: int) -> Result:
        del now_ms  # creation sets no timer
        existing = self._by_name.get(operation.name)
        if existing is not None:
            return Result(status=409, reason="AlreadyExists", pod=existing.pod)
        if operation.pod is None or operation.pod.name != operation.name:
            return Result(status=422, reason="Invalid")
        self.serial += 1
        uid = f"{self._seed & 0xFFFFFFFF:08x}-0000-4000-8000-{self.serial:012x}"
        record = Record(serial=self.serial, pod=operation.pod)
        self._by_name[operation.name] = record
        pod = self._change(
            record, "ADDED", uid=uid, phase="Pending", node="", reason="", deleting=False
        )
        return Result(status=CREATED, pod=pod)

    def _bind(self, record: Record, node: str, now_ms: int) -> Result:
        pod = record.pod
        if pod.node:
            return Result(status=409, reason="AlreadyBound", pod=pod)
        if pod.deleting or pod.phase in TERMINAL or not node:
            return Result(status=409, reason="Unbindable", pod=pod)
        self._by_node.setdefault(node, set()).add(pod.name)
        if self._timing.start_delay_ms <= 0 and node not in self.nodes_down:
            self._start(record, now_ms, node=node)
        else:
            self._change(record, "MODIFIED", node=node)
            self._schedule_start(record, now_ms)
        return BOUND

    def _delete(self, record: Record, grace_seconds: int, now_ms: int) -> Result:
        stop_ms = min(grace_seconds * 1000, self._timing.stop_delay_ms)
        if record.pod.phase != "Running" or stop_ms <= 0:
            self._remove(record)
            return DONE
        gone_at_ms = now_ms + stop_ms
        if not record.pod.deleting:
            record.gone_at_ms = gone_at_ms
            self._change(record, "MODIFIED", deleting=True)
            self._timer(record, gone_at_ms)
        elif gone_at_ms < record.gone_at_ms:
            record.gone_at_ms = gone_at_ms
            self._timer(record, gone_at_ms)
        return DONE

    def _fire(self, record: Record, due_ms: int) -> None:
        if record.start_at_ms == due_ms:
            self._start(record, due_ms)
        if record.end_at_ms == due_ms:
            self._end(record, "Succeeded", "")
        if record.gone_at_ms == due_ms:
            self._remove(record)

    def _start(self, record: Record, now_ms: int, **fields: Any) -> None:  # noqa: ANN401  # pod fields
        record.start_at_ms = 0
        if (record.pod.node or fields.get("node")) in self.nodes_down:
            return
        duration = record.pod.duration_seconds
        if duration is not None:
            record.end_at_ms = now_ms + max(int(duration * 1000 / self._timing.speed), 1)
            self._timer(record, record.end_at_ms)
        self._change(record, "MODIFIED", phase="Running", **fields)

    def _end(self, record: Record, phase: str, reason: str) -> None:
        record.start_at_ms = record.end_at_ms = 0
        self._change(record, "MODIFIED", phase=phase, reason=reason)

    def _schedule_start(self, record: Record, now_ms: int) -> None:
        if record.pod.node not in self.nodes_down:
            record.start_at_ms = now_ms + max(self._timing.start_delay_ms, 1)
            self._timer(record, record.start_at_ms)

    def _remove(self, record: Record, reason: str = "") -> None:
        name, node = record.pod.name, record.pod.node
        del self._by_name[name]
        if node:
            names = self._by_node[node]
            names.discard(name)
            if not names:
                del self._by_node[node]
        self._change(record, "DELETED", reason=reason or record.pod.reason)

    def _change(self, record: Record, kind: str, **fields: Any) -> Pod:  # noqa: ANN401  # pod fields
        self.version += 1
        pod = replace(record.pod, resource_version=self.version, **fields)
        record.pod = pod
        self._changes.append(Change(kind, pod, record))
        return pod

    def _timer(self, record: Record, due_ms: int) -> None:
        heappush(self._timers, (due_ms, record.serial, record.pod.name))

    def _restore(self, records: Iterable[Record]) -> None:
        for record in records:
            pod = record.pod
            self._by_name[pod.name] = record
            if pod.node:
                self._by_node.setdefault(pod.node, set()).add(pod.name)
            self._timers += [
                (due_ms, record.serial, pod.name)
                for due_ms in (record.start_at_ms, record.end_at_ms, record.gone_at_ms)
                if due_ms
            ]
        heapify(self._timers)
