"""Which refused workload is the head, and which goes first when nodes become free (ADR 30).

Of each request class the one that was refused stands for the class. Order: old workloads, by
age; then priority, workloads that lost their nodes, the largest deficit of the queue
(core/quota/fair_share.py, `arrears`), and the response ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Final

from services.placement.backfill.lengths import Lengths, gpus_of, lost_its_nodes, waited_ms
from services.placement.state.records import Record, Records
from shared.core.backfill.estimates import UNKNOWN_SECONDS
from shared.core.model.demand import gang_of
from shared.core.scoring import Cluster

SMALL_AFTER_MS: Final = 6 * 3_600_000
"""Work that fills no node is promised a start once it has waited longer."""
HEAD_AFTER_HOURS: Final = 72
"""A workload that waits longer is at the head, whatever its priority, share and width."""
BRIEFEST_MS: Final = 900_000
"""Added to lengths in the order of heads, so that very short work is not first for ever."""

RankOf = Callable[[str], tuple[Any, ...]]
"""The rank of a workload among the queues."""


class Heads:
    """The blocked of one cell, by class of requests, and their order."""

    def __init__(
        self, cluster: Cluster, records: Records, lengths: Lengths, head_after_hours: int
    ) -> None:
        """All but the hours are changed by others too."""
        self._cluster, self._records, self._lengths = cluster, records, lengths
        self._head_after_ms = head_after_hours * 3_600_000
        self._blocked: dict[Hashable, str] = {}
        self._class_of: dict[str, Hashable] = {}

    def __bool__(self) -> bool:
        """Whether any workload is blocked."""
        return bool(self._blocked)

    def __contains__(self, workload_id: str) -> bool:
        """Whether it speaks for a class."""
        return workload_id in self._class_of

    @property
    def names(self) -> Collection[str]:
        """Those that speak for a class."""
        return self._blocked.values()

    def may_be(self, record: Record, now_ms: int) -> bool:
        """Gangs, and pods that fill a node, starve beside small work; others do in the end."""
        demands = gang_of(record.workload).demands
        if not any(demand.gpus for demand in demands):
            return False
        largest = max(demand.gpus for demand in demands)
        return (
            record.workload.pods > 1
            or any(key.gpus == largest for key in self._cluster.node_classes)
            or waited_ms(record, now_ms) > SMALL_AFTER_MS
        )

    def block(self, workload_id: str, request: Hashable) -> bool:
        """It was refused and speaks for its class; whether it did not before."""
        if self._blocked.get(request) == workload_id:
            return False
        self._blocked.pop(self._class_of.get(workload_id), None)
        self._class_of.pop(self._blocked.get(request, ""), None)
        self._blocked[request] = workload_id
        self._class_of[workload_id] = request
        return True

    def forget(self, workload_id: str) -> None:
        """It waits for room no more."""
        request = self._class_of.pop(workload_id, None)
        if request is not None and self._blocked.get(request) == workload_id:
            del self._blocked[request]

    def in_order(self, names: Iterable[str], rank: RankOf, now_ms: int) -> list[str]:
        """The heads' order of `names`."""
        return sorted(names, key=lambda name: self._place(name, rank, now_ms))

    def precedes(
        self, record: Record, other: Record, rank: RankOf, now_ms: int, *, told: bool
    ) -> bool:
        """Whether it goes before `other`, which would be the next to be tried.

        Not before higher priority or an earlier turn. Among equals it does if it was `told` of a
        promise, or ran and lost its nodes; else if it waited longer for its length.
        """
        mine, others = _turn(record, rank), _turn(other, rank)
        if mine != others:
            return mine < others
        if told or lost_its_nodes(record):
            return True
        return self._urgency(record, now_ms) <= self._urgency(other, now_ms)

    def _place(self, workload_id: str, rank: RankOf, now_ms: int) -> tuple[Any, ...]:
        record = self._records.alive[workload_id]
        assert record.nomination is not None
        young, urgency = self._urgency(record, now_ms)
        identity = urgency, record.nomination.order_key, workload_id
        if not young:
            return (young, *identity)
        priority, turn = _turn(record, rank)
        return (young, priority, not lost_its_nodes(record), turn, *identity)

    def _urgency(self, record: Record, now_ms: int) -> tuple[bool, int]:
        """Old workloads first, by age; then by response ratio.

        The ratio of the time waited to the length, times the GPUs: what waits longest for its
        length first (Brinch Hansen, highest response ratio next, 1971), wide before narrow, as
        the narrow finds room beside the wide.
        """
        waited = waited_ms(record, now_ms)
        if waited > self._head_after_ms:
            return False, -waited
        length_ms = self._lengths.expected_ms(record) or UNKNOWN_SECONDS * 1000
        return True, -(waited * gpus_of(record) * 1000 // (length_ms + BRIEFEST_MS))


def _turn(record: Record, rank: RankOf) -> tuple[int, tuple[Any, ...]]:
    return -record.priority, rank(record.workload.id)
