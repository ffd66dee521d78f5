"""Muster's queue: the handler of the placement service, driven in virtual time.

A job is a nomination in order of arrival, its end a `PodsFinished`: what quota, binder and cluster
would send, without delay. Deadlines are processed when they are due, as the loop does.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.placement.handlers import PlacementHandler
from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Node,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNLIMITED, Resources
from shared.events.envelope import Event, Received, event_id
from shared.events.nodes import NodeInventoryReported
from shared.events.pods import BindWorkload, PodsFinished, PodsRunning
from shared.events.quotas import FlavorQuota, PermittedFlavor, QuotaChanged, WorkloadNominated
from shared.events.workloads import Wire
from tests.benchmarks.clos import CPU_PER_GPU, GPUS
from tests.benchmarks.queueing_world import Job, World

FLAVOR = "kalos"
QUEUE = "q"
BEGIN_MS = 1_700_000_000_000
ALL = Resources(gpu_milli=UNLIMITED, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)


class MusterQueue:
    """The placement service itself."""

    def __init__(self, world: World) -> None:
        """Its fleet and a queue with all of it."""
        self._handler = PlacementHandler()
        self._sent = 0
        self._now_ms = BEGIN_MS
        self._jobs: dict[str, Job] = {}
        quota = FlavorQuota(flavor=FLAVOR, nominal=ALL)
        self._decide(QuotaChanged(name=QUEUE, kind="queue", flavors=(quota,), version=1))
        self._decide(
            *(NodeInventoryReported(node=_node(at), generation=1) for at in range(world.nodes))
        )

    def step(self, now: float, ended: Sequence[Job], arrived: Sequence[Job]) -> list[Job]:
        """What came in one unit, and the units after it."""
        started: list[Job] = []
        until_ms = BEGIN_MS + round(now * 1000)
        self._wait(until_ms, started)
        self._now_ms = until_ms
        finished = [self._finished(job) for job in ended]
        payloads = [*finished, *map(self._nominated, arrived)]
        self._unit([self._message(one) for one in payloads], started)
        return started

    def _wait(self, until_ms: int, started: list[Job]) -> None:
        """Deadlines before `until_ms`: a promise renewed may let somebody start."""
        while (due_ms := self._handler.next_due_ms()) is not None and due_ms < until_ms:
            self._now_ms = max(self._now_ms, due_ms)
            self._unit(list(self._handler.due(self._now_ms)), started)

    def _unit(self, messages: list[Received], started: list[Job]) -> None:
        """Work runs as soon as it is placed."""
        while messages:
            new: list[Job] = []
            self._take(messages, new)
            started += new
            messages = [
                self._message(PodsRunning(workload_id=_name(job), attempt=1, at_ms=self._now_ms))
                for job in new
            ]

    def _decide(self, *payloads: Wire) -> None:
        self._take([self._message(one) for one in payloads], [])

    def _take(self, messages: list[Received], started: list[Job]) -> None:
        outcome = self._handler.decide(messages, self._now_ms)
        started += [
            self._jobs[emit.payload.workload_id]
            for emit in outcome.emits
            if isinstance(emit.payload, BindWorkload)
        ]

    def _message(self, payload: Wire) -> Received:
        self._sent += 1
        event = Event(
            id=event_id(self._now_ms, str(self._sent), "bench", 0),
            type="bench",
            source="bench",
            subject="bench",
            time_ms=self._now_ms,
            key="bench",
            payload=payload,
        )
        return Received(event=event, topic="bench", partition=0, offset=self._sent)

    def _finished(self, job: Job) -> PodsFinished:
        return PodsFinished(workload_id=_name(job), attempt=1, at_ms=self._now_ms, succeeded=True)

    def _nominated(self, job: Job) -> WorkloadNominated:
        self._jobs[_name(job)] = job
        pods = PodSet(
            count=job.hosts,
            gpu=GpuRequest(count=job.gpus),
            cpu_milli=1000 * CPU_PER_GPU * job.gpus,
            memory_mib=1024 * job.gpus,
        )
        workload = Workload(
            id=_name(job),
            team="team",
            queue=QUEUE,
            cell=0,
            priority=0,
            spec=WorkloadSpec(
                name=_name(job),
                kind=WorkloadKind.TRAINING,
                pod_sets=(pods,),
                expected_duration_seconds=max(round(job.expected), 1),
            ),
            submitted_at_ms=self._now_ms,
        )
        return WorkloadNominated(
            workload=workload,
            version=1,
            nomination=1,
            order_key=(0, self._now_ms, job.number),
            flavors=(PermittedFlavor(flavor=FLAVOR),),
        )


def _name(job: Job) -> str:
    return f"w{job.number:06d}"


def _node(number: int) -> Node:
    name = f"node-{number:03d}"
    return Node(
        name=name,
        flavor=FLAVOR,
        product="NVIDIA-A800",
        cpu_milli=1000 * CPU_PER_GPU * GPUS,
        memory_mib=1 << 20,
        gpus=tuple(Gpu(index=gpu, uuid=f"{name}-{gpu}", memory_mib=81_920) for gpu in range(GPUS)),
    )
