"""A small healthy Muster as rows and records, into which a test plants one violation.

Three workloads: `ONE` runs on a whole GPU, `TWO` is a gang of two pods with half GPUs that has
succeeded and given everything back, `NO` was rejected.
"""

import itertools
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from operations.check.audit import digest_of
from operations.check.model import Evidence, Log, Record

ONE = "w" + "a" * 26
TWO = "w" + "b" * 26
NO = "w" + "c" * 26
TEAM, QUEUE, FLAVOR, NODE = "vision", "vision-queue", "default", "node-1"
START_MS = 1_700_000_000_000
CHARGE = {"gpu_milli": 1000, "cpu_milli": 4000, "memory_mib": 8192}


def share(*, index: int = 0, mask: int = 255, milli: int = 1000, memory_mib: int = 81_920) -> dict:
    return {"index": index, "mask": mask, "milli": milli, "memory_mib": memory_mib}


def pod(rank: int, *shares: dict, node: str = NODE) -> dict:
    return {"pod_set": "main", "rank": rank, "node": node, "shares": list(shares)}


def placement(*pods: dict, charge: dict | None = None) -> dict:
    return {"flavor": FLAVOR, "pods": list(pods), "charge": charge or CHARGE}


ON_GPU_0 = placement(pod(0, share()))
HALVES = placement(
    pod(0, share(index=1, mask=0, milli=500, memory_mib=40_000)),
    pod(1, share(index=1, mask=0, milli=500, memory_mib=40_000)),
)


@dataclass
class World:
    """Rows for PostgreSQL as SQL, and records as the log would give them."""

    records: list[Record] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)
    _sequences: dict[str, Any] = field(default_factory=dict)
    _offsets: dict[str, Any] = field(default_factory=dict)
    _audits: dict[str, Any] = field(default_factory=dict)
    _digests: dict[str, bytes] = field(default_factory=dict)

    def tell(
        self,
        source: str,
        topic: str,
        kind: str,
        payload: dict,
        *,
        cause: Record | None = None,
        in_outbox: bool = True,
        in_log: bool = True,
        epoch: int = 1,
    ) -> Record:
        """A fact: a row of its producer's outbox and a record of the log."""
        sequence = self._next(self._sequences, source) if in_outbox else 0
        record = Record(
            topic=topic,
            partition=0,
            offset=self._next(self._offsets, topic) - 1 if in_log else -1,
            id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{source}/{topic}/{sequence}/{len(self.sql)}")),
            type=f"muster.{kind}.v1",
            source=source,
            sequence=sequence,
            time_ms=START_MS + len(self.records),
            causation_id=cause.id if cause else "",
            subject=payload.get("workload_id") or payload.get("workload", {}).get("id", ""),
            payload=payload,
        )
        if in_log:
            self.records.append(record)
        if in_outbox:
            key = payload.get("workload_id") or payload.get("workload", {}).get("id", "")
            self.sql.append(
                f"INSERT INTO {source}.outbox (shard, seq, event_id, topic, partition, key,"
                f" headers, value, epoch) VALUES ('0', {sequence}, '{record.id}', '{topic}', 0,"
                f" '{key}', '', '', {epoch})"
            )
        return record

    def audit(self, schema: str, subject: str, version: int, before: str, after: str) -> None:
        """One state version."""
        seq = self._next(self._audits, schema)
        row = {
            "seq": seq,
            "event_id": str(uuid.UUID(int=seq)),
            "subject": subject,
            "version": version,
            "kind": schema,
            "before": before,
            "after": after,
            "actor": "",
            "at_ms": 0,
        }
        digest = self._digests[schema] = digest_of(self._digests.get(schema, b""), row)
        self.sql.append(
            f"INSERT INTO {schema}.audit (shard, seq, event_id, subject, version, kind, before,"
            f" after, actor, at_ms, epoch, digest) VALUES ('0', {seq}, '{uuid.UUID(int=seq)}',"
            f" '{subject}', {version}, '{schema}', '{before}', '{after}', '', 0, 1,"
            f" decode('{digest.hex()}', 'hex'))"
        )

    def seal(self, schema: str) -> Record:
        """How far the audit of a service goes, on its topic."""
        payload = {
            "shard": "0",
            "sequence": self._next(self._audits, schema) - 1,
            "digest": self._digests[schema].hex(),
        }
        return self.tell(schema, f"audit-{schema}.facts.v1", "audit.sealed", payload)

    def log(self) -> Log:
        ends = {(one.topic, one.partition): one.offset + 1 for one in self.records}
        return Log(records=self.records, ends_before=ends)

    def evidence(self, rows: dict) -> Evidence:
        return Evidence(rows=rows, log=self.log())

    def _next(self, counters: dict[str, Any], key: str) -> int:
        number: int = next(counters.setdefault(key, itertools.count(1)))
        return number


def spec(name: str, *, count: int = 1) -> dict:
    return {"name": name, "kind": "training", "pod_sets": [{"name": "main", "count": count}]}


def fact(workload: str, version: int, state: str, attempt: int = 1, **more: Any) -> dict:
    return {
        "workload_id": workload,
        "team": TEAM,
        "queue": QUEUE,
        "version": version,
        "state": state,
        "attempt": attempt,
        "priority": 0,
        **more,
    }


def workload_row(workload: str, state: str, version: int, placed: dict, attempt: int = 1) -> str:
    return (
        "INSERT INTO placement.workload (id, team, queue, cell, state, version, attempt, priority,"
        " failures, submitted_at_ms, changed_at_ms, deadline_kind, deadline_ms, then_held, reason,"
        " message, nomination, nominated, body, placement, epoch) VALUES"
        f" ('{workload}', '{TEAM}', '{QUEUE}', 0, '{state}', {version}, {attempt}, 0, 0, 0, 0, '',"
        f" 0, false, '', '', 1, '', '', '{json.dumps(placed)}', 1)"
    )


def allocation_row(
    workload: str = ONE,
    *,
    attempt: int = 1,
    rank: int = 0,
    gpu: int = 0,
    mask: int = 255,
    milli: int = 1000,
    gpu_memory_mib: int = 81_920,
    cpu_milli: int = 4000,
    memory_mib: int = 8192,
    team: str = TEAM,
    queue: str = QUEUE,
    node: str = NODE,
) -> str:
    return (
        "INSERT INTO placement.allocation (workload_id, attempt, rank, node, gpu, team, queue,"
        " flavor, mask, milli, gpu_memory_mib, cpu_milli, memory_mib, epoch) VALUES"
        f" ('{workload}', {attempt}, {rank}, '{node}', {gpu}, '{team}', '{queue}', '{FLAVOR}',"
        f" {mask}, {milli}, {gpu_memory_mib}, {cpu_milli}, {memory_mib}, 1)"
    )


def attempt_row(workload: str, state: str, *, size: int) -> str:
    active = state in {"binding", "bound", "running"}
    return (
        "INSERT INTO binder.attempt (workload_id, attempt, cell, epoch, team, state, active, size,"
        f" pods, accepted_at_ms, changed_at_ms) VALUES ('{workload}', 1, 0, 1, '{TEAM}',"
        f" '{state}', {active}, {size}, '[]', 0, 0)"
    )


def verdict_row(workload: str, state: str) -> str:
    return (
        "INSERT INTO admission.workload (id, team, body_hash, state, message, errors, at_ms,"
        f" epoch) VALUES ('{workload}', '{TEAM}', '', '{state}', '', '', 0, 1)"
    )


def healthy() -> World:
    """The world in which every invariant holds."""
    world = World()
    for schema in ("gateway", "admission", "placement", "binder"):
        world.sql += [
            (
                f"INSERT INTO {schema}.lease_history VALUES ('0', 1, 'slot', now(), 1, 1),"
                " ('0', 2, 'slot', now(), 50, 50)"
            ),
            f"INSERT INTO {schema}.lease VALUES ('0', 2, 'slot', now())",
            f"INSERT INTO {schema}.watermark VALUES ('0', 1000, 1001, 1)",
        ]
    _fleet(world)
    _one_runs(world)
    _two_succeeded(world)
    _no_was_rejected(world)
    midnight_ms = 20_758 * 86_400_000
    world.sql += [
        (
            "INSERT INTO monitoring.cost_interval (workload_id, attempt, resizes, team, queue,"
            " flavor, gpu_milli, started_at_ms, ended_at_ms, epoch) VALUES"
            f" ('{TWO}', 1, 0, '{TEAM}', '{QUEUE}', '{FLAVOR}', 1000, {midnight_ms - 1_000},"
            f" {midnight_ms + 2_000}, 1)"
        ),
        *(
            "INSERT INTO gateway.gpu_usage VALUES"
            f" ({day}, '{TWO}', 1, 0, '{TEAM}', '{QUEUE}', '', '{FLAVOR}', '', '{{}}', {used}, 0,"
            f" 1000000, 0, true, 0)"
            for day, used in ((20_757, 0), (20_758, 1_000_000))
        ),
        "INSERT INTO admission.consumer_offset VALUES ('0', 'submission.commands.v1', 0, 3)",
        "INSERT INTO placement.consumer_offset VALUES ('0', 'queue.facts.v1', 0, 3)",
        "INSERT INTO placement.consumer_offset VALUES ('0', 'quota.facts.v1', 0, 1)",
    ]
    return world


def _fleet(world: World) -> None:
    gpus = [{"index": index, "memory_mib": 81_920} for index in range(2)]
    node = {"name": NODE, "cpu_milli": 64_000, "memory_mib": 262_144, "gpus": gpus}
    inventory = {"node": node, "generation": 1}
    world.tell("fleet", "node.facts.v1", "node-inventory.reported", inventory, in_outbox=False)
    limit = {"gpu_milli": 2000, "cpu_milli": 64_000, "memory_mib": 262_144}
    changed = {
        "name": QUEUE,
        "kind": "queue",
        "flavors": [{"flavor": FLAVOR, "nominal": limit}],
    }
    world.tell("quota-agent", "quota.facts.v1", "quota.changed", changed, in_outbox=False)
    world.sql += [
        (
            "INSERT INTO placement.node (name, generation, present, ready, cpu_milli, memory_mib,"
            f" body) VALUES ('{NODE}', 1, true, true, 64000, 262144, '')"
        ),
        (
            "INSERT INTO placement.gpu (node, gpu, memory_mib)"
            f" VALUES ('{NODE}', 0, 81920), ('{NODE}', 1, 81920)"
        ),
        (
            "INSERT INTO placement.quota_node (name, kind, parent, version, body)"
            f" VALUES ('{QUEUE}', 'queue', '', 1, '')"
        ),
        (
            "INSERT INTO placement.usage (quota_node, flavor, gpu_milli_limit, cpu_milli_limit,"
            " memory_mib_limit, gpu_milli_ceiling, cpu_milli_ceiling, memory_mib_ceiling)"
            f" VALUES ('{QUEUE}', '{FLAVOR}', 2000, 64000, 262144, 2000, 64000, 262144)"
        ),
    ]


def submit(world: World, workload: str, name: str) -> Record:
    world.sql.append(
        f"INSERT INTO gateway.accepted_request VALUES ('{workload}', '{TEAM}', '', '', '', 0, 1)"
    )
    payload = {"workload_id": workload, "team": TEAM, "spec": spec(name)}
    return world.tell("gateway", "submission.commands.v1", "submit.workload", payload)


def admit(world: World, workload: str, name: str, submitted: Record, *, count: int = 1) -> Record:
    payload = {"workload": {"id": workload, "team": TEAM, "spec": spec(name, count=count)}}
    world.audit("admission", workload, 1, "received", "queued")
    world.sql.append(verdict_row(workload, "accepted"))
    return world.tell("admission", "queue.facts.v1", "workload.queued", payload, cause=submitted)


def _one_runs(world: World) -> None:
    queued = admit(world, ONE, "one", submit(world, ONE, "one"))
    plan: dict[str, Any] = {"plan_id": "plan", "workload_id": ONE, "rule": "", "victims": []}
    plan["placement"] = ON_GPU_0
    world.tell("placement", "workload.facts.v1", "eviction-plan.accepted", plan, cause=queued)
    placed = _place(world, ONE, ON_GPU_0, queued)
    _pods(world, ONE, placed, "pods.running")
    world.sql += [workload_row(ONE, "running", 3, ON_GPU_0), allocation_row()]
    world.sql.append(attempt_row(ONE, "running", size=1))


def _two_succeeded(world: World) -> None:
    queued = admit(world, TWO, "two", submit(world, TWO, "two"), count=2)
    placed = _place(world, TWO, HALVES, queued)
    _pods(world, TWO, placed, "pods.running")
    ended = _pods(world, TWO, placed, "pods.finished", tell=False)
    world.audit("placement", TWO, 4, "running", "succeeded")
    released = {"released_at_ms": START_MS + 99, "released_attempt": 1}
    world.tell(
        "placement",
        "workload.facts.v1",
        "workload.succeeded",
        fact(TWO, 4, "succeeded", **released),
        cause=ended,
    )
    world.sql.append(workload_row(TWO, "succeeded", 4, HALVES))
    world.sql.append(attempt_row(TWO, "finished", size=2))


def _place(world: World, workload: str, placed: dict, queued: Record) -> Record:
    world.audit("placement", workload, 2, "queued", "placed")
    record = world.tell(
        "placement",
        "workload.facts.v1",
        "workload.placed",
        fact(workload, 2, "placed", placement=placed, placed_at_ms=START_MS),
        cause=queued,
    )
    bind = {"workload_id": workload, "attempt": 1, "epoch": 1, "placement": placed}
    world.tell("placement", "pod.commands.v1", "bind.workload", bind, cause=queued)
    return record


def _pods(world: World, workload: str, placed: Record, kind: str, *, tell: bool = True) -> Record:
    """What the binder saw, and placement's fact of it."""
    payload = {"workload_id": workload, "attempt": 1, "at_ms": START_MS}
    seen = world.tell("binder", "pod.facts.v1", kind, payload, cause=placed)
    if tell:
        world.audit("placement", workload, 3, "placed", "running")
        world.tell(
            "placement",
            "workload.facts.v1",
            "workload.running",
            fact(workload, 3, "running", running_at_ms=START_MS),
            cause=seen,
        )
    return seen


def _no_was_rejected(world: World) -> None:
    submitted = submit(world, NO, "no")
    world.audit("admission", NO, 1, "received", "rejected")
    world.sql.append(verdict_row(NO, "rejected"))
    payload = {"workload_id": NO, "team": TEAM, "errors": []}
    world.tell("admission", "queue.facts.v1", "workload.rejected", payload, cause=submitted)
