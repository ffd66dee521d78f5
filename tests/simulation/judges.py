"""What must hold: the client's ledger, the cluster, and the rules of `operations.check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from operations.check.audit import check_chain
from operations.check.log import decode
from operations.check.model import Evidence, Log
from operations.check.order import check_equality, check_order
from shared.adapters.memory_cluster import MemoryCluster
from shared.events.topics import QUOTA_FACTS
from tests.simulation.faults import SERVICES

if TYPE_CHECKING:
    from tests.simulation.world import World


def doubled_gpus(cluster: MemoryCluster) -> list[str]:
    """GPUs that two pods hold which have not ended."""
    held = Counter(
        (pod.node, one.index)
        for pod in cluster.pods.all_pods()
        if pod.node and not pod.ended
        for one in pod.shares
    )
    return [f"GPU {place} is held by {count} pods" for place, count in held.items() if count > 1]


def verdict(world: World) -> Iterator[str]:
    """Every rule that is broken, a sentence each."""
    yield from (f"crash: {one}" for one in world.crashes)
    yield from world.doubled[:3]
    yield from _commands(world)
    yield from _attempts(world)
    for name in SERVICES:
        yield from (
            f"{name}: written by a past holder: {one}" for one in world.databases[name].stale[:3]
        )
    evidence = evidence_of(world)
    for check in (check_order, check_equality, check_chain):
        for one in check(evidence).violations[:3]:
            yield f"{check.__name__}: {one.subject}: {one.detail}"


def _commands(world: World) -> Iterator[str]:
    accepted = world.client.accepted
    told = {one.id: one.subject for one in records_of(world) if one.topic == QUOTA_FACTS.name}
    effects = {
        name: Counter(one.subject for one in world.databases[name].shard(name).audits)
        for name in ("admission", "quota")
    }
    for name, count in (effects | {"the log": Counter(told.values())}).items():
        for subject in accepted:
            if count[subject] != 1:
                what = "lost" if not count[subject] else f"done {count[subject]} times"
                yield f"{subject}: {what}, says {name}"


def _attempts(world: World) -> Iterator[str]:
    client = world.client
    for subject in client.bound:
        told = client.ended.get(subject, [])
        if not told:
            yield f"{subject}: no end was told"
        elif len(told) != len(set(told)) or len(told) > 2:
            yield f"{subject}: its end was told {told}"
    for pod in world.cluster.pods.all_pods():
        if not pod.ended and pod.workload_id in client.ended:
            yield f"{pod.name}: lives, and its end was told"


def records_of(world: World) -> list[Any]:
    """The log as the checker reads it, complete: what was trimmed, too."""
    places = sorted(world.log.records)
    made = (decode(place[0], one) for place in places for one in world.log.records[place])
    return [one for one in made if one is not None]


def evidence_of(world: World) -> Evidence:
    """Rows and log for the checker."""
    outbox, audit, marks = [], [], []
    for name in SERVICES:
        shard = world.databases[name].shard(name)
        place = {"schema": name, "shard": name}
        marks.append(place | {"acked_seq": shard.acked_seq})
        outbox += [
            place
            | {"seq": one.seq, "event_id": one.event_id, "topic": one.topic}
            | {"partition": one.partition, "key": one.key, "epoch": 1}
            for one in shard.outbox
        ]
        fields = ("seq", "event_id", "subject", "version", "kind", "before", "after", "actor")
        audit += [
            place
            | {field: getattr(row, field) for field in fields}
            | {"at_ms": row.at_ms, "epoch": 1, "digest": row.digest}
            for row in shard.audits
        ]
    ends = {place: len(records) for place, records in world.log.records.items()}
    log = Log(records=records_of(world), ends_before=ends)
    return Evidence(rows={"outbox": outbox, "audit": audit, "watermark": marks}, log=log)
