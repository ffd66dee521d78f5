"""I4: every accepted submission has exactly one outcome; I12: no effect without its cause.

A submission that the reader has not reached yet is in flight, not lost: offsets in the database
say how far each service has read, in the same snapshot as its rows.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, defaultdict
from typing import Final

from operations.check.audit import SEALED
from operations.check.model import SUBMIT, Evidence, Findings, Record, foreign
from operations.check.states import TERMINAL

QUEUED: Final = "muster.workload.queued.v1"
REJECTED: Final = "muster.workload.rejected.v1"
PLACED: Final = "muster.workload.placed.v1"
BIND: Final = "muster.bind.workload.v1"
POD_ENDS: Final = (
    "muster.pods.finished.v1",
    "muster.pods.gone.v1",
    "muster.bind.refused.v1",
)
RESIZE_ENDS: Final = ("muster.pods.resized.v1", "muster.resize.refused.v1")
OF_SAMPLES: Final = frozenset(
    f"muster.{name}.v1"
    for name in (
        "idleness.noticed",
        "idleness.ended",
        "nodes.needed",
        "node.silent",
        "node.heard",
        "trend.found",
        "trend.ended",
        "usage.told",
        "work-classes.told",
    )
)
"""Caused by reports of use: samples that are kept for an hour and are in no inbox."""
POD_FACTS: Final = ("muster.pods.bound.v1", "muster.pods.running.v1", *POD_ENDS, *RESIZE_ENDS)


def check_outcomes(evidence: Evidence) -> Findings:
    """I4: accepted -> queued or rejected, once -> known to placement -> at most one end."""
    findings = Findings()
    submitted = {workload for workload, _ in submissions(evidence)}
    sent = submitted | unpublished(evidence, "gateway")
    for row in evidence.rows["accepted_request"]:
        findings.checked += 1
        if row["workload_id"] not in sent and evidence.log.complete:
            findings.add(row["workload_id"], "accepted by the gateway, but never submitted")
    accepted = {row["workload_id"] for row in evidence.rows["accepted_request"]}
    accepted |= {row["id"] for row in evidence.rows["verdict"]}  # kept for ever
    for workload in evidence.acknowledged - accepted - submitted:
        findings.add(workload, "the client holds an acknowledgement, Muster knows nothing")
    findings.checked += len(evidence.acknowledged)
    _check_admitted(findings, evidence)
    _check_reached_placement(findings, evidence)
    _check_ends(findings, evidence)
    return findings


def submissions(evidence: Evidence) -> list[tuple[str, Record]]:
    """Every submission in the log with its workload id, dead letters left out."""
    found = []
    for record in evidence.log.of(SUBMIT):
        if (record.topic, record.partition, record.offset) in evidence.log.dead:
            continue
        found.append((workload_of(record), record))
    return found


def workload_of(record: Record) -> str:
    """Workload id of a submission: hash(team, CloudEvents id) on a team's own topic."""
    if not foreign(record.topic):
        workload: str = record.payload.get("workload_id", "")
        return workload
    team = record.topic.removeprefix("submission-").removesuffix(".commands.v1")
    digest = hashlib.blake2b(f"{team}\x00{record.id}".encode(), digest_size=16).digest()
    return "w" + base64.b32encode(digest).decode().rstrip("=").lower()


def unpublished(evidence: Evidence, schema: str) -> set[str]:
    """Keys of what a service has decided, but not yet seen acknowledged by the log."""
    acked = {(row["schema"], row["shard"]): row["acked_seq"] for row in evidence.rows["watermark"]}
    return {
        row["key"]
        for row in evidence.rows["outbox"]
        if row["schema"] == schema and row["seq"] > acked.get((schema, row["shard"]), 0)
    }


def read_until(evidence: Evidence, schema: str) -> dict[tuple[str, int], int]:
    """Next offset of a service, by topic and partition."""
    offsets: dict[tuple[str, int], int] = {}
    for row in evidence.rows["consumer_offset"]:
        if row["schema"] == schema:
            key = (row["topic"], row["partition"])
            offsets[key] = max(offsets.get(key, 0), row["next_offset"])
    return offsets


def _check_admitted(findings: Findings, evidence: Evidence) -> None:
    outcomes: dict[str, set[str]] = defaultdict(set)
    for record in evidence.log.of(QUEUED, REJECTED):
        outcomes[_decided(record)].add(record.type)
    pending = unpublished(evidence, "admission")
    pending |= {row["id"] for row in evidence.rows["parked"]}  # its verdict waits for facts
    if not evidence.log.whole("queue.facts.v1"):
        pending |= {row["id"] for row in evidence.rows["verdict"]}
    read = read_until(evidence, "admission")
    for workload, record in submissions(evidence):
        if record.offset >= read.get((record.topic, record.partition), 0):
            continue
        findings.checked += 1
        if not outcomes.get(workload) and workload not in pending:
            findings.add(workload, f"submitted at {_place(record)}, neither queued nor rejected")
    for workload, kinds in outcomes.items():
        if len(kinds) > 1:
            findings.add(workload, "is both queued and rejected")
    for row in evidence.rows["verdict"]:
        findings.checked += 1
        told = {QUEUED if row["state"] == "accepted" else REJECTED}
        excused = row["id"] in pending or not evidence.log.complete
        if outcomes.get(row["id"], told if excused else set()) != told:
            findings.add(row["id"], f"admission says {row['state']}, the log something else")


def _check_reached_placement(findings: Findings, evidence: Evidence) -> None:
    known = {row["id"] for row in evidence.rows["placement_workload"]}
    ended = {
        record.payload["workload_id"]
        for record in evidence.log.on("workload.facts.v1")
        if record.payload.get("state") in TERMINAL
    }
    read = read_until(evidence, "placement")
    for record in evidence.log.of(QUEUED):
        if record.offset >= read.get((record.topic, record.partition), 0):
            continue
        findings.checked += 1
        workload = _decided(record)
        if workload not in known and workload not in ended:
            findings.add(workload, f"queued at {_place(record)}, unknown to placement")


def _check_ends(findings: Findings, evidence: Evidence) -> None:
    ends = Counter(
        record.payload["workload_id"]
        for record in evidence.log.on("workload.facts.v1")
        if record.payload.get("state") in TERMINAL
    )
    for workload, count in ends.items():
        findings.checked += 1
        if count > 1:
            findings.add(workload, f"ended {count} times in the log")


def check_causes(evidence: Evidence) -> Findings:
    """I12: one acceptance for one submission, one placement for one attempt, and so on."""
    findings = Findings()
    _check_once(findings, evidence)
    if evidence.log.complete:
        _check_known_causes(findings, evidence)
        _check_causation(findings, evidence)
    return findings


def _check_once(findings: Findings, evidence: Evidence) -> None:
    queued: Counter[str] = Counter(map(_decided, evidence.log.of(QUEUED)))
    placed: Counter[tuple[str, int]] = Counter(attempt_of(one) for one in evidence.log.of(PLACED))
    bound: Counter[tuple[str, int]] = Counter(attempt_of(one) for one in evidence.log.of(BIND))
    findings.checked += len(queued) + len(placed) + len(bound)
    for workload, count in queued.items():
        if count > 1:
            findings.add(workload, f"was queued by {count} different facts")
    for what, counts in (("placed", placed), ("bound", bound)):
        for (workload, attempt), count in counts.items():
            if count > 1:
                findings.add(workload, f"attempt {attempt} was {what} {count} times")


def _check_known_causes(findings: Findings, evidence: Evidence) -> None:
    """Effects that were there before the snapshot, against causes of the whole log."""
    log = evidence.log
    submitted = {workload for workload, _ in submissions(evidence)}
    queued = {_decided(record): record for record in log.of(QUEUED)}
    placed = {attempt_of(record) for record in log.of(PLACED)}
    bound = {attempt_of(record): record for record in log.of(BIND)}
    told = {attempt_of(record): record for record in log.of(*POD_FACTS)}
    findings.checked += len(queued) + len(bound) + len(told)
    for workload, record in queued.items():
        if log.covered(record) and workload not in submitted:
            findings.add(workload, "is queued, but was never submitted")
    for (workload, attempt), record in bound.items():
        if log.covered(record) and (workload, attempt) not in placed:
            findings.add(workload, f"attempt {attempt} is bound, but was never placed")
    for (workload, attempt), record in told.items():
        if log.covered(record) and (workload, attempt) not in bound:
            findings.add(workload, f"pods of attempt {attempt} exist, but were never asked for")
    known = set(queued) | unpublished(evidence, "admission")
    for row in evidence.rows["placement_workload"]:
        findings.checked += 1
        if row["id"] not in known:
            findings.add(row["id"], "is known to placement, but was never queued")


def _check_causation(findings: Findings, evidence: Evidence) -> None:
    known = {record.id for record in evidence.log.records}
    known |= {row["event_id"] for row in evidence.rows["inbox_other"]}
    schemas = {row["schema"] for row in evidence.rows["watermark"]} - {"gateway"}
    for record in evidence.log.records:
        if record.source.split("/", 1)[0] not in schemas or not evidence.log.covered(record):
            continue
        findings.checked += 1
        if record.type == SEALED:  # time passed, nothing else
            continue
        if record.causation_id and record.type in OF_SAMPLES:
            continue
        if record.causation_id not in known:
            cause = record.causation_id or "nothing"
            findings.add(record.id, f"{record.type} is caused by {cause}: no event")


def _decided(record: Record) -> str:
    """The workload of `WorkloadQueued` and `WorkloadRejected`."""
    workload: str = record.payload.get("workload_id") or record.payload["workload"]["id"]
    return workload


def attempt_of(record: Record) -> tuple[str, int]:
    """The workload and the attempt that a record is about."""
    return record.payload["workload_id"], record.payload["attempt"]


def _place(record: Record) -> str:
    return f"{record.topic}[{record.partition}]@{record.offset}"
