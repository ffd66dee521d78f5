"""What is known of one attempt in the cluster, pod by pod, and what follows at a glance.

A mark of a pod only moves forward, in the order of `ABSENT` to `FOREIGN`. A pod is `PINNED` when
it may be bound: its devices are its own, or the kubelet that starts it chooses them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from services.binder.allocated import Allocated
from shared.events.pods import PodFact
from shared.ports.cluster import Pod

ABSENT, CREATED, PINNED, BOUND, RUNNING, SUCCEEDED, FAILED, GONE, FOREIGN = range(9)
NOT_THERE: Final = frozenset((ABSENT, GONE, FOREIGN))
OVER: Final = NOT_THERE | {SUCCEEDED, FAILED}
POD_LOST: Final = "PodLost"
"""Reason of a pod that was there and is in no list."""


class PodsGoal(IntEnum):
    """What the cluster is to be brought to."""

    RUN = 0
    CLEAR = 1
    CLOSE = 2


class ToldFact(IntEnum):
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


class GangState:
    """`pods` are what to create; empty once that is done and committed."""

    __slots__ = (
        "allocated", "cell", "correlation_id", "deadline_ms", "deleting", "ended_well",
        "fenced_nodes", "forcing", "goal", "grace_seconds", "hindrance", "in_flight", "key",
        "marks", "names", "namespace", "never", "not_before_ms", "noted", "outcome", "pods",
        "pulling", "refusals", "resizing", "setback", "settle_at_ms", "size", "size_before",
        "stopping", "told", "told_pulling", "uids", "unknown_round", "unstarted", "versions",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915  # a line for each thing that is known
        self,
        *,
        workload_id: str,
        attempt: int,
        size: int,
        pods: tuple[Pod, ...] = (),
        cell: int = 0,
        told: ToldFact = ToldFact.NOTHING,
        correlation_id: str = "",
    ) -> None:
        self.key: Key = (workload_id, attempt)
        self.cell = cell
        self.pods = pods
        self.told = told
        self.never = False
        """A pod was refused that would be refused again."""
        self.namespace = pods[0].namespace if pods else ""
        """Where its pods are; of those that are already there, as the cluster shows them."""
        self.names: dict[int, str] = {}
        """By rank, of pods that others named."""
        self.correlation_id = correlation_id
        self.goal = PodsGoal.RUN
        self.outcome: PodFact | None = None
        """In CLEAR, what to tell once it is done; None stands for PodsGone."""
        self.unstarted: tuple[int, ...] = ()
        """Ranks that were not bound in time."""
        self.grace_seconds = 0
        self.size = self.size_before = size
        """Ranks from `size` on are to go; the lists below keep their length."""
        self.resizing = 0
        """Number of the resize that is not told yet."""
        self.setback: tuple[str, str, str] | None = None
        """Reason, message and node for which a growth was given up."""
        self.uids = [""] * size
        self.marks = [ABSENT if told is ToldFact.NOTHING else BOUND] * size
        self.versions = [0] * size
        self.deleting: dict[int, int] = {}
        """By rank with a deletion that was accepted and not yet seen: when to ask for it again."""
        self.forcing: dict[int, int] = {}
        """The same of deletions by force."""
        self.stopping: dict[int, str] = {}
        """By rank that the cluster has shown to be deleted and to run: its node."""
        self.fenced_nodes: frozenset[str] = frozenset()
        """Nodes with machines that are off, by an operator's word."""
        self.ended_well = 0
        """A bit for each rank that succeeded by itself: not one that ended as it was stopped."""
        self.allocated = Allocated()
        self.pulling: set[int] = set()
        """Ranks of which an image is being pulled."""
        self.told_pulling = False
        self.noted = Noted.NO
        self.in_flight = False
        self.unknown_round = 0
        """After a lost reply nothing is assumed until the list of this round; 0: all known."""
        self.not_before_ms = 0
        self.refusals = 0
        """In a row that only time or an operator mends."""
        self.deadline_ms = 0
        """By when all are to be bound; 0: nothing was sent yet."""
        self.settle_at_ms = 0
        self.hindrance = ""
        """Why the last operation is to be tried again, in the cluster's words."""

    @property
    def adopts(self) -> bool:
        """Whether others make its pods.

        They are adopted, and released where ours would be deleted though nothing of them runs.
        """
        return bool(self.names or (self.pods and self.pods[0].group))

    def note_name(self, rank: int, pod: Pod) -> None:
        """The cluster shows a pod of this rank; of one that others made its name counts."""
        if pod.group:
            self.names[rank] = pod.name

    def name_of(self, rank: int) -> str:
        """The name of a pod: the one that it can have, or the one that others gave it."""
        return self.names.get(rank) or pod_name(self.key, rank)

    def is_fresh(self) -> bool:
        """Whether it is to be bound and nothing was sent for it yet."""
        return self.goal is PodsGoal.RUN and not self.told and not self.deadline_ms

    def surplus(self) -> bool:
        """Whether a pod that is to go is still there."""
        return any(mark not in NOT_THERE for mark in self.marks[self.size :])

    def surplus_runs(self) -> bool:
        """Whether a pod that is to go may still hold devices."""
        return any(mark not in OVER for mark in self.marks[self.size :])

    def low(self) -> int:
        """The mark of that pod which is furthest behind."""
        return min(self.marks if len(self.marks) == self.size else self.marks[: self.size])

    def bound(self) -> bool:
        """Whether all pods are on their nodes."""
        return self.low() >= BOUND

    def cleared(self) -> bool:
        """Whether no container of it runs: pods are gone, or have ended and may be kept."""
        if self.in_flight or self.unknown_round:
            return False
        return all(mark in OVER for mark in self.marks)

    def all_well(self) -> bool:
        """Whether every pod was seen to succeed."""
        everybody = (1 << self.size) - 1
        return everybody > 0 and self.ended_well & everybody == everybody

    def to_be_noted(self) -> bool:
        """Whether deletion must wait until it is committed that an evicted attempt ended well."""
        evicted = self.goal is PodsGoal.CLEAR and self.outcome is None
        return evicted and self.noted is not Noted.YES and self.all_well()

    def who(self, now_ms: int) -> dict[str, Any]:
        """The fields that every fact about pods has."""
        return {
            "workload_id": self.key[0],
            "attempt": self.key[1],
            "at_ms": now_ms,
            "cell": self.cell,
        }

    def behind(self, mark: int) -> tuple[int, ...]:
        """Ranks that the cluster has shown, none of them as far as `mark`."""
        return tuple(
            rank for rank in range(self.size) if self.versions[rank] and self.marks[rank] < mark
        )

    def advance(self, rank: int, mark: int) -> None:
        """A pod is at least so far."""
        self.marks[rank] = max(self.marks[rank], mark)


def pod_name(key: Key, rank: int) -> str:
    """The one name that a pod can have: it makes creating idempotent."""
    return f"{key[0]}-{key[1]}-{rank}"
