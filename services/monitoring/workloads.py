"""What facts about workloads do to memory.

Facts of placement come in order and carry the whole state, so a newer version replaces an older.
`WorkloadQueued` and the refusals of quota travel on topics of their own and may come late: a
workload that is over is kept until its `WorkloadQueued` was read, and gauges show nothing of
which only a refusal is known.
"""

from __future__ import annotations

from typing import Final

from services.monitoring.memory import WORKLOAD, MonitoringMemory
from services.monitoring.records import SeenWorkload, devices_of
from services.monitoring.use import GpuHours
from shared.core.backfill.estimates import said_seconds
from shared.core.model.amounts import amount
from shared.core.model.charges import gpu_milli, least_amount
from shared.core.model.lifecycle import HOLDING, TERMINAL, State
from shared.core.model.nouns import WorkloadSpec
from shared.core.needed_nodes import WaitingGang, gang_need
from shared.core.queueing.nomination import choice_of
from shared.core.rightsize import without_counter
from shared.events.nodes import NodeDevicesLearned
from shared.events.quotas import QuotaRefused
from shared.events.workloads import (
    PlacementRefused,
    WorkloadFact,
    WorkloadPlaced,
    WorkloadQueued,
    WorkloadReleasedDevices,
    WorkloadResized,
    WorkloadRunning,
)

EARLY_MAX: Final = 100_000
TOPIC_OF_TEAM: Final = "the topic of its team"
"""Where a submission came from that names no caller."""


class Workloads:
    """Applies facts to a memory."""

    def __init__(self, memory: MonitoringMemory, use: GpuHours) -> None:
        self._memory = memory
        self._use = use

    def queued(self, fact: WorkloadQueued) -> None:
        """Admission has accepted it; comes exactly once."""
        memory, workload = self._memory, fact.workload
        one = memory.workloads.get(workload.id)
        if one is None:
            one = SeenWorkload(team=workload.team, queue=workload.queue)
            memory.workloads[workload.id] = one
        memory.early.pop(workload.id, None)
        memory.count(one, -1)
        one.queued = True
        one.idle_timeout_seconds = workload.spec.idle_timeout_seconds
        one.namespace = workload.namespace or workload.team
        one.submitter = fact.by or (TOPIC_OF_TEAM if fact.door == "kafka" else "")
        _know(one, workload.spec)
        one.wanted = WaitingGang(
            queue=workload.queue,
            need=gang_need(workload.spec),
            request=least_amount(workload.spec),
            choice=choice_of(workload.spec),
        )
        one.asked_milli = sum(pods.count * gpu_milli(pods.gpu) for pods in workload.spec.pod_sets)
        if one.version == 0:
            one.priority = workload.priority
        one.waits_since_ms = one.waits_since_ms or workload.submitted_at_ms
        memory.count(one, 1)
        self._keep(workload.id, one)

    def refused(self, fact: QuotaRefused | PlacementRefused) -> None:
        """Quota says why it is not nominated, or placement why it is not placed."""
        one = self._known(fact.workload_id, fact.team, fact.queue)
        if one.state is State.QUEUED:
            self._because(fact.workload_id, one, fact.reason.value)

    def changed(self, fact: WorkloadFact) -> bool:
        """A transition; false when a newer one is known."""
        one = self._known(fact.workload_id, fact.team, fact.queue)
        if fact.version <= one.version:
            return False
        memory = self._memory
        memory.count(one, -1)
        if (
            one.flavor
            and one.held
            and (fact.state not in HOLDING or isinstance(fact, (WorkloadPlaced, WorkloadResized)))
        ):
            self._give_back(fact, one)
        one.state, one.version, one.reason = fact.state, fact.version, ""
        one.priority = fact.priority
        if isinstance(fact, WorkloadReleasedDevices) and fact.released_at_ms:
            one.waits_since_ms = fact.released_at_ms
        if isinstance(fact, WorkloadPlaced):
            self._take(fact, fact.placed_at_ms, one)
        elif isinstance(fact, WorkloadResized):
            self._take(fact, fact.resized_at_ms, one)
        memory.count(one, 1)
        self._runs(fact, one)
        self._keep(fact.workload_id, one)
        return True

    def _runs(self, fact: WorkloadFact, one: SeenWorkload) -> None:
        """Whether its use is looked at, and since when; another size is looked at anew."""
        one.attempt = fact.attempt
        if isinstance(fact, WorkloadRunning):
            one.running_at_ms = fact.running_at_ms
        watch = self._memory.watches.get(fact.workload_id)
        if watch is None:
            return
        if fact.state is not State.RUNNING or watch.attempt != fact.attempt:
            self._memory.unwatch(fact.workload_id)
        elif isinstance(fact, WorkloadResized):
            self._memory.watch_anew(fact.workload_id, watch)

    def _take(self, fact: WorkloadPlaced | WorkloadResized, at_ms: int, one: SeenWorkload) -> None:
        placement = fact.placement
        one.flavor, one.gpu_milli = placement.flavor, placement.charge.gpu_milli
        one.charge = amount(placement.charge)
        one.placed_at_ms = at_ms
        price = self._memory.use.price_at(one.flavor, at_ms)
        one.microdollars, one.purchase = price.microdollars_per_gpu_hour, price.purchase.value
        self._memory.held.begin(one)
        if one.gpu_milli:
            self._use.begins(fact, one, at_ms)
            self._memory.take(fact.workload_id, devices_of(placement))

    def learned(self, fact: NodeDevicesLearned) -> None:
        """Some have other GPUs than was told: what was seen of those is no evidence."""
        memory = self._memory
        for held in fact.workloads:
            one = memory.workloads.get(held.workload_id)
            if held.workload_id in memory.devices and one and one.attempt == held.attempt:
                memory.give_back(held.workload_id)
                memory.take(held.workload_id, devices_of(held.placement))
                watch = memory.watches.get(held.workload_id)
                if watch is not None:
                    memory.watch_anew(held.workload_id, watch)

    def _give_back(self, fact: WorkloadFact, one: SeenWorkload) -> None:
        at_ms = 0  # the end of the attempt before was never read: it counts nothing
        if isinstance(fact, WorkloadReleasedDevices):
            at_ms = fact.released_at_ms
        elif isinstance(fact, WorkloadResized):
            at_ms = fact.resized_at_ms
        self._memory.held.end(one, at_ms)
        self._use.ends(fact.workload_id, at_ms)
        self._memory.give_back(fact.workload_id)

    def _known(self, workload_id: str, team: str, queue: str) -> SeenWorkload:
        """What is known of it; begun here when its `WorkloadQueued` is still to come."""
        memory = self._memory
        one = memory.workloads.get(workload_id)
        if one is None:
            one = memory.workloads[workload_id] = SeenWorkload(team=team, queue=queue)
            memory.early[workload_id] = None
            if len(memory.early) > EARLY_MAX:
                self._forget(next(iter(memory.early)))
        return one

    def _forget(self, workload_id: str) -> None:
        del self._memory.early[workload_id]
        one = self._memory.workloads[workload_id]
        if not one.counted:
            del self._memory.workloads[workload_id]
            self._memory.journal.drop(WORKLOAD, workload_id)

    def _because(self, workload_id: str, one: SeenWorkload, reason: str) -> None:
        self._memory.count(one, -1)
        one.reason = reason
        self._memory.count(one, 1)
        self._keep(workload_id, one)

    def _keep(self, workload_id: str, one: SeenWorkload) -> None:
        memory = self._memory
        if one.state in TERMINAL and one.queued:
            del memory.workloads[workload_id]
            memory.journal.drop(WORKLOAD, workload_id)
        else:
            memory.journal.put(WORKLOAD, workload_id, one)


def _know(one: SeenWorkload, spec: WorkloadSpec) -> None:
    """What makes it like other work."""
    with_gpus = [pods for pods in spec.pod_sets if gpu_milli(pods.gpu)]
    one.said_seconds = said_seconds(spec)
    one.kind, one.stem = spec.kind.value, without_counter(spec.name)
    one.image = next((pods.image for pods in with_gpus), "")
    one.gpus_each = max((pods.gpu.count for pods in with_gpus), default=0) or 1
