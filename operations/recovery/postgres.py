"""How far the database is behind the log, by service: what a restored backup does not know.

A service that would decide with such a database says so and waits (ADR 92). This tells all of them
at once, and what happened in between by the facts of placement, so that a person knows what a
restore to the last commit saves (ADR 98).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from operations.configuration import Addresses
from operations.recovery.outboxes import Outboxes, outboxes
from shared.adapters.kafka import KafkaNewest
from shared.events.topics import AUDIT_FACTS, WITHOUT_ONE_COUNT
from shared.runtime.newer_log import Place, sealed_by, written_by

MEANWHILE: Final = {
    "muster.workload.succeeded.v1": "ended",
    "muster.workload.failed.v1": "ended",
    "muster.workload.cancelled.v1": "ended",
    "muster.workload.placed.v1": "placed",
}
CELL: Final = "cell-"
SEAL_EACH: Final = WITHOUT_ONE_COUNT.intersection(AUDIT_FACTS)
"""Services of which each process counts for itself and seals its own audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """One shard whose database has not given a number that is in the log."""

    service: str
    shard: str
    next_in_database: int
    newest_in_log: int

    @property
    def records(self) -> int:
        """So many records in the log are unknown to the database."""
        return self.newest_in_log - self.next_in_database + 1


@dataclass(slots=True, kw_only=True)
class Judgement:
    """`behind` is empty where the database is not older than the log."""

    behind: list[Behind] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    """Workloads that were placed, and that ended, of which the database knows nothing."""


async def judge(addresses: Addresses) -> Judgement:
    """Compare each shard with what it wrote last: its own seals where others count beside it.

    The log is read before the numbers of the database, as services may go on meanwhile.

    Raises:
        Transient: the broker does not answer, or the login may not read.
        Failure: the database does not.
    """
    newest = KafkaNewest(addresses.kafka, addresses.prefix)
    async with outboxes(addresses.database) as found:
        shards = await found.shards()
    in_log: dict[tuple[str, str], int] = {}
    for schema, shard in shards:
        places, subject = compared(schema, shard)
        numbers = await newest.newest(places, schema, subject) if places else {}
        in_log[schema, shard] = max(numbers.values(), default=0)
    async with outboxes(addresses.database) as found:
        behind = [
            Behind(service=schema, shard=shard, next_in_database=next_seq, newest_in_log=number)
            for (schema, shard), number in in_log.items()
            if number >= (next_seq := await _next(found, schema, shard))
        ]
    return Judgement(behind=behind, unknown=await _unknown(addresses, behind) if behind else {})


def compared(service: str, shard: str) -> tuple[Sequence[Place], str]:
    """Where the newest number of a shard is found, and the subject that its records have there.

    The processes of the gateway write to the first cell, beside each other.
    """
    if shard.startswith(CELL):
        return written_by(service, int(shard.removeprefix(CELL))), ""
    return (sealed_by(service, 0) if service in SEAL_EACH else ()), shard


async def _next(found: Outboxes, schema: str, shard: str) -> int:
    rows: Sequence[Mapping[str, int]] = await found.fetch(
        f"SELECT next_seq FROM {schema}.watermark WHERE shard = $1",  # noqa: S608  # found names
        shard,
    )
    return rows[0]["next_seq"]


async def _unknown(addresses: Addresses, behind: Collection[Behind]) -> dict[str, int]:
    """Facts of placement in the log with numbers that its database has not given."""
    from operations.log_reading import log_reader

    firsts = {one.shard: one.next_in_database for one in behind if one.service == "placement"}
    counts: dict[str, int] = {"placed": 0, "ended": 0}
    if not firsts:
        return counts
    log = await log_reader(addresses).extend({})
    seen: set[str] = set()
    for record in log.on("workload.facts.v1"):
        first = firsts.get(f"{CELL}{record.partition}")
        what = MEANWHILE.get(record.type)
        if what and first is not None and record.sequence >= first and record.id not in seen:
            seen.add(record.id)
            counts[what] += 1
    return counts


def lines_of(judgement: Judgement) -> list[str]:
    """For people."""
    if not judgement.behind:
        return ["The database is not older than the log."]
    lines = [
        f"{one.service}/{one.shard}: the log has number {one.newest_in_log:,}, and"
        f" {one.next_in_database:,} is next in the database: {one.records:,} records behind"
        for one in judgement.behind
    ]
    lines += [f"workloads {what} meanwhile: {n:,}" for what, n in judgement.unknown.items()]
    lines += [
        "Nothing is decided until the database is as new as the log. Restore the base backup",
        "once more and let PostgreSQL replay the archived WAL to its end (docs/operate.md):",
        "that brings back every commit. On a local system: make down, make restore, make up.",
    ]
    return lines
