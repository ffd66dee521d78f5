"""Python time for a message in admission and quota: `python -m tests.benchmarks.admission_quota`.

Each handler decides on 20,000 messages in batches of 500, without broker or database; encoding
of what it emits is included, because the loop does that too. The budget is 40 us in each service.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from services.admission.handler import AdmissionHandler
from services.quota.handler import QuotaHandler
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest, Placement, PodSet, WorkloadKind, WorkloadSpec
from shared.core.model.units import Resources
from shared.events import workloads
from shared.events.codec import encode_payload
from shared.events.envelope import Received, workload_id
from shared.events.fingerprint import body_hash
from shared.events.nodes import NodeInventoryReported
from shared.events.topics import (
    NODE_FACTS,
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    SUBMISSION_COMMANDS,
    WORKLOAD_FACTS,
    team_submissions,
)
from shared.events.workloads import Wire
from shared.runtime.handler import Handler, Outcome
from tests.unit.admission.builders import TEAM, a_node
from tests.unit.admission.support import (
    NoRows,
    a_queue_document,
    a_team_document,
    received,
)

BATCH = 500
UNLIMITED_GPUS = 1_000_000
GPUS = (1, 1, 1, 1, 2, 4, 8)


SIZES = 250
"""Different sizes of CPU and memory; openb's default list has about as many."""


def spec_of(number: int, generator: random.Random, sizes: int = SIZES) -> WorkloadSpec:
    """One workload in openb's manner: few GPU sizes, some hundred sizes of CPU and memory."""
    size = generator.randrange(sizes)
    pod_set = PodSet(
        count=generator.choice((1,) * 19 + (4,)),
        gpu=GpuRequest(count=generator.choice(GPUS)),
        cpu_milli=1000 + size % 63 * 1000,
        memory_mib=4096 + size // 63 * 16,
        image="registry.example/team/train:1",
        command=("python", "train.py"),
    )
    return WorkloadSpec(name=f"w-{number}", kind=WorkloadKind.TRAINING, pod_sets=(pod_set,))


def run(handler: Handler, messages: Sequence[Received], *, encode: bool = True) -> list[Outcome]:
    """Decide all, in batches."""
    outcomes = []
    reader = NoRows()
    loop = asyncio.new_event_loop()
    for start in range(0, len(messages), BATCH):
        batch = messages[start : start + BATCH]
        loop.run_until_complete(handler.prepare(batch, reader))
        outcomes.append(handler.decide(batch, 1_000_000))
        if encode:
            for emit in outcomes[-1].emits:
                encode_payload(emit.payload)
    loop.close()
    return outcomes


def timed(name: str, count: int, action: Callable[[], list[Outcome]]) -> list[Outcome]:
    """Run and print microseconds for each of `count`."""
    started = time.process_time()
    outcomes = action()
    seconds = time.process_time() - started
    print(f"{name:<58}{seconds / count * 1e6:8.1f} us")
    return outcomes


def messages_of(payloads: Sequence[Wire], topic: str, *, keys: bool = False) -> list[Received]:
    """In the order given, each at its place in the log."""
    return [
        received(one, topic, number, key=f"k{number}" if keys else "")
        for number, one in enumerate(payloads)
    ]


def admission(
    specs: Sequence[WorkloadSpec], nodes: int, *, kafka: bool, note: str = ""
) -> list[Wire]:
    """All submissions through admission; what it emitted."""
    handler = AdmissionHandler()
    run(
        handler,
        messages_of(
            [a_team_document(), a_queue_document(gpus=UNLIMITED_GPUS)], ORGANISATION_FACTS.name
        ),
    )
    racks = [a_node(f"n{i}", rack=f"r{i // 32}") for i in range(nodes)]
    reports = [NodeInventoryReported(node=one, generation=1) for one in racks]
    timed(
        f"admission: node report ({nodes} nodes)",
        nodes,
        lambda: run(handler, messages_of(reports, NODE_FACTS.name)),
    )
    if kafka:
        topic = team_submissions(TEAM).name
        commands = [workloads.SubmitWorkload(spec=one) for one in specs]
    else:
        topic = SUBMISSION_COMMANDS.name
        commands = [
            workloads.SubmitWorkload(
                workload_id=workload_id(TEAM, str(number)),
                team=TEAM,
                spec=one,
                body_hash=body_hash(one),
            )
            for number, one in enumerate(specs)
        ]
    messages = messages_of(commands, topic, keys=kafka)
    door = "kafka" if kafka else "http"
    name = f"admission: submission by {door}{note}"
    outcomes = timed(name, len(specs), lambda: run(handler, messages))
    return [emit.payload for outcome in outcomes for emit in outcome.emits]


def facts_of(queued: Sequence[workloads.WorkloadQueued], flavor: str) -> list[Wire]:
    """What placement tells of lives without incident."""
    facts: list[Wire] = []
    for one in queued:
        common: dict[str, Any] = {
            "workload_id": one.workload.id,
            "team": one.workload.team,
            "queue": one.workload.queue,
            "attempt": 1,
            "priority": 0,
        }
        placement = Placement(flavor=flavor, pods=(), charge=Resources(gpu_milli=1000))
        facts += [
            workloads.WorkloadPlaced(
                version=2,
                state=State.PLACED,
                placement=placement,
                placed_at_ms=1,
                submitted_at_ms=1,
                **common,
            ),
            workloads.WorkloadRunning(version=3, state=State.RUNNING, running_at_ms=2, **common),
            workloads.WorkloadSucceeded(
                version=4, state=State.SUCCEEDED, released_at_ms=9, released_attempt=1, **common
            ),
        ]
    return facts


def quota(queued: Sequence[workloads.WorkloadQueued], gpus: int, name: str) -> None:
    """Whole lives through quota: queued, then placed, running and succeeded."""
    handler = QuotaHandler()
    run(handler, messages_of([a_queue_document(gpus=gpus)], ORGANISATION_FACTS.name))
    count = len(queued)
    arrivals = messages_of(queued, QUEUE_FACTS.name)
    timed(f"quota, {name}: queued", count, lambda: run(handler, arrivals))
    facts = messages_of(facts_of(queued, "h100"), WORKLOAD_FACTS.name)
    timed(f"quota, {name}: placed+running+succeeded", count, lambda: run(handler, facts))


def contended(queued: Sequence[workloads.WorkloadQueued]) -> None:
    """Everything waits behind a full fleet: every nomination is refused by placement."""
    handler = QuotaHandler()
    run(handler, messages_of([a_queue_document(gpus=64)], ORGANISATION_FACTS.name))
    run(handler, messages_of(queued, QUEUE_FACTS.name))
    refusals = [
        workloads.PlacementRefused(
            workload_id=one.workload.id,
            team=TEAM,
            queue=one.workload.queue,
            nomination=1,
            reason=Reason.NO_CAPACITY,
            message="",
            next_step="",
        )
        for one in queued
    ]
    messages = messages_of(refusals, WORKLOAD_FACTS.name)
    timed("quota, 64 GPUs, full fleet: refused", len(queued), lambda: run(handler, messages))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    options = parser.parse_args()
    generator = random.Random(7)
    specs = [spec_of(number, generator) for number in range(options.messages)]
    unlike = [spec_of(number, generator, 10_000) for number in range(options.messages)]
    admission(unlike, options.nodes, kafka=True, note=", all different")
    admission(specs, options.nodes, kafka=True)
    emitted = admission(specs, options.nodes, kafka=False)
    queued = [one for one in emitted if isinstance(one, workloads.WorkloadQueued)]
    print(f"queued {len(queued)} of {len(specs)}")
    quota(queued, UNLIMITED_GPUS, "ample")
    quota(queued, 64, "64 GPUs")
    contended(queued)


if __name__ == "__main__":
    main()
