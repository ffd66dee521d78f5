"""What placement remembers of each workload that is not over, and what changed in this batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from shared.core.model.amounts import Amount
from shared.core.model.charges import least_amount
from shared.core.model.lifecycle import HOLDING, TERMINAL, State, allowed
from shared.core.model.nouns import Placement, Workload
from shared.core.model.reason import Reason
from shared.core.placement.place import request_class
from shared.core.placement.resize import sized
from shared.core.queueing import OrderKey

TERMINAL_IDS_MAX = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """Permission to try: `number` counts up, `flavors` are in quota's order."""

    number: int
    order_key: OrderKey
    flavors: tuple[str, ...]
    strict: bool
    within_nominal: bool = False
    """It may not borrow."""
    next_of_own: bool = False
    """It may be placed within what its queue owns, and is not answered otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """What became of the size of one attempt; `number` counts what the binder was asked for.

    While it is `open` the binder has not answered. A gang that grows holds its new pods already;
    one that shrinks still holds those that go.
    """

    number: int = 0
    pods_before: int = 0
    pods: int = 0
    open: bool = False
    changes: int = 0
    """How often what the attempt holds has changed (`resizes` of the facts)."""
    reason: Reason = Reason.NONE
    message: str = ""
    pod_reason: str = ""
    wanted: int = 0
    """Pods that its owner asks for, in this attempt and those that follow; 0 as submitted."""
    rests_until_ms: int = 0
    """It is not made larger before: its size was just changed, or a pod of it was refused."""


UNCHANGED: Final = Resize()


@dataclass(slots=True, kw_only=True)
class Record:
    """One workload. `stored_version` is what the database has; -1 for no row yet."""

    workload: Workload
    state: State
    version: int
    priority: int
    attempt: int = 0
    failures: int = 0
    setbacks: int = 0
    """In a row, up to the last attempt that ended (core/nodes/backoff.py)."""
    running_at_ms: int = 0
    """Since when all pods of the last attempt ran; 0 if they did not."""
    deadline_kind: str = ""
    deadline_ms: int = 0
    then_held: bool = False
    """When the pods are gone: held, not queued."""
    reason: Reason = Reason.NONE
    message: str = ""
    pod_reason: str = ""
    nomination: Nomination | None = None
    refused_as: Reason = Reason.NONE
    """Why it waits, as it was told last; only a new reason is told."""
    placement: Placement | None = None
    resize: Resize = UNCHANGED
    avoids: tuple[str, ...] = ()
    """Nodes on which it did not start; it goes to others as long as there are any."""
    began_at_ms: int = 0
    """Since when it holds its nodes; 0 while it holds none."""
    expected_seconds: int = -1
    """How long it will run (core/backfill/estimates.py); 0 for ever, -1 not asked yet."""
    likely_seconds: int = -1
    """The same by its team's history."""
    priority_class: str = ""
    """The class that its owner gave it since; "" as it was queued."""
    stored_version: int = -1
    least: Amount = field(init=False)
    """What the least of its gang is charged."""
    _request_class: Hashable = field(init=False, default=None, compare=False)

    def __post_init__(self) -> None:
        """The order asks for it again and again."""
        self.least = least_amount(self.workload.spec)

    @property
    def request_class(self) -> Hashable:
        """Equal requests get the same answer (placement/place.py); worked out once it waits."""
        if self._request_class is None:
            self._request_class = request_class(self.workload)
        return self._request_class

    def become(self, state: State) -> State:
        """Take one transition; returns the state before. A forbidden one is a bug here."""
        before = self.state
        assert allowed(before, state), f"{self.workload.id}: {before} -> {state}"
        self.state = state
        self.version += 1
        return before

    def because(self, reason: Reason, message: str = "", pod_reason: str = "") -> None:
        """What its next fact says of why; of a pod's own reason nothing is left of before."""
        self.reason, self.message, self.pod_reason = reason, message, pod_reason

    @property
    def size(self) -> int:
        """Pods that it is to have at most."""
        return self.resize.wanted or self.workload.pods

    @property
    def sized(self) -> Workload:
        """The workload to find room for."""
        return sized(self.workload, self.size) if self.resize.wanted else self.workload

    def stands(self, deadline_kind: str, due_ms: int) -> bool:
        """Whether this is still the deadline of its state."""
        return (self.deadline_kind, self.deadline_ms) == (deadline_kind, due_ms)

    @property
    def holds(self) -> bool:
        """Whether the ledger holds devices for it."""
        return self.state in HOLDING

    @property
    def over(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.state in TERMINAL


@dataclass(slots=True)
class Records:
    """All records by id; terminal ones only as ids, bounded."""

    alive: dict[str, Record] = field(default_factory=dict)
    over: OrderedDict[str, None] = field(default_factory=OrderedDict)
    touched: dict[str, Record] = field(default_factory=dict)
    by_node: dict[str, set[str]] = field(default_factory=dict)

    def known(self, workload_id: str) -> bool:
        """Whether it was seen, over or not."""
        return workload_id in self.alive or workload_id in self.over

    def add(self, record: Record) -> None:
        """Begin to remember a workload."""
        self.alive[record.workload.id] = record
        self.touched[record.workload.id] = record

    def touch(self, record: Record) -> None:
        """Its row must be written with this unit."""
        self.touched[record.workload.id] = record

    def on_nodes(self, record: Record) -> None:
        """Index the nodes of its placement."""
        assert record.placement is not None
        for pod in record.placement.pods:
            self.by_node.setdefault(pod.node, set()).add(record.workload.id)

    def off_nodes(self, record: Record) -> None:
        """Undo `on_nodes`."""
        assert record.placement is not None
        for pod in record.placement.pods:
            self.by_node.get(pod.node, set()).discard(record.workload.id)

    def of_node(self, node: str) -> Iterator[Record]:
        """Workloads with a pod on `node`, in order of id."""
        for workload_id in sorted(self.by_node.get(node, ())):
            yield self.alive[workload_id]

    def take_touched(self) -> list[Record]:
        """What changed since the last call; drops what is over from memory."""
        touched = list(self.touched.values())
        self.touched = {}
        for record in touched:
            if record.over:
                del self.alive[record.workload.id]
                self.remember_over(record.workload.id)
        return touched

    def remember_over(self, workload_id: str) -> None:
        """Keep the id of a terminal workload, and forget the oldest beyond the bound."""
        self.over[workload_id] = None
        if len(self.over) > TERMINAL_IDS_MAX:
            self.over.popitem(last=False)
