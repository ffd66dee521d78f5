"""I10: the order of every producer in every partition; I11: the outboxes and the log agree."""

from __future__ import annotations

from collections import defaultdict

from operations.check.model import Evidence, Findings, Record, Row, foreign


def check_order(evidence: Evidence) -> Findings:
    """I10: without copies, `ce_sequence` rises strictly by producer in each partition."""
    findings = Findings()
    owners = {row["event_id"]: row for row in evidence.rows["outbox"]}
    last: dict[tuple[str, str, int], Record] = {}
    seen: set[tuple[str, str]] = set()
    for record in evidence.log.records:
        ordered = record.sequence > 0 and not foreign(record.topic) and not record.redriven
        if not ordered or (record.topic, record.id) in seen:
            continue
        seen.add((record.topic, record.id))
        findings.checked += 1
        key = (_producer(record, owners.get(record.id)), record.topic, record.partition)
        before = last.get(key)
        if before is not None and record.sequence <= before.sequence:
            findings.add(
                f"{record.topic}[{record.partition}]@{record.offset}",
                f"{key[0]} published sequence {record.sequence} after {before.sequence}",
            )
        last[key] = record
    return findings


def _producer(record: Record, owner: Row | None) -> str:
    return f"{owner['schema']}/{owner['shard']}" if owner else record.source


def check_equality(evidence: Evidence) -> Findings:
    """I11: what an outbox calls published is in the log, and nothing else is."""
    findings = Findings()
    logged: dict[str, set[str]] = defaultdict(set)
    for record in evidence.log.records:
        logged[record.topic].add(record.id)
    _check_published(findings, evidence, logged)
    _check_known(findings, evidence)
    _check_dense(findings, evidence)
    return findings


def _check_published(findings: Findings, evidence: Evidence, logged: dict[str, set[str]]) -> None:
    acked = {(row["schema"], row["shard"]): row["acked_seq"] for row in evidence.rows["watermark"]}
    first = _first_left(evidence)
    for row in evidence.rows["outbox"]:
        if row["topic"].endswith(".dlq"):
            continue
        findings.checked += 1
        published = row["seq"] <= acked.get((row["schema"], row["shard"]), 0)
        if not published or row["event_id"] in logged[row["topic"]]:
            continue
        if not _was_removed(evidence, first, row):
            findings.add(
                row["event_id"],
                f"{row['schema']}/{row['shard']} sequence {row['seq']} is acknowledged, but "
                f"not in {row['topic']}",
            )


def _first_left(evidence: Evidence) -> dict[tuple[str, str, str, int], int]:
    """Lowest sequence that each shard has left in each partition of the log."""
    first: dict[tuple[str, str, str, int], int] = {}
    logged = {(one.topic, one.id) for one in evidence.log.records}
    for row in evidence.rows["outbox"]:
        key = row["schema"], row["shard"], row["topic"], row["partition"]
        if (row["topic"], row["event_id"]) in logged:
            first[key] = min(first.get(key, row["seq"]), row["seq"])
    return first


def _was_removed(
    evidence: Evidence, first: dict[tuple[str, str, str, int], int], row: Row
) -> bool:
    """Whether retention took it: it stood before all that its partition has left of its shard."""
    if not evidence.log.begins.get((row["topic"], row["partition"])):
        return False
    left = first.get((row["schema"], row["shard"], row["topic"], row["partition"]))
    return left is None or row["seq"] < left


def _check_known(findings: Findings, evidence: Evidence) -> None:
    written = {(row["topic"], row["event_id"]) for row in evidence.rows["outbox"]}
    oldest = _oldest(evidence)
    for record in evidence.log.records:
        schema = "" if foreign(record.topic) else record.source.split("/", 1)[0]
        if (
            schema not in oldest
            or not evidence.log.covered(record)
            or record.sequence < oldest[schema]
        ):
            continue
        findings.checked += 1
        if (record.topic, record.id) not in written:
            findings.add(
                record.id,
                f"{record.topic}[{record.partition}]@{record.offset} says it is of {schema}, "
                f"whose outbox does not have it",
            )


def _oldest(evidence: Evidence) -> dict[str, int]:
    """By schema, the sequence from which on the outboxes of all its shards are whole.

    Days of an outbox are dropped whole; of a shard that has been idle since, nothing is left.
    """
    first: dict[tuple[str, str], int] = {}
    for row in evidence.rows["outbox"]:
        key = row["schema"], row["shard"]
        first[key] = min(first.get(key, row["seq"]), row["seq"])
    oldest: dict[str, int] = {}
    for row in evidence.rows["watermark"]:
        begin = first.get((row["schema"], row["shard"]), row["acked_seq"] + 1)
        oldest[row["schema"]] = max(oldest.get(row["schema"], 0), begin)
    return oldest


def _check_dense(findings: Findings, evidence: Evidence) -> None:
    sequences: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in evidence.rows["outbox"]:
        sequences[row["schema"], row["shard"]].append(row["seq"])
    for (schema, shard), numbers in sequences.items():
        missing = max(numbers) - min(numbers) + 1 - len(set(numbers))
        if missing:
            findings.add(f"{schema}/{shard}", f"{missing} sequence numbers are missing")
        if len(numbers) != len(set(numbers)):
            findings.add(f"{schema}/{shard}", "a sequence number was given twice")
