"""Memory must agree with the database: a hash of all that is held, taken from both (I16).

Asked every `UNITS_BETWEEN` units. Between two units nothing is in flight, so any difference is a
fault in the arrays or in the rows; the service then drops its memory and reloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from shared.core.cluster import Cluster
from shared.core.mig import MASK
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

    async def check(self, cluster: Cluster, reader: Reader) -> None:
        """Compare when it is time; raises Stale with both hashes when they differ."""
        self._units += 1
        if self._units % UNITS_BETWEEN:
            return
        await compare(cluster, reader)


async def compare(cluster: Cluster, reader: Reader) -> None:
    """Raise Stale unless the arrays and the rows hold the same."""
    row = (await reader.fetch(HELD_SQL))[0]
    stored = (row["gpus"], row["cpu_milli"], row["memory_mib"])
    held = held_in_memory(cluster)
    if held != stored:
        raise Stale(f"memory {held} is not what the database holds {stored}")


def held_in_memory(cluster: Cluster) -> tuple[str, int, int]:
    """(hash over the GPUs, CPU milli, memory MiB) that the arrays hold. O(GPUs held)."""
    text = ",".join(_lines(cluster))
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    cpu_milli = sum(node.cpu_used_milli for node in cluster.nodes.values())
    memory_mib = sum(node.memory_used_mib for node in cluster.nodes.values())
    return digest, cpu_milli, memory_mib


def _lines(cluster: Cluster) -> Iterator[str]:
    for name in sorted(cluster.nodes):
        uses = cluster.nodes[name].uses
        for gpu in sorted(uses):
            use = uses[gpu]
            if use.milli:
                yield f"{name}:{gpu}:{use.state & MASK}:{use.milli}:{use.team}"
