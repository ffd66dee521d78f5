"""Which queue is next.

The rank follows from what is charged at this moment (core/quota/fair_share.py) and from what quota
told: the debts of the nodes of its tree, and the use of each queue over time, set to one common
time: that of the newest such fact, so the same facts give the same order. Rows keep what was told
over a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from services.placement.state.records import Record, Records
from services.placement.state.usage import Usage
from shared.core.backfill.promise import Promise
from shared.core.model.amounts import Amount
from shared.core.quota.attainable import Attainable
from shared.core.quota.fair_share import (
    Rank,
    Start,
    arrears,
    borrowers,
    borrows,
    rank,
)
from shared.core.quota.usage_history import decayed
from shared.events.quotas import DebtsTold, QueueUsageTold
from shared.ports.reader import Reader
from shared.ports.store import Write

_UPSERT: Final = (
    "INSERT INTO placement.queue_usage (queue, gpu_seconds, at_ms, half_life_ms, epoch)"
    " SELECT q, g, a, h, {epoch} FROM unnest({0}::text[], {1}::bigint[], {2}::bigint[],"
    " {3}::bigint[]) AS r(q, g, a, h) ON CONFLICT (queue) DO UPDATE SET"
    " gpu_seconds = excluded.gpu_seconds, at_ms = excluded.at_ms,"
    " half_life_ms = excluded.half_life_ms, epoch = excluded.epoch RETURNING 1"
)
_UPSERT_DEBTS: Final = (
    "INSERT INTO placement.node_debt (node, debt, at_ms, epoch) SELECT n, d, a, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[], {2}::bigint[]) AS r(n, d, a) ON CONFLICT (node)"
    " DO UPDATE SET debt = excluded.debt, at_ms = excluded.at_ms, epoch = excluded.epoch"
    " RETURNING 1"
)


class OwnQuota(NamedTuple):
    """Units (1 for those that are asked for, else 0) of any of these flavors in a queue."""

    queue: str
    flavors: tuple[str, ...]
    units: Amount


class QueueOrder:
    """The order across queues in one cell."""

    def __init__(self, usage: Usage, records: Records) -> None:
        self._usage = usage
        self._records = records
        self._told: dict[str, QueueUsageTold] = {}
        self._newest_ms = 0
        self._now: dict[str, int] = {}
        """Use over time at the newest time, as far as it was asked for."""
        self._fresh: dict[str, None] = {}
        self._debts_at_ms: dict[str, int] = {}
        """By node, when its debt was told."""
        self._fresh_debts: dict[str, None] = {}
        self.fell = False
        """Whether ranks may have fallen since the index was rewound."""
        self._borrowing: dict[tuple[str, int], bool] = {}
        """By workload and number of nomination, as far as it was asked since quota changed."""
        self._least_ranks: dict[OwnQuota, Rank] = {}
        self._seen_changes = 0

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows."""
        for row in await reader.fetch(
            "SELECT queue, gpu_seconds, at_ms, half_life_ms FROM placement.queue_usage"
        ):
            self._take(QueueUsageTold(**row))
        for row in await reader.fetch("SELECT node, debt, at_ms FROM placement.node_debt"):
            self._owe(row["node"], row["debt"], row["at_ms"])

    def told(self, fact: QueueUsageTold) -> None:
        """What a queue used over time; old news changes nothing."""
        known = self._told.get(fact.queue)
        if known is None or known.at_ms < fact.at_ms:
            self._take(fact)
            self._fresh[fact.queue] = None

    def debts_told(self, fact: DebtsTold) -> None:
        """What nodes of the tree had beyond their part; old news changes nothing."""
        for node, debt in fact.debts.items():
            if self._debts_at_ms.get(node, 0) < fact.at_ms:
                self._owe(node, debt, fact.at_ms)
                self._fresh_debts[node] = None

    def _owe(self, node: str, debt: int, at_ms: int) -> None:
        self._usage.tree.set_debt(node, debt)
        self._least_ranks = {}
        self._debts_at_ms[node] = at_ms
        self.fell = True

    def _take(self, fact: QueueUsageTold) -> None:
        self._told[fact.queue] = fact
        self._least_ranks = {}
        self._newest_ms = max(self._newest_ms, fact.at_ms)
        self._now = {}
        self.fell = True

    def rank(self, workload_id: str) -> Rank:
        """The turn of a workload that waits."""
        least = self.rank_at_least(workload_id)
        if least[0]:
            return least  # what borrows for a part of it borrows for it
        record = self._records.alive[workload_id]
        assert record.nomination is not None
        queue = record.workload.queue
        node, flavors = self._usage.tree.node(queue), record.nomination.flavors
        return rank(node, flavors, record.least, self._used(queue))

    def rank_at_least(self, workload_id: str) -> Rank:
        """No larger than its `rank`: that of the smallest request of the same units."""
        return self._least_rank(self.own_quota(self._records.alive[workload_id]))

    def own_quota(self, record: Record) -> OwnQuota:
        """What its queue must own room in, if only for a part of it."""
        assert record.nomination is not None
        gpu, cpu, memory = record.least
        units = (int(gpu > 0), int(cpu > 0), int(memory > 0))
        return OwnQuota(record.workload.queue, record.nomination.flavors, units)

    def owns_some(self, quota: OwnQuota) -> bool:
        """Whether the queue owns anything there that it does not hold."""
        return not self._least_rank(quota)[0]

    def _least_rank(self, quota: OwnQuota) -> Rank:
        self._forget_if_changed()
        found = self._least_ranks.get(quota)
        if found is None:
            node = self._usage.tree.node(quota.queue)
            found = rank(node, quota.flavors, quota.units, self._used(quota.queue))
            self._least_ranks[quota] = found
        return found

    def arrears(self, workload_id: str) -> Rank:
        """The turn of a workload that waits for a promised start."""
        record = self._records.alive[workload_id]
        assert record.nomination is not None
        node = self._usage.tree.node(record.workload.queue)
        return arrears(node, record.nomination.flavors, record.least)

    def yields_to(
        self, record: Record, promised: Iterable[Promise]
    ) -> Callable[[str], bool] | None:
        """What gives way to it: to what is owed, all that are promised to borrow (ADR 35)."""
        if self.borrows(record.workload.id):
            return None
        return borrowers(self._starts(promised)).__contains__

    def _starts(self, promised: Iterable[Promise]) -> Iterator[Start]:
        for one in promised:
            record = self._records.alive.get(one.workload_id)
            if record is not None:
                queue = self._usage.tree.node(record.workload.queue)
                yield one.workload_id, queue, one.flavor, record.least

    def borrows(self, workload_id: str) -> bool:
        """Whether it waits for more than its queue owns."""
        record = self._records.alive.get(workload_id)
        if record is None or record.nomination is None:
            return False
        if self.rank_at_least(workload_id)[0]:
            return True
        key = workload_id, record.nomination.number
        found = self._borrowing.get(key)
        if found is None:
            node, flavors = self._usage.tree.node(record.workload.queue), record.nomination.flavors
            found = self._borrowing[key] = borrows(node, flavors, record.least)
        return found

    def _forget_if_changed(self) -> None:
        if self._seen_changes != self._usage.changes:
            self._borrowing, self._least_ranks = {}, {}
            self._seen_changes = self._usage.changes

    def _used(self, queue: str) -> int:
        found = self._now.get(queue)
        if found is None:
            told = self._told.get(queue)
            age_ms = self._newest_ms - told.at_ms if told is not None else 0
            found = decayed(told.gpu_seconds, age_ms, told.half_life_ms) if told else 0
            self._now[queue] = found
        return found

    def may_have(self) -> Callable[[str], Sequence[str]]:
        """In which flavors time may bring a workload its quota; good until something changes.

        A promise of nodes without it would keep them empty (core/quota/attainable.py).
        """
        attainable, tree = Attainable(), self._usage.tree

        def answer(workload_id: str) -> Sequence[str]:
            record = self._records.alive[workload_id]
            assert record.nomination is not None
            node, least = tree.node(record.workload.queue), record.least
            return [one for one in record.nomination.flavors if attainable.fits(node, one, least)]

        return answer

    def writes(self) -> Sequence[Write]:
        """Rows of what was told since the last call."""
        writes = []
        if self._fresh:
            facts, self._fresh = [self._told[one] for one in self._fresh], {}
            columns = (
                [one.queue for one in facts],
                [one.gpu_seconds for one in facts],
                [one.at_ms for one in facts],
                [one.half_life_ms for one in facts],
            )
            writes.append(Write(_UPSERT, columns, len(facts)))
        if self._fresh_debts:
            nodes, self._fresh_debts = list(self._fresh_debts), {}
            debts = [self._usage.tree.node(one).debt for one in nodes]
            told = [self._debts_at_ms[one] for one in nodes]
            writes.append(Write(_UPSERT_DEBTS, (nodes, debts, told), len(nodes)))
        return tuple(writes)
