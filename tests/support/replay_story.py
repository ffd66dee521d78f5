"""What happened to a replay, by the rows of the read model and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.system import Stage

RULES: Final = ("priority", "reclaim", "fair-share")
REASONS: Final = ("node-drained", "queue-drained", "spot-notice", "node-lost")
_VICTIMS: Final = (
    "SELECT v->>'rule' AS name, count(*) AS n FROM gateway.preemption p,"
    " json_array_elements(p.victims::json) v WHERE coalesce((v->>'pods_kept')::int, 0) = 0"
    " GROUP BY 1 UNION ALL"
    " SELECT 'surplus', count(*) FROM gateway.preemption p, json_array_elements(p.victims::json) v"
    " WHERE coalesce((v->>'pods_kept')::int, 0) > 0"
)
_EVICTED: Final = (
    "SELECT CASE WHEN reason = 'drained' THEN split_part(message, ' ', 1) || '-drained'"
    " ELSE reason END AS name, count(*) AS n FROM gateway.event"
    " WHERE type = 'muster.workload.evicted.v1' AND reason <> 'preempted' GROUP BY 1"
)
_OTHER_END: Final = (
    "SELECT coalesce(w.state, 'missing') || ' ' || coalesce(w.reason, '') || ': ' ||"
    " coalesce(w.message, '') AS name, count(*) AS n FROM unnest($1::text[]) AS a(id)"
    " LEFT JOIN gateway.workload w USING (id) WHERE w.state IS DISTINCT FROM 'succeeded'"
    " GROUP BY 1 ORDER BY 2 DESC LIMIT 10"
)
_OVERLAP: Final = (
    "SELECT count(*) FROM (SELECT started_at_ms < lag(coalesce(ended_at_ms, started_at_ms + 1))"
    " OVER (PARTITION BY workload_id ORDER BY attempt, resizes) AS twice"
    " FROM monitoring.cost_interval) i WHERE twice"
)
_SUCCEEDED_TWICE: Final = (
    "SELECT count(*) FROM (SELECT subject FROM placement.audit WHERE after = 'succeeded'"
    " GROUP BY 1 HAVING count(*) > 1) d"
)
_RESIZED: Final = "SELECT count(*) FROM gateway.event WHERE type = 'muster.workload.resized.v1'"
_REFUNDS: Final = (
    "SELECT expired_reason AS name, count(*) AS n FROM gateway.preemption"
    " WHERE expired_reason <> '' GROUP BY 1"
)


@dataclass(slots=True, kw_only=True)
class Story:
    """Counts of what happened, and what must not have."""

    evictions: dict[str, int]
    """By rule of preemption, `surplus` for parts of gangs, and by reason of the others."""
    resizes: int
    refunds: dict[str, int]
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def never(self) -> list[str]:
        """What a run must contain and did not; gangs grow only where nobody waits, so none may."""
        return [one for one in (*RULES, *REASONS) if not self.evictions.get(one)]


async def story_of(stage: Stage, accepted: Sequence[str]) -> Story:
    """Read it, once everything has ended."""
    evictions = await _counts(stage, _VICTIMS) | await _counts(stage, _EVICTED)
    story = Story(
        evictions=evictions,
        resizes=await stage.rows.fetchval(_RESIZED),
        refunds=await _counts(stage, _REFUNDS),
    )
    story.faults = await _counts(stage, _OTHER_END, list(accepted))
    held = {
        "attempts that overlap": _OVERLAP,
        "succeeded twice": _SUCCEEDED_TWICE,
        "allocations left": "SELECT count(*) FROM placement.allocation",
        "reservations left": "SELECT count(*) FROM placement.reservation",
        "cordons left": "SELECT count(*) FROM placement.cordon",
    }
    for name, query in held.items():
        if count := await stage.rows.fetchval(query):
            story.faults[name] = count
    return story


async def _counts(stage: Stage, query: str, *arguments: Any) -> dict[str, int]:
    return {row["name"]: row["n"] for row in await stage.rows.fetch(query, *arguments)}
