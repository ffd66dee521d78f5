"""I2 by facts: what the log says is charged is what the ledger charges, attempt by attempt.

A charge that the ledger forgot together with its devices breaks no sum within the ledger. It
differs from the facts that told of it, up to the last one that the snapshot of the database knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from operations.check.limits import UNITS
from operations.check.model import Evidence, Findings, Payload, Record, Row
from operations.check.quota_order import FACTS

HOLDS: Final = frozenset({"muster.workload.placed.v1", "muster.workload.resized.v1"})
"""Facts that say all that an attempt holds from then on."""
CHARGED_SQL: Final = """
SELECT workload_id, attempt, queue, flavor, sum(milli)::bigint AS gpu_milli,
       sum(cpu_milli)::bigint AS cpu_milli, sum(memory_mib)::bigint AS memory_mib
FROM placement.allocation GROUP BY workload_id, attempt, queue, flavor"""
CELL: Final = "cell-"
Holder = tuple[str, int]
"""(workload, attempt)."""
Entry = tuple[str, str, Payload]
"""(queue, flavor, charge by unit)."""


class Charges:
    """What attempts are charged, fact by fact; amounts by (queue, flavor, unit)."""

    def __init__(self) -> None:
        self.used: Counter[tuple[str, str, str]] = Counter()
        self.open: dict[Holder, Entry] = {}
        self.told: set[Holder] = set()
        """Attempts that were ever charged."""

    def take(self, record: Record) -> tuple[Entry | None, Entry] | None:
        """What its attempt was charged before and is charged now; None: nothing more is.

        A fact may close the attempt before and hold the next one.
        """
        for holder in closed(record):
            self._end(holder)
        if record.type not in HOLDS:
            return None
        payload = record.payload
        placement = payload["placement"]
        holder = (payload["workload_id"], payload["attempt"])
        before = self._end(holder)
        now: Entry = payload["queue"], placement["flavor"], placement["charge"]
        self.open[holder] = now
        self.told.add(holder)
        self._count(now, +1)
        return before, now

    def _end(self, holder: Holder) -> Entry | None:
        entry = self.open.pop(holder, None)
        if entry is not None:
            self._count(entry, -1)
        return entry

    def _count(self, entry: Entry, sign: int) -> None:
        queue, flavor, charge = entry
        for unit in UNITS:
            self.used[queue, flavor, unit] += sign * charge.get(unit, 0)


def closed(record: Record) -> list[Holder]:
    """The attempts that give back their devices by this fact."""
    payload = record.payload
    if not payload.get("released_at_ms"):
        return []
    return [(payload["workload_id"], payload.get("released_attempt", 0))]


def check_charges(evidence: Evidence) -> Findings:
    """I2 by facts, where the log is whole and has all that the snapshot knows.

    An attempt of which no fact is left, as it is older than the log, is not looked at.
    """
    findings = Findings()
    facts, last = list(evidence.log.on(FACTS)), _last_known(evidence)
    if not evidence.log.whole(FACTS) or not _all_published(evidence, facts):
        return findings
    charges = Charges()
    for record in facts:
        if record.sequence <= last.get(record.partition, 0):
            charges.take(record)
    ledger = {(row["workload_id"], row["attempt"]): row for row in evidence.rows["charged"]}
    for holder in sorted(charges.told & (charges.open.keys() | ledger.keys())):
        findings.checked += 1
        by_log, by_ledger = _by_log(charges.open.get(holder)), _by_ledger(ledger.get(holder))
        if by_log != by_ledger:
            detail = f"attempt {holder[1]}: the log charges {by_log}, the ledger {by_ledger}"
            findings.add(holder[0], detail)
    return findings


def _by_log(entry: Entry | None) -> str:
    return "nothing" if entry is None else _worded(entry[0], entry[1], entry[2])


def _by_ledger(row: Row | None) -> str:
    return "nothing" if row is None else _worded(row["queue"], row["flavor"], row)


def _worded(queue: str, flavor: str, amounts: Mapping[str, Any]) -> str:
    charge = "/".join(str(amounts.get(unit, 0)) for unit in UNITS)
    return f"{queue} in {flavor} {charge} {'/'.join(UNITS)}"


def _last_known(evidence: Evidence) -> Mapping[int, int]:
    """The last number that placement had given out in the snapshot, by cell."""
    last: dict[int, int] = {}
    for name, number in (("watermark", "acked_seq"), ("outbox", "seq")):
        for row in evidence.rows[name]:
            if row["schema"] == "placement":
                cell = int(row["shard"].removeprefix(CELL))
                last[cell] = max(last.get(cell, 0), row[number])
    return last


def _all_published(evidence: Evidence, facts: Iterable[Record]) -> bool:
    """Whether every fact of the snapshot is in the log: what is not is for I11 to tell."""
    there = {one.id for one in facts}
    rows = (row for row in evidence.rows["outbox"] if row["schema"] == "placement")
    return all(row["event_id"] in there for row in rows if row["topic"] == FACTS)
