"""Where GPU-hours go: reports become what each attempt used of what it holds (ADR 91).

A span of a node is settled by its newest reading when the next one comes, and when anything on
the node begins or ends, so what is held together is known. What an attempt is charged comes from
its facts, as in the cost ledger: what was not settled of it is unmeasured. It is told when it
ends, and now and then meanwhile; the more attempts, the less often each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from services.monitoring.like_work import LikeWork
from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import SeenWorkload, devices_of, shares_by_node
from services.monitoring.use_memory import ACCOUNT, ChargedAttempt, NodeUse, Sums
from shared.core.quota.cost import DAY_MS
from shared.core.usage import (
    UNREAD,
    HeldShare,
    Reading,
    UseAmounts,
    energy,
    parts_of_days,
    settle,
)
from shared.events.envelope import Received
from shared.events.nodes import GpuUsageReported
from shared.events.topics import IDLENESS_FACTS
from shared.events.usage import AttemptUse, UsageTold, WorkClassesTold, WorkClassUse
from shared.events.workloads import WorkloadPlaced, WorkloadResized
from shared.runtime.handler import Emit

TELL_MS_MIN: Final = 60_000
"""An attempt that goes on is told no more often."""
TOLD_PER_SECOND: Final = 30
"""Attempts that go on, all together: rows of the gateway."""
GATHER_MS: Final = 1_000
"""They are told together, once in this time."""
TOLD_TOGETHER: Final = 500
"""Attempts in one message at most."""
LATE_MS: Final = 120_000
"""A node that was not heard for so long is settled without it."""
RECENT_MAX: Final = 16
"""Readings of a node that are known besides."""
CLOSE_MS: Final = 21_600_000
"""So long after midnight the day before changes no more, whatever is read late."""


class GpuHours:
    """The GPUs of one cell."""

    def __init__(self, memory: MonitoringMemory, cell: int) -> None:
        self._memory = memory
        self._use = memory.use
        self._cell = cell
        self._like_work = LikeWork(memory)
        self._now_ms = 0
        self._heard_ms = max((one.at_ms for one in self._use.nodes.values()), default=0)
        self._gathered_ms = 0
        self._told: list[AttemptUse] = []
        self._classes: list[tuple[WorkClassUse, ...]] = []
        self._recent = {
            name: deque([node.reading], maxlen=RECENT_MAX)
            for name, node in self._use.nodes.items()
            if node.at_ms
        }

    def reported(self, fact: GpuUsageReported, logged_ms: int) -> None:
        """A report of a node: what was before is settled. O(shares on the node)."""
        node = self._use.nodes.get(fact.node)
        if node is None:
            node = self._use.nodes[fact.node] = NodeUse(settled_ms=logged_ms)
        elif logged_ms < node.at_ms:
            return
        self._heard_ms = max(self._heard_ms, logged_ms)
        self._settle(fact.node, logged_ms)
        node.at_ms = logged_ms
        unread = frozenset(fact.unread)
        node.percent = tuple(
            UNREAD if gpu in unread else percent
            for gpu, percent in enumerate(fact.utilization_percent)
        )
        node.memory_mib, node.watts = fact.memory_used_mib, fact.power_watts
        node.instances = tuple(
            (one.gpu, one.mask, one.utilization_percent) for one in fact.instances
        )
        recent = self._recent.setdefault(fact.node, deque(maxlen=RECENT_MAX))
        recent.append(node.reading)
        self._keep(fact.node)

    def removed(self, name: str) -> None:
        """A node is gone: only what is held there is known on."""
        if name in self._use.nodes:
            self._keep(name)

    def begins(
        self, fact: WorkloadPlaced | WorkloadResized, one: SeenWorkload, at_ms: int
    ) -> None:
        """An attempt is about to hold devices, at one size."""
        workload_id, held = fact.workload_id, fact.placement
        account = self._use.accounts[workload_id] = ChargedAttempt(
            attempt=fact.attempt,
            resizes=fact.resizes if isinstance(fact, WorkloadResized) else 0,
            team=one.team,
            queue=one.queue,
            namespace=one.namespace,
            flavor=held.flavor,
            gpu_milli=held.charge.gpu_milli,
            started_ms=at_ms,
            day=at_ms // DAY_MS,
            told_ms=at_ms,
        )
        self._memory.journal.put(ACCOUNT, workload_id, account)
        for name, shares in shares_by_node(devices_of(held)).items():
            node = self._use.nodes.setdefault(name, NodeUse(settled_ms=at_ms))
            self._settle(name, at_ms)
            node.sums = {**node.sums, workload_id: {}}
            self._catch_up(name, workload_id, shares, at_ms)
            self._keep(name)

    def _catch_up(
        self, name: str, workload_id: str, shares: Sequence[tuple[int, int, int]], from_ms: int
    ) -> None:
        """Reports that were read before its begin count, too: each topic has its own pace."""
        recent = self._recent.get(name, ())
        settled_ms = self._use.nodes[name].settled_ms
        held = {**self._memory.shares.get(name, {}), workload_id: shares}
        ends_ms = [*(one.at_ms for one in recent), settled_ms][1:]
        for reading, end_ms in zip(recent, ends_ms, strict=False):
            begin_ms, until_ms = max(from_ms, reading.at_ms), min(end_ms, settled_ms)
            for holder, day, amounts in settle(reading, held, begin_ms, until_ms):
                if holder == workload_id:
                    self._add(name, workload_id, day, amounts)
            self._draw(name, reading, {workload_id: shares}, begin_ms, until_ms)

    def ends(self, workload_id: str, at_ms: int) -> None:
        """It is about to give them back: its last word."""
        account = self._use.accounts.get(workload_id)
        if account is None:
            return
        self._settle_all(workload_id, at_ms)
        last_day = max(at_ms, account.told_ms) // DAY_MS
        self._told += self._rows(workload_id, account, at_ms, last_day, ended=True)
        self._close(workload_id, account, at_ms, last_day + 1)
        for name in self._memory.nodes_of.get(workload_id, ()):
            node = self._use.nodes[name]
            node.sums = {key: days for key, days in node.sums.items() if key != workload_id}
            self._keep(name)
        self._like_work.forget(workload_id)
        del self._use.accounts[workload_id]
        self._memory.journal.drop(ACCOUNT, workload_id)

    def told(self, messages: Sequence[Received]) -> list[Emit]:
        """What there is to tell after a batch. O(what is told)."""
        if not messages:
            return []
        self._now_ms = max(self._now_ms, *(one.logged_ms for one in messages))
        self._told += self._of_those_that_go_on()
        told, self._told = self._told, []
        facts: list[UsageTold | WorkClassesTold] = [
            UsageTold(
                attempts=tuple(told[at : at + TOLD_TOGETHER]),
                at_ms=self._now_ms,
                cell=self._cell,
            )
            for at in range(0, len(told), TOLD_TOGETHER)
        ]
        facts += [
            WorkClassesTold(classes=classes, at_ms=self._now_ms, cell=self._cell)
            for classes in self._classes
        ]
        self._classes = []
        return [
            Emit(
                payload=fact,
                topic=IDLENESS_FACTS,
                subject=f"cell-{self._cell}",
                cause=messages[-1],
                partition=self._cell,
            )
            for fact in facts
        ]

    def _of_those_that_go_on(self) -> Iterator[AttemptUse]:
        accounts, now_ms = self._use.accounts, self._now_ms
        if now_ms - self._gathered_ms < GATHER_MS:
            return
        self._gathered_ms = now_ms
        self._classes = list(self._like_work.told(now_ms))
        every_ms = max(TELL_MS_MIN, len(accounts) * 1_000 // TOLD_PER_SECOND)
        for workload_id in list(accounts)[:TOLD_TOGETHER]:
            if now_ms - accounts[workload_id].told_ms < every_ms:
                return
            account = accounts[workload_id] = accounts.pop(workload_id)
            self._settle_all(workload_id, min(now_ms, self._heard_ms or now_ms) - LATE_MS)
            last_day = max(now_ms, account.told_ms) // DAY_MS
            yield from self._rows(workload_id, account, now_ms, last_day, ended=False)
            account.told_ms = now_ms
            self._close(workload_id, account, now_ms, (now_ms - CLOSE_MS) // DAY_MS)
            self._memory.journal.put(ACCOUNT, workload_id, account)

    def _settle_all(self, workload_id: str, until_ms: int) -> None:
        for name in self._memory.nodes_of.get(workload_id, ()):
            self._settle(name, until_ms)

    def _settle(self, name: str, until_ms: int) -> None:
        """What is held on a node up to a time; what was settled stays."""
        node, shares = self._use.nodes[name], self._memory.shares.get(name)
        if until_ms <= node.settled_ms:
            return
        from_ms, node.settled_ms = node.settled_ms, until_ms
        self._like_work.read(node, shares or {}, from_ms, until_ms)
        for workload_id, day, amounts in settle(node.reading, shares or {}, from_ms, until_ms):
            self._add(name, workload_id, day, amounts)
        self._draw(name, node.reading, shares or {}, from_ms, until_ms)

    def _draw(
        self,
        name: str,
        reading: Reading,
        held: Mapping[str, Sequence[HeldShare]],
        from_ms: int,
        until_ms: int,
    ) -> None:
        """What the boards of a node drew."""
        for workload_id, day, microjoules in energy(reading, held, from_ms, until_ms):
            self._count(name, workload_id, day, Sums(microjoules=microjoules))

    def _add(self, name: str, workload_id: str, day: int, amounts: UseAmounts) -> None:
        if self._count(name, workload_id, day, amounts):
            self._like_work.settled(workload_id, self._use.nodes[name].settled_ms, amounts)

    def _count(self, name: str, workload_id: str, day: int, more: UseAmounts | Sums) -> bool:
        """Whether the attempt is known, and its day not closed."""
        account = self._use.accounts.get(workload_id)
        if account is None or day < account.day:
            return False
        days = self._use.nodes[name].sums.setdefault(workload_id, {})
        days.setdefault(day, Sums()).add(more)
        self._use.total(account.team, account.flavor).add(more)
        return True

    def _rows(
        self,
        workload_id: str,
        account: ChargedAttempt,
        until_ms: int,
        last_day: int,
        *,
        ended: bool,
    ) -> Iterator[AttemptUse]:
        """What is told of each day that may still change."""
        charged = _charged(account, until_ms)
        price = self._use.price_of(account)
        for day in range(account.day, last_day + 1):
            sums = self._sums(workload_id, day)
            allocated = charged.get(day, 0)
            amounts = UseAmounts.within(allocated, used=sums.used, unused=sums.unused)
            yield AttemptUse(
                workload_id=workload_id,
                attempt=account.attempt,
                resizes=account.resizes,
                team=account.team,
                queue=account.queue,
                namespace=account.namespace,
                flavor=account.flavor,
                day=day,
                used=amounts.used,
                unused=amounts.unused,
                unmeasured=amounts.unmeasured,
                price_microdollars_per_gpu_hour=price.microdollars_per_gpu_hour,
                purchase=price.purchase,
                ended=ended,
            )

    def _close(
        self, workload_id: str, account: ChargedAttempt, until_ms: int, before_day: int
    ) -> None:
        """Days before this one change no more; what was not settled of them is unmeasured."""
        charged = _charged(account, until_ms)
        for day in range(account.day, before_day):
            sums = self._sums(workload_id, day)
            rest = charged.get(day, 0) - sums.used - sums.unused - sums.unmeasured
            if rest > 0:
                sums.unmeasured += rest
                unmeasured = UseAmounts(unmeasured=rest)
                self._use.total(account.team, account.flavor).add(unmeasured)
                self._like_work.settled(workload_id, until_ms, unmeasured)
            self._use.close(account, sums)
            for name in self._memory.nodes_of.get(workload_id, ()):
                node = self._use.nodes[name]
                node.sums.get(workload_id, {}).pop(day, None)
                self._keep(name)
        account.day = max(account.day, before_day)

    def _keep(self, name: str) -> None:
        """Write down what is known of a node, or forget one that is gone and holds nothing."""
        known = self._memory.nodes.get(name)
        if known is None or known.present or self._use.nodes[name].sums:
            self._use.keep(name)
        else:
            self._recent.pop(name, None)
            self._use.forget(name)

    def _sums(self, workload_id: str, day: int) -> Sums:
        """What is settled of it on all of its nodes."""
        found = Sums()
        for name in self._memory.nodes_of.get(workload_id, ()):
            found.add(self._use.nodes[name].sums.get(workload_id, {}).get(day) or Sums())
        return found


def _charged(account: ChargedAttempt, until_ms: int) -> Mapping[int, int]:
    """What the ledger charges for it by day."""
    return {
        day: account.gpu_milli * (end_ms - begin_ms)
        for day, begin_ms, end_ms in parts_of_days(account.started_ms, until_ms)
    }
