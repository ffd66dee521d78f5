"""Compares the memory of placement with the rows of its ledger."""

from __future__ import annotations

from services.placement.handlers import PlacementHandler
from shared.ports.reader import Reader


async def sums_agree(pool: Reader, handler: PlacementHandler) -> None:
    """The sums in the rows are those in memory, and what is over holds nothing."""
    rows = await pool.fetch("SELECT * FROM placement.usage")
    in_rows = {
        (row["quota_node"], row["flavor"]): row["gpu_milli"] for row in rows if row["gpu_milli"]
    }
    known = {(row["quota_node"], row["flavor"]) for row in rows}
    in_memory = {
        place: used.gpu_milli
        for place, used in handler.desk.usage.used.items()
        if used.gpu_milli and place in known
    }
    assert in_memory == in_rows
    gpus = await pool.fetch("SELECT coalesce(sum(milli_used), 0) AS milli FROM placement.gpu")
    assert handler.desk.cluster.gpu_milli_used() == gpus[0]["milli"]
    holders = await pool.fetch("SELECT DISTINCT workload_id FROM placement.allocation")
    held = {name for name, record in handler.desk.records.alive.items() if record.holds}
    assert held == {row["workload_id"] for row in holders}
