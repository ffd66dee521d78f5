"""I7: the hash chain over the audit rows of every shard; one byte changed, and it breaks.

That each state version has exactly one audit row is looked at with the states (I8).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict

from operations.check.model import Evidence, Findings, Row


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
