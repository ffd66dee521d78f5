"""What placement forgets: workloads that ended long ago.

Their ids cannot come again: admission keeps its verdicts, and queues an id once.
"""

from __future__ import annotations

from typing import Final

from shared.runtime.trimming import Trim

WORKLOADS: Final = """
WITH page AS (
    SELECT submitted_at_ms, id FROM placement.workload
    WHERE over AND submitted_at_ms < $1 AND (submitted_at_ms, id) > ($3, $4)
    ORDER BY submitted_at_ms, id LIMIT $2
), gone AS (
    DELETE FROM placement.workload w USING page p
    WHERE w.id = p.id AND w.over AND w.changed_at_ms < $1 RETURNING w.id
), last AS (
    SELECT submitted_at_ms, id FROM page ORDER BY submitted_at_ms DESC, id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT submitted_at_ms FROM last) AS number, (SELECT id FROM last) AS text
"""


def placement_trims(workloads_days: int) -> tuple[Trim, ...]:
    """All trims of placement's schema."""
    return (Trim(name="workload", sql=WORKLOADS, keep_days=workloads_days),)
