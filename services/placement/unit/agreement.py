"""Memory must agree with the database: a hash of all that is held, taken from both (I16).

Asked every `UNITS_BETWEEN` units. Between two units nothing is in flight, so any difference is a
fault in the arrays or in the rows; the service then drops its memory and reloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from services.placement.state.holds import Piece
from services.placement.unit.cell_state import CellState
from shared.core.model.mig.table import MASK
from shared.core.scoring import Cluster
from shared.ports.errors import Stale
from shared.ports.reader import Reader

UNITS_BETWEEN: Final = 1_000
HELD_SQL: Final = """
SELECT md5(coalesce(string_agg(
    g.node || ':' || g.gpu || ':' || g.mask || ':' || g.milli_used || ':' || g.share_team,
    ',' ORDER BY g.node COLLATE "C", g.gpu), '')) AS gpus,
    (SELECT coalesce(sum(cpu_milli_used), 0)::bigint FROM placement.node) AS cpu_milli,
    (SELECT coalesce(sum(memory_mib_used), 0)::bigint FROM placement.node) AS memory_mib
FROM placement.gpu g WHERE g.milli_used > 0
"""


class Agreement:
    """Counts units and compares."""

    def __init__(self) -> None:
        self._units = 0

    async def check(self, state: CellState, reader: Reader) -> None:
        """Compare when it is time; raises Stale with both hashes when they differ."""
        self._units += 1
        if self._units % UNITS_BETWEEN:
            return
        await compare(state, reader)


async def compare(state: CellState, reader: Reader) -> None:
    """Raise Stale unless the arrays and the rows hold the same."""
    row = (await reader.fetch(HELD_SQL))[0]
    stored = (row["gpus"], row["cpu_milli"], row["memory_mib"])
    held = held_in_memory(state.cluster, list(state.reservations.pieces()))
    if held != stored:
        raise Stale(f"memory {held} is not what the database holds {stored}")


def held_in_memory(cluster: Cluster, reserved: Sequence[Piece] = ()) -> tuple[str, int, int]:
    """(hash over the GPUs, CPU milli, memory MiB) that the arrays hold. O(GPUs held).

    Less what is `reserved`, of which the database holds nothing yet.
    """
    text = ",".join(_lines(cluster, _by_gpu(reserved)))
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    cpu_milli = sum(node.cpu_used_milli for node in cluster.nodes.values())
    memory_mib = sum(node.memory_used_mib for node in cluster.nodes.values())
    cpu_milli -= sum(piece.cpu_milli for piece in reserved)
    memory_mib -= sum(piece.memory_mib for piece in reserved)
    return digest, cpu_milli, memory_mib


def _by_gpu(reserved: Sequence[Piece]) -> dict[tuple[str, int], tuple[int, int]]:
    """(mask, milli) of each GPU of which something is reserved."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for piece in reserved:
        for share in piece.shares:
            mask, milli = found.get((piece.node, share.index), (0, 0))
            found[piece.node, share.index] = mask | share.mask, milli + share.milli
    return found


def _lines(cluster: Cluster, reserved: dict[tuple[str, int], tuple[int, int]]) -> Iterator[str]:
    for name in sorted(cluster.nodes):
        uses = cluster.nodes[name].uses
        for gpu in sorted(uses):
            use = uses[gpu]
            mask, milli = reserved.get((name, gpu), (0, 0))
            if use.milli > milli:
                yield f"{name}:{gpu}:{use.state & MASK & ~mask}:{use.milli - milli}:{use.team}"
