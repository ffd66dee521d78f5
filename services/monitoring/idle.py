"""Watches for idle work: reports of use become runs, and runs now and then a fact (ADR 27).

A report is looked at by each workload that has GPUs on the node, O(1) for each; a gang as a whole
only with the reports of its first node, so a report never costs O(pods). What is observed is
written down when something is told and once a minute, not with every report: after a restart the
last minute is missing, which is less than a gap.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from services.monitoring.memory import POLICY, WATCH, MonitoringMemory
from services.monitoring.records import SeenWorkload, Watch
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.nodes.idleness import (
    Idleness,
    IdlenessLimits,
    ToldIdleness,
    Word,
    limits_of,
    observe,
    use_percent,
    whole,
    word_of,
)
from shared.events.envelope import Received
from shared.events.idleness import IdlenessEnded, IdlenessNoticed
from shared.events.nodes import GpuUsageReported
from shared.events.organisation import TeamApplied
from shared.events.topics import IDLENESS_FACTS
from shared.runtime.handler import Emit

KEEP_MS: Final = 60_000
"""What was observed since is lost by a restart at most."""
LIMITS_MAX: Final = 10_000


class Idle:
    """Watches over the workloads of a memory."""

    def __init__(self, memory: MonitoringMemory, cell: int) -> None:
        self._memory = memory
        self._cell = cell
        self._limits: dict[tuple[str, int | None], IdlenessLimits | None] = {}

    def policy(self, fact: TeamApplied) -> None:
        """What a team wants; it holds from the next report on."""
        memory = self._memory
        known = memory.policies.get(fact.name)
        if fact.idle is None and known is not None:
            del memory.policies[fact.name]
            memory.journal.drop(POLICY, fact.name)
        elif fact.idle is not None and fact.idle != known:
            memory.policies[fact.name] = fact.idle
            memory.journal.put(POLICY, fact.name, fact.idle)
        self._limits.clear()

    def reported(self, message: Received, fact: GpuUsageReported) -> list[Emit]:
        """What a report of a node lets be said about the work on it. O(workloads there)."""
        memory = self._memory
        here, at_ms = memory.shares.get(fact.node), message.logged_ms
        if not here:
            return []
        held: Counter[int] = Counter()
        for shares in here.values():
            for gpu, milli, _ in shares:
                held[gpu] += milli
        instances = {(one.gpu, one.mask): one.utilization_percent for one in fact.instances}
        emits = []
        for workload_id, shares in here.items():
            one = memory.workloads.get(workload_id)
            if one is None or one.state is not State.RUNNING or at_ms < one.running_at_ms:
                continue
            limits = self._limits_of(one)
            if limits is None and workload_id not in memory.watches:
                continue
            of_shares = [(gpu, mask) for gpu, _, mask in shares]
            told, unread = fact.utilization_percent, fact.unread
            percent = use_percent(of_shares, held, told, unread, instances)
            said = self._observe(workload_id, one, limits, (fact.node, at_ms, percent))
            if said is not None:
                emits.append(self._emit(said, message))
        return emits

    def _limits_of(self, one: SeenWorkload) -> IdlenessLimits | None:
        key = (one.team, one.idle_timeout_seconds)
        if key not in self._limits:
            if len(self._limits) >= LIMITS_MAX:
                self._limits.clear()
            policy = self._memory.policies.get(one.team)
            self._limits[key] = limits_of(policy, one.idle_timeout_seconds)
        return self._limits[key]

    def _observe(
        self,
        workload_id: str,
        one: SeenWorkload,
        limits: IdlenessLimits | None,
        report: tuple[str, int, int | None],
    ) -> IdlenessNoticed | IdlenessEnded | None:
        """`report` is (node, time, use in per cent)."""
        memory, (node, at_ms, percent) = self._memory, report
        watch = memory.watches.setdefault(workload_id, Watch(attempt=one.attempt))
        if limits is not None:
            run = observe(watch.runs.get(node), at_ms, percent, limits.percent_below)
            if run is None:
                return None
            watch.runs[node] = run
            in_use = run.since_ms > run.until_ms
            if in_use:
                self._forget(workload_id, watch)
            if node != memory.nodes_of[workload_id][0] and not (in_use and watch.told):
                return None
        idle = whole(watch.runs.get(other) for other in memory.nodes_of[workload_id])
        if idle is None:
            return None
        return self._say(workload_id, one, limits, (watch, idle))

    def _say(
        self,
        workload_id: str,
        one: SeenWorkload,
        limits: IdlenessLimits | None,
        seen: tuple[Watch, Idleness],
    ) -> IdlenessNoticed | IdlenessEnded | None:
        watch, idle = seen
        word = word_of(idle, limits, watch.told)
        if word is Word.NOTHING:
            self._keep(workload_id, watch, idle)
            return None
        who: dict[str, Any] = {
            "workload_id": workload_id,
            "team": one.team,
            "queue": one.queue,
            "attempt": watch.attempt,
            "cell": self._cell,
        }
        if word is Word.ENDED:
            return self._ended(who, limits, (watch, idle))
        assert limits is not None
        watch.told = ToldIdleness(since_ms=idle.since_ms, until_ms=idle.until_ms)
        self._keep(workload_id, watch, idle, told=True)
        return IdlenessNoticed(
            **who,
            since_ms=idle.since_ms,
            until_ms=idle.until_ms,
            utilization_percent=idle.percent,
            percent_below=limits.percent_below,
            release_at_ms=idle.since_ms + limits.release_ms if limits.release_ms else 0,
            reminder=word is Word.REMINDED,
        )

    def _ended(
        self, who: dict[str, Any], limits: IdlenessLimits | None, seen: tuple[Watch, Idleness]
    ) -> IdlenessEnded:
        watch, idle = seen
        assert watch.told is not None
        since_ms, watch.told = watch.told.since_ms, None
        reason = Reason.USED if idle.idle_ms < 0 else Reason.UNSEEN
        if limits is None:
            reason = Reason.EXEMPT
            self._memory.unwatch(who["workload_id"])
        else:
            self._keep(who["workload_id"], watch, idle, told=True)
        return IdlenessEnded(
            **who, since_ms=since_ms, ended_at_ms=max(idle.until_ms, since_ms), reason=reason
        )

    def _forget(self, workload_id: str, watch: Watch) -> None:
        """It is in use: what is written down must not come back with a restart."""
        if watch.kept_ms:
            watch.kept_ms = 0
            self._memory.journal.drop(WATCH, workload_id)

    def _keep(self, workload_id: str, watch: Watch, idle: Idleness, *, told: bool = False) -> None:
        """Write down what a restart must not forget."""
        if told or (idle.idle_ms > 0 and idle.until_ms - watch.kept_ms >= KEEP_MS):
            watch.kept_ms = idle.until_ms
            self._memory.journal.put(WATCH, workload_id, watch)

    def _emit(self, said: IdlenessNoticed | IdlenessEnded, message: Received) -> Emit:
        return Emit(
            payload=said,
            topic=IDLENESS_FACTS,
            subject=said.workload_id,
            cause=message,
            partition=self._cell,
        )
