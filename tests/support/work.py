"""Fleets and submissions for benchmarks and the kill test: openb's sizes, gangs, seeded."""

from __future__ import annotations

import csv
import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path

from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Level,
    Node,
    PodSet,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.nodes import NodeInventoryReported
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import NODE_FACTS, Topic, team_submissions
from shared.events.workloads import SubmitWorkload, Wire
from shared.ports.store import OutboxRow

GPU_MEMORY_MIB = 81_920
GANG_SHARE = 0.05
# Shares of openb's default pods by (gpus, milli), for machines without the trace.
BUILT_IN_SIZES = (
    [(0, 0, 6_000)] * 133
    + [(1, 810, 8_000)] * 132
    + [(1, 470, 6_000)] * 92
    + [(1, 320, 4_000)] * 40
    + [(1, 650, 6_000)] * 31
    + [(1, 230, 3_000)] * 83
    + [(1, 1_000, 11_000)] * 480
    + [(2, 1_000, 16_000)] * 4
    + [(4, 1_000, 32_000)] * 2
    + [(8, 1_000, 64_000)] * 3
)


def fleet(count: int) -> Iterator[Node]:
    """`count` machines with 8 H100 each: 16 in a rack, 8 racks in a block, 8 blocks in a zone."""
    for number in range(count):
        rack = number // 16
        yield Node(
            name=f"node-{number:05d}",
            flavor="default",
            product="H100-SXM5-80GB",
            cpu_milli=128_000,
            memory_mib=1_048_576,
            gpus=tuple(
                Gpu(index=index, uuid=f"GPU-{number:05d}-{index}", memory_mib=GPU_MEMORY_MIB)
                for index in range(8)
            ),
            zone=f"zone-{rack // 64}",
            block=f"block-{rack // 8}",
            rack=f"rack-{rack}",
            driver="570.0",
            cuda="12.8",
        )


def sizes() -> list[tuple[int, int, int]]:
    """(GPUs, milli of each, CPU milli) of openb's default pods, or their shares built in."""
    folder = Path(os.environ.get("MUSTER_DATA", "../shared/data"))
    path = folder / "openb" / "openb_pod_list_default.csv.gz"
    if not path.exists():
        return BUILT_IN_SIZES
    with gzip.open(path, "rt") as file:
        return [
            (int(row["num_gpu"]), int(row["gpu_milli"] or 0), int(row["cpu_milli"]))
            for row in csv.DictReader(file)
        ]


def submissions(
    count: int, seed: int, *, run_seconds: int | None = None, gangs: float = GANG_SHARE
) -> Iterator[WorkloadSpec]:
    """Seeded specs: openb's mix, and a share of gangs of 2 to 8 pods that want one rack."""
    generator = random.Random(seed)
    pods = sizes()
    for number in range(count):
        gpus, milli, cpu_milli = generator.choice(pods)
        gang = gpus > 0 and generator.random() < gangs
        size = (gpus, milli, cpu_milli)
        yield _spec(number, size, generator if gang else None, run_seconds)


def _spec(
    number: int,
    size: tuple[int, int, int],
    gang: random.Random | None,
    run_seconds: int | None,
) -> WorkloadSpec:
    gpus, milli, cpu_milli = size
    fraction = gpus == 1 and milli < 1_000
    request = GpuRequest(count=gpus)
    if fraction:
        request = GpuRequest(milli=milli, memory_mib=milli * GPU_MEMORY_MIB // 1_000)
    if gang is not None:
        fraction, request = False, GpuRequest(count=gang.choice((1, 1, 2, 4, 8)))
    pod_set = PodSet(
        name="worker",
        count=gang.randint(2, 8) if gang is not None else 1,
        gpu=request,
        cpu_milli=max(cpu_milli, 1_000),
        memory_mib=8_192,
        image="registry.local/train:1",
    )
    return WorkloadSpec(
        name=f"bench-{number}",
        kind=(WorkloadKind.TRAINING if gpus and not fraction else WorkloadKind.BATCH_INFERENCE),
        pod_sets=(pod_set,),
        topology=TopologyRequest(preferred=Level.RACK) if gang is not None else TopologyRequest(),
        expected_duration_seconds=run_seconds,
    )


def node_row(number: int, node: Node, now_ms: int) -> OutboxRow:
    """A node's inventory as a record of node.facts."""
    payload = NodeInventoryReported(node=node, generation=1)
    return record(payload, NODE_FACTS, node.name, f"inventory-{node.name}", now_ms, number)


def submission_row(number: int, spec: WorkloadSpec, team: str, key: str, now_ms: int) -> OutboxRow:
    """A submission on the team's own topic; `key` is its idempotency key."""
    row = record(SubmitWorkload(spec=spec), team_submissions(team), key, key, now_ms, number)
    headers = [(name, key.encode() if name == "ce_id" else value) for name, value in row.headers]
    return OutboxRow(
        seq=row.seq,
        event_id=row.event_id,
        topic=row.topic,
        partition=row.partition,
        key=row.key,
        headers=headers,
        value=row.value,
    )


def record(  # noqa: PLR0917  # a record has that many parts
    payload: Wire, topic: Topic, subject: str, cause: str, now_ms: int, number: int
) -> OutboxRow:
    """Any payload as a record, with an id of its own."""
    event = Event(
        id=event_id(now_ms, cause, "test", 0),
        type=NAME_BY_TYPE[type(payload)],
        source="test",
        subject=subject,
        time_ms=now_ms,
        key=subject,
        payload=payload,
    )
    return OutboxRow(
        seq=number,
        event_id=event.id,
        topic=topic.name,
        partition=0,
        key=event.key,
        headers=encode_headers(event),
        value=encode_payload(payload),
    )
