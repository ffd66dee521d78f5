"""Compares the memory of placement with the rows of its ledger.

What is reserved is in memory alone: to the ledger it is free, or still a victim's.
"""

from __future__ import annotations

from services.placement.handlers import PlacementHandler
from services.placement.unit.agreement import compare
from shared.ports.reader import Reader


async def sums_agree(pool: Reader, handler: PlacementHandler) -> None:
    """The sums in the rows are those in memory, and what is over holds nothing."""
    rows = await pool.fetch("SELECT * FROM placement.usage")
    in_rows = {
        (row["quota_node"], row["flavor"]): row["gpu_milli"] for row in rows if row["gpu_milli"]
    }
    in_memory = {
        (name, flavor): node.charged(flavor)[0]
        for name, node in handler.state.usage.tree.nodes.items()
        for flavor in node.used
        if node.charged(flavor)[0]
    }
    assert in_memory == in_rows
    gpus = await pool.fetch("SELECT coalesce(sum(milli_used), 0) AS milli FROM placement.gpu")
    reserved = sum(
        share.milli for piece in handler.state.reservations.pieces() for share in piece.shares
    )
    assert handler.state.cluster.gpu_milli_used() - reserved == gpus[0]["milli"]
    await compare(handler.state, pool)
    rows = await pool.fetch("SELECT workload_id FROM placement.reservation")
    assert len(handler.state.reservations) == len(rows)
    holders = await pool.fetch("SELECT DISTINCT workload_id FROM placement.allocation")
    held = {name for name, record in handler.state.records.alive.items() if record.holds}
    assert held == {row["workload_id"] for row in holders}
