"""What it would take to let a waiting workload start: moves, planned from the tables, not made.

Reads placement's own rows as the service does at its start (cell.py) and asks the same core
(core/preemption/defragmentation/defragment.py). Nothing is written, and the running service is not
asked: a read-only role is enough. The answer is true of the ledger at the moment of reading.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.placement.cell import Cell, CellPolicy
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from shared.core.model.lifecycle import State
from shared.core.placement.place import PlacementRequest
from shared.core.preemption.defragmentation import (
    DefragmentationLimits,
    DefragmentationObstacle,
    NoPlan,
    Plan,
    Running,
    defragment,
)
from shared.ports.reader import Reader


class NotWaiting(Exception):  # noqa: N818  # says what happened
    """There is no such workload, or it does not wait for a place."""


async def plan_for(
    reader: Reader,
    workload: str,
    *,
    cell: int = 0,
    seed: int = 0,
    limits: DefragmentationLimits | None = None,
) -> Plan | NoPlan:
    """Moves after which the workload could be placed.

    Args:
        reader: of placement's tables.
        workload: its id, or its name if only one that is not over has it; it must be queued.
        cell: of the ledger.
        seed: of the service (`MUSTER_SEED`), which decides ties.
        limits: of the plan and of the search.

    Raises:
        NotWaiting: see there.
    """
    loaded = Cell(CellPolicy(cell=cell, seed=seed))
    await loaded.load(reader)
    state, record = loaded.state, _named(loaded.state.records.alive, workload)
    workload_id = record.workload.id
    if record.state is not State.QUEUED:
        raise NotWaiting(f"workload {workload_id} does not wait: it is {record.state.value}")
    if record.nomination is None:
        message = "Quota has not permitted it to be tried; moves free no quota."
        return NoPlan(obstacle=DefragmentationObstacle.QUOTA, message=message)
    # What it was promised keeps nothing off these nodes while it is planned to start at once.
    state.promises.withdrawn(workload_id)
    running = [_running(each) for each in state.records.alive.values() if each.placement]
    return defragment(state.cluster, running, _request(state, record), limits)


def _named(alive: Mapping[str, Record], name: str) -> Record:
    if name in alive:
        return alive[name]
    found = [one for one in alive.values() if one.workload.spec.name == name]
    if not found:
        raise NotWaiting(f"placement knows no workload {name} that is not over")
    if len(found) > 1:
        ids = ", ".join(sorted(one.workload.id for one in found))
        raise NotWaiting(f"{len(found)} workloads are named {name}; give an id: {ids}")
    return found[0]


def _request(state: CellState, record: Record) -> PlacementRequest:
    headroom = state.headroom.of(record)
    return PlacementRequest(workload=record.workload, flavors=tuple(headroom), headroom=headroom)


def _running(record: Record) -> Running:
    """Only what runs and may be preempted is moved; a move costs the GPU it holds."""
    placement = record.placement
    assert placement is not None
    return Running(
        workload=record.workload,
        placement=placement,
        cost=placement.charge.gpu_milli,
        movable=record.state is State.RUNNING and record.workload.spec.preemptible,
    )
