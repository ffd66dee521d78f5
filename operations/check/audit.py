"""I7: the hash chain over the audit rows of every shard, and the seals that tell of it in the log.

One byte changed, and the chain breaks. What computes the whole chain anew, or takes rows from its
end, is held against the seals: number and digest of the newest row, told about every second on a
topic that only the service writes (ADR 100).

That each state version has exactly one audit row is looked at with the states (I8).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Final

from operations.check.model import Evidence, Findings, Record, Row

SEALED: Final = "muster.audit.sealed.v1"
UNSEALED_MS: Final = 30_000
"""So long the newest rows of a living process may be without a seal, on a busy system."""
Chain = tuple[str, str]
"""Schema and shard."""


def check_chain(evidence: Evidence) -> Findings:
    """Each row's digest follows from the row before it and from its own content."""
    findings = Findings()
    chains: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in evidence.rows["audit"]:
        chains[row["schema"], row["shard"]].append(row)
    for (schema, shard), rows in chains.items():
        rows.sort(key=lambda row: row["seq"])
        _check_rows(findings, f"{schema}/{shard}", rows)
    return findings


def _check_rows(findings: Findings, where: str, rows: list[Row]) -> None:
    seq, digest = 0, b""
    for row in rows:
        findings.checked += 1
        if row["seq"] != seq + 1:
            findings.add(where, f"audit row {row['seq']} follows row {seq}")
        elif digest_of(digest, row) != row["digest"]:
            findings.add(
                row["subject"],
                f"audit row {row['seq']} of {where} is not as it was written: its digest does "
                f"not follow from row {seq} and its content",
            )
        seq, digest = row["seq"], row["digest"]


def digest_of(previous: bytes, row: Row) -> bytes:
    """blake2b-128 of the digest before and the row's content."""
    text = (
        f"{row['seq']}|{row['event_id']}|{row['subject']}|{row['version']}|{row['kind']}|"
        f"{row['before']}|{row['after']}|{row['actor']}|{row['at_ms']}"
    )
    return hashlib.blake2b(previous + text.encode(), digest_size=16).digest()


def check_seals(evidence: Evidence) -> Findings:
    """Each seal in the log has its row, with that digest; each row has a seal at or after it."""
    findings = Findings()
    digests: dict[Chain, dict[int, bytes]] = defaultdict(dict)
    for row in evidence.rows["audit"]:
        digests[row["schema"], row["shard"]][row["seq"]] = row["digest"]
    seals: dict[Chain, list[Record]] = defaultdict(list)
    for record in evidence.log.of(SEALED):
        schema = record.topic.removeprefix("audit-").removesuffix(".facts.v1")
        seals[schema, record.payload["shard"]].append(record)
    for chain, records in seals.items():
        told = [one for one in records if evidence.log.covered(one)]
        findings.checked += len(told)
        _check_told(findings, chain, told, digests[chain])
    _check_ends(findings, evidence, seals)
    return findings


def _check_told(
    findings: Findings, chain: Chain, seals: list[Record], digests: dict[int, bytes]
) -> None:
    gone: list[int] = []
    other: list[int] = []
    for record in seals:
        number, digest = record.payload["sequence"], digests.get(record.payload["sequence"])
        if digest is None:
            gone.append(number)
        elif digest.hex() != record.payload["digest"]:
            other.append(number)
    where = "/".join(chain)
    if gone:
        text = f"audit row {min(gone)} was sealed and is gone, and {len(gone) - 1} sealed after it"
        findings.add(where, text)
    if other:
        findings.add(
            where,
            f"audit row {min(other)} has another digest than its seal, as {len(other) - 1} after "
            f"it: rows up to it are not those that were written",
        )


def _check_ends(findings: Findings, evidence: Evidence, seals: dict[Chain, list[Record]]) -> None:
    """Rows behind the last seal are young, or their process is away."""
    away = {(row["schema"], row["shard"]) for row in evidence.rows["lease"] if row["expired"]}
    acked = {(row["schema"], row["shard"]): row["acked_seq"] for row in evidence.rows["watermark"]}
    waiting = {
        (row["schema"], row["shard"])
        for row in evidence.rows["outbox"]
        if row["topic"].startswith("audit-")
        and row["seq"] > acked.get((row["schema"], row["shard"]), 0)
    }
    now_ms = evidence.rows["now"][0]["now_ms"]
    last = {
        chain: max(one.payload["sequence"] for one in records) for chain, records in seals.items()
    }
    behind: dict[Chain, list[Row]] = defaultdict(list)
    for row in evidence.rows["audit"]:
        chain = row["schema"], row["shard"]
        if row["seq"] > last.get(chain, 0) and chain not in away | waiting:
            behind[chain].append(row)
    for chain, rows in behind.items():
        old = [row["seq"] for row in rows if abs(now_ms - row["at_ms"]) > UNSEALED_MS]
        if old:
            findings.add(
                "/".join(chain),
                f"audit row {min(old)} has no seal, as {len(old) - 1} after it: its service seals "
                f"within {UNSEALED_MS // 1000} s what it has written",
            )
