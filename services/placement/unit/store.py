"""Rebuilds the memory of placement from its tables at start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from services.placement.state.fleet import Fleet, usable
from services.placement.state.records import (
    TERMINAL_IDS_MAX,
    UNCHANGED,
    Nomination,
    Record,
    Resize,
)
from services.placement.unit.cell_state import CellState
from shared.core.admission.recorded_reasons import recorded
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Node, Placement, Workload
from shared.core.model.reason import WAITS, Reason
from shared.core.placement.place import learn
from shared.events.quotas import QuotaChanged
from shared.ports.reader import Reader

_node: Final = msgspec.json.Decoder(Node)
_workload: Final = msgspec.json.Decoder(Workload)
_placement: Final = msgspec.json.Decoder(Placement)
_nomination: Final = msgspec.json.Decoder(Nomination)
_resize: Final = msgspec.json.Decoder(Resize)
_quota: Final = msgspec.json.Decoder(QuotaChanged)


async def load(state: CellState, fleet: Fleet, reader: Reader, shard: str) -> None:
    """Fill an empty state and fleet."""
    epoch = await reader.fetch("SELECT epoch FROM placement.lease WHERE shard = $1", shard)
    state.epoch = epoch[0]["epoch"] if epoch else 0
    await _load_nodes(state, fleet, reader)
    await _load_quotas(state, reader)
    await _load_workloads(state, reader)
    await state.reservations.load(reader)
    await state.promises.load(reader)
    await state.queue_order.load(reader)
    await state.spent_budgets.load(reader)


async def _load_nodes(state: CellState, fleet: Fleet, reader: Reader) -> None:
    rows = await reader.fetch("SELECT name, generation, present, body FROM placement.node")
    for row in rows:
        fleet.generations[row["name"]] = row["generation"]
        if row["present"]:
            node = _node.decode(row["body"])
            fleet.put(node)
            state.cluster.put_node(usable(node))


async def _load_quotas(state: CellState, reader: Reader) -> None:
    """The tree, and in which flavors its nodes have rows."""
    for row in await reader.fetch("SELECT body FROM placement.quota_node ORDER BY name"):
        state.usage.put(_quota.decode(row["body"]))
    for row in await reader.fetch("SELECT quota_node, flavor FROM placement.usage"):
        state.usage.has_row(row["quota_node"], row["flavor"])


async def _load_workloads(state: CellState, reader: Reader) -> None:
    rows = await reader.fetch("SELECT * FROM placement.workload WHERE NOT over ORDER BY id")
    for row in rows:
        _restore(state, row)
    state.heard.restore({one["id"]: one["changed_at_ms"] for one in rows if one["placement"]})
    over = await reader.fetch(
        "SELECT id FROM placement.workload WHERE over ORDER BY changed_at_ms DESC LIMIT $1",
        TERMINAL_IDS_MAX,
    )
    for row in reversed(over):
        state.records.remember_over(row["id"])


def _restore(state: CellState, row: Mapping[str, Any]) -> None:
    reason, pod_reason = recorded(row["reason"], row["pod_reason"])
    record = Record(
        workload=_workload.decode(row["body"]),
        state=State(row["state"]),
        version=row["version"],
        priority=row["priority"],
        attempt=row["attempt"],
        failures=row["failures"],
        setbacks=row["setbacks"],
        running_at_ms=row["running_at_ms"],
        then_held=row["then_held"],
        reason=reason,
        message=row["message"],
        pod_reason=pod_reason,
        nomination=_nomination.decode(row["nominated"]) if row["nominated"] else None,
        placement=_placement.decode(row["placement"]) if row["placement"] else None,
        resize=_resize.decode(row["resize"]) if row["resize"] else UNCHANGED,
        priority_class=row["priority_class"],
        stored_version=row["version"],
    )
    record.refused_as = reason if reason in WAITS else Reason.NONE
    state.know(record)
    if record.placement is not None:
        workload = record.workload
        state.cluster.charge(workload.team, record.placement.pods, workload.spec.pod_sets)
        learn(state.cluster, workload, record.placement.flavor)
        state.usage.charge(workload.queue, record.placement.flavor, record.placement.charge)
        state.records.on_nodes(record)
        state.promises.restored(record, row["changed_at_ms"])
    if row["deadline_kind"]:
        state.deadlines.set(record, row["deadline_kind"], row["deadline_ms"])
    state.records.touched.clear()
