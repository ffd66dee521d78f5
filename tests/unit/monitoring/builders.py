"""Facts as monitoring reads them, and tables that understand its statements."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.monitoring import ledger, use_memory
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import (
    Gpu,
    GpuShare,
    Node,
    Placement,
    PodPlacement,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import Resources
from shared.events import nodes, organisation, quotas, topics, workloads
from shared.events.envelope import Event, Received, event_id
from shared.events.registry import BY_TOPIC, NAME_BY_TYPE
from shared.events.workloads import Wire
from shared.runtime import journal

APPEND, FORGET, READ = (
    one.format(schema="monitoring") for one in (journal.APPEND, journal.FORGET, journal.READ)
)
START_MS = 1_700_000_000_000
_numbers = itertools.count()
TOPIC_OF = {
    payload: topic
    for topic, payloads in BY_TOPIC.items()
    if topic is not topics.SUBMISSION_COMMANDS
    for payload in payloads
}


def received(payload: Wire, time_ms: int = START_MS) -> Received:
    """`payload` as it comes from its topic; every call is another message."""
    number = next(_numbers)
    subject = getattr(payload, "workload_id", "")
    event = Event(
        id=event_id(time_ms, f"cause-{number}", "test", 0),
        type=NAME_BY_TYPE[type(payload)],
        source="test",
        subject=subject,
        time_ms=time_ms,
        key=subject,
        payload=payload,
    )
    topic = TOPIC_OF[type(payload)].name
    logged_ms = getattr(payload, "at_ms", time_ms)
    return Received(event=event, topic=topic, partition=0, offset=number, logged_ms=logged_ms)


def queued(workload_id: str = "w1", team: str = "vision") -> workloads.WorkloadQueued:
    labels = {"project": f"of-{team}"}
    spec = WorkloadSpec(name="train", kind=WorkloadKind.TRAINING, labels=labels)
    workload = Workload(
        id=workload_id,
        team=team,
        queue=f"{team}-queue",
        cell=0,
        priority=100,
        spec=spec,
        submitted_at_ms=START_MS,
    )
    return workloads.WorkloadQueued(workload=workload, body_hash="")


def _state(fact: type[Wire]) -> State:
    words = {
        workloads.WorkloadPlaced: State.PLACED,
        workloads.WorkloadBound: State.BOUND,
        workloads.WorkloadRunning: State.RUNNING,
        workloads.WorkloadResized: State.RUNNING,
        workloads.WorkloadSucceeded: State.SUCCEEDED,
        workloads.WorkloadFailed: State.FAILED,
        workloads.WorkloadCancelled: State.CANCELLED,
        workloads.WorkloadEvicted: State.EVICTING,
        workloads.WorkloadRequeued: State.QUEUED,
        workloads.WorkloadHeld: State.HELD,
    }
    return words[fact]


def a_fact(fact, version, workload_id="w1", team="vision", attempt=1, **more):
    return fact(
        workload_id=workload_id,
        team=team,
        queue=f"{team}-queue",
        version=version,
        state=_state(fact),
        attempt=attempt,
        priority=100,
        **more,
    )


def placed(version=2, workload_id="w1", team="vision", attempt=1, at_ms=START_MS, **more):
    flavor = more.get("flavor", "h100")
    shares = more.get("shares", (GpuShare(index=0, mask=255, milli=1000, memory_mib=0),))
    pod = PodPlacement(pod_set="main", rank=0, node=more.get("node", "n1"), shares=shares)
    milli = sum(share.milli for share in shares)
    return a_fact(
        workloads.WorkloadPlaced,
        version,
        workload_id,
        team,
        attempt,
        placement=Placement(flavor=flavor, pods=(pod,), charge=Resources(gpu_milli=milli)),
        placed_at_ms=at_ms,
        submitted_at_ms=START_MS,
    )


def resized(version, gpus, resizes, at_ms):
    shares = (GpuShare(index=0, mask=255, milli=1000, memory_mib=0),)
    pods = tuple(
        PodPlacement(pod_set="main", rank=rank, node=f"n{rank + 1}", shares=shares)
        for rank in range(gpus)
    )
    charge = Resources(gpu_milli=1000 * gpus)
    return a_fact(
        workloads.WorkloadResized,
        version,
        placement=Placement(flavor="h100", pods=pods, charge=charge),
        resized_at_ms=at_ms,
        resizes=resizes,
    )


def released(fact, version, at_ms, workload_id="w1", team="vision", *, attempt=1, **more):
    return a_fact(
        fact,
        version,
        workload_id,
        team,
        attempt,
        released_at_ms=at_ms,
        released_attempt=attempt,
        **more,
    )


def refused(
    reason: Reason = Reason.NO_CAPACITY,
    nomination: int = 1,
    workload_id: str = "w1",
    team: str = "vision",
) -> workloads.PlacementRefused:
    return workloads.PlacementRefused(
        workload_id=workload_id,
        team=team,
        queue=f"{team}-queue",
        nomination=nomination,
        reason=reason,
        message="",
        next_step="",
    )


def refused_by_quota(reason=Reason.WAITING_FOR_QUOTA, workload_id="w1", team="vision"):
    return quotas.QuotaRefused(
        workload_id=workload_id,
        team=team,
        queue=f"{team}-queue",
        reason=reason,
        message="",
        next_step="",
    )


def a_node(name="n1", generation=1, gpus=2, flavor="h100"):
    node = Node(
        name=name,
        flavor=flavor,
        product="H100",
        cpu_milli=1000,
        memory_mib=1000,
        gpus=tuple(Gpu(index=i, uuid=f"{name}-{i}", memory_mib=80_000) for i in range(gpus)),
    )
    return nodes.NodeInventoryReported(node=node, generation=generation)


def usage(*percent, node="n1", at_ms=START_MS, instances=()):
    zeros = (0,) * len(percent)
    return nodes.GpuUsageReported(
        node=node,
        at_ms=at_ms,
        utilization_percent=percent,
        memory_used_mib=zeros,
        temperature_celsius=zeros,
        power_watts=zeros,
        instances=tuple(
            nodes.InstanceUse(gpu=gpu, mask=mask, utilization_percent=each, number=number)
            for number, (gpu, mask, each) in enumerate(instances, 7)
        ),
    )


def replace_time(report, at_ms):
    return msgspec.structs.replace(report, at_ms=at_ms)


def a_flavor(price, version=1, name="h100", **more):
    return organisation.FlavorApplied(
        name=name, version=version, price_microdollars_per_gpu_hour=price, **more
    )


@dataclass
class Tables:
    """The tables as dictionaries, with the meaning of the service's own statements."""

    intervals: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict)
    prices: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict)
    journal: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    def apply(self, writes):
        known = {
            ledger.INTERVALS: self._intervals,
            ledger.PRICES: self._prices,
            ledger.DATED_PRICES: self._dated_prices,
            APPEND: self._append,
            FORGET: self._forget,
        }
        for write in sorted(writes, key=lambda one: one.sql != FORGET):
            known[write.sql](*write.arguments)

    def _intervals(self, *columns):
        for workload_id, attempt, resizes, *row in zip(*columns, strict=True):
            size = (resizes,) if resizes else ()
            known = self.intervals.setdefault((workload_id, attempt, *size), row)
            for index in range(2, 6):
                known[index] = row[index] if known[index] is None else known[index]

    def _prices(self, *columns):
        for name, version, *row in zip(*columns, strict=True):
            self.prices.setdefault((name, version), row)

    def _dated_prices(self, *columns):
        for name, version, applied_at_ms, *row in zip(*columns, strict=True):
            self.prices.setdefault((name, version, applied_at_ms), [applied_at_ms, *row])

    def _append(self, *columns):
        for seq, entries, body in zip(*columns, strict=True):
            assert seq not in self.journal
            self.journal[seq] = (entries, body)

    def _forget(self, seq):
        self.journal = {one: row for one, row in self.journal.items() if one >= seq}

    async def fetch(self, sql, *arguments):
        if sql == use_memory.PRICES:
            return [
                {
                    "flavor": name,
                    "version": version,
                    "applied_at_ms": applied_at_ms,
                    "microdollars_per_gpu_hour": price,
                    "purchase": purchase,
                }
                for (name, version, *_), (applied_at_ms, price, purchase) in self.prices.items()
            ]
        assert sql == READ
        return [
            {"seq": seq, "entries": entries, "body": body}
            for seq, (entries, body) in sorted(self.journal.items())
        ]
