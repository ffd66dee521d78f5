"""I15, of dead letters: none of them is what a living workload waits for.

A message that its reader could not take is set aside, and stays so until an operator sends it
again (`muster-ops dlq replay`). A workload that is nominated, bound or ended by such a message
stands still for ever, and every other promise holds meanwhile.
"""

from __future__ import annotations

from typing import Final

from operations.check.causes import BIND, POD_FACTS, QUEUED
from operations.check.model import Evidence, Findings, Record, Row, foreign
from operations.check.states import HOLDING

ON_THE_WAY: Final = frozenset({"quota", "placement", "binder"})
"""Services that move a workload when they read; to the others a message only tells what was."""
REQUEUED: Final = "muster.workload.requeued.v1"
STARTS: Final = frozenset(
    {
        QUEUED,
        REQUEUED,
        "muster.workload.released.v1",
        "muster.workload.nominated.v1",
    }
)
"""What a workload that is queued comes on by."""
OF_AN_ATTEMPT: Final = frozenset({BIND, "muster.evict.pods.v1", *POD_FACTS})
"""What an attempt that holds devices comes on by."""


def check_dead_letters(evidence: Evidence) -> Findings:
    """Every dead letter about a workload that is still where the letter left it."""
    findings = Findings(checked=len(evidence.log.dead))
    rows = {row["id"]: row for row in evidence.rows["placement_workload"]}
    for record in _last_of_each(evidence):
        readers = evidence.log.dead.get((record.topic, record.partition, record.offset))
        row = rows.get(record.subject)
        if readers and row is not None and readers & ON_THE_WAY and _waits(row, record):
            findings.add(
                record.subject,
                f"is {row['state']}, and {record.type} at {record.topic}[{record.partition}]@"
                f"{record.offset} is in the dead letters of {', '.join(sorted(readers))}: "
                f"muster-ops dlq replay",
            )
    return findings


def _last_of_each(evidence: Evidence) -> list[Record]:
    """The newest record of each type about each workload: a later one makes up for a lost one."""
    last: dict[tuple[str, str], Record] = {}
    for record in evidence.log.records:
        if not foreign(record.topic) and record.type in STARTS | OF_AN_ATTEMPT:
            last[record.subject, record.type] = record
    return list(last.values())


def _waits(row: Row, record: Record) -> bool:
    """Whether the workload is still where this message would take it on."""
    if record.type in STARTS:
        return bool(row["state"] == "queued")
    return row["state"] in HOLDING and record.payload.get("attempt") == row["attempt"]
