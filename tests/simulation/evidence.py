"""What the checker reads, of the simulated cell: the rows of its databases and its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from operations.check.database import OTHER
from operations.check.ledger import LEDGER_QUERIES
from operations.check.log import decode
from operations.check.model import Evidence, Log, Row
from operations.check.quota_order import TOPIC
from shared.adapters.memory import MemoryShard
from tests.simulation.faults import SERVICES
from tests.simulation.ports import SHARD

if TYPE_CHECKING:
    from tests.simulation.world import World

_QUERIES: Final[Mapping[str, tuple[str, str]]] = {
    "parked": ("admission", OTHER["parked"]),
    "verdict": ("admission", OTHER["verdict"]),
    "placement_workload": ("placement", OTHER["placement_workload"]),
    "quota_rows": ("placement", OTHER["quota_rows"]),
    "quota_nodes": ("placement", OTHER["quota_nodes"]),
    "held": ("placement", "SELECT workload_id, node, gpu FROM placement.allocation"),
    "used": ("placement", "SELECT quota_node, gpu_milli FROM placement.usage WHERE gpu_milli > 0"),
    "pending": ("quota", "SELECT workload_id, phase FROM quota.pending"),
    "charged": (
        "quota",
        "SELECT workload_id, attempt, started_at_ms, ended_at_ms FROM quota.usage_history",
    ),
    "attempts": ("binder", "SELECT workload_id, attempt, state FROM binder.attempt WHERE active"),
    "capacity": ("placement", LEDGER_QUERIES["capacity"]),
}
_AUDIT: Final = (
    *("seq", "event_id", "subject", "version", "kind", "before", "after", "actor"),
    *("at_ms", "digest"),
)
_TABLES: Final = (
    *("accepted_request", "watermark", "outbox", "audit", "consumer_offset", "inbox_other"),
)
_OUTBOX: Final = ("seq", "event_id", "topic", "partition", "key")


def evidence_of(world: World) -> Evidence:
    """Rows and log for the checker; the log with what was trimmed, too."""
    shards = {name: world.databases[name].shard(SHARD) for name in SERVICES}
    rows: dict[str, list[Row]] = {name: [] for name in _TABLES}
    for name, shard in shards.items():
        for table, row in _protocol_rows(shard):
            rows[table].append({"schema": name, "shard": SHARD, "epoch": 1} | row)
    for query, (name, sql) in _QUERIES.items():
        rows[query] = [*world.databases[name].own.fetch(sql)]
    rows["quota_units"] = [*_quota_units(shards["placement"])]
    places = sorted(world.log.records)
    made = (decode(place[0], one) for place in places for one in world.log.records[place])
    return Evidence(
        rows={**rows},
        log=Log(
            records=[one for one in made if one is not None],
            ends_before={place: len(records) for place, records in world.log.records.items()},
        ),
        acknowledged=frozenset(world.client.submitted),
    )


def _quota_units(placement: MemoryShard) -> Iterator[Row]:
    """As the checker's own SQL reads them from the inbox."""
    for event_id, received in placement.inbox.items():
        if received.topic == TOPIC:
            yield {"event_id": event_id, "unit": placement.unit_of[event_id]}


def _protocol_rows(shard: MemoryShard) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "watermark", {"acked_seq": shard.acked_seq}
    for one in shard.outbox:
        yield "outbox", {field: getattr(one, field) for field in _OUTBOX}
    for row in shard.audits:
        yield "audit", {field: getattr(row, field) for field in _AUDIT}
    for (topic, partition), offset in shard.offsets.items():
        place = {"topic": topic, "partition": partition}
        yield "consumer_offset", place | {"next_offset": offset}
    for received in shard.inbox.values():
        if received.offset < 0 or received.topic.startswith("submission-"):
            yield "inbox_other", {"event_id": received.event.id}
