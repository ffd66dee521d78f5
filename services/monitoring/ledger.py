"""Rows of the cost ledger: one for each attempt, filled by the fact that begins or ends it.

An attempt that changes its size has a row for each size, numbered by the changes before it.
A batch is one statement. Begin and end fill different columns of the row, and an end is taken
only once, so the rows are the same in whatever order the facts come, and however often. An end
that is told with an earlier time than its begin, by a clock that fell, is taken as of the begin
(`greatest` passes over NULL, which is not told yet).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.core.model.nouns import Placement
from shared.core.quota.prices import Price
from shared.events.workloads import (
    WorkloadFact,
    WorkloadPlaced,
    WorkloadReleasedDevices,
    WorkloadResized,
)
from shared.ports.store import Write

INTERVALS: Final = (
    "INSERT INTO monitoring.cost_interval AS i (workload_id, attempt, resizes, team, queue,"
    " flavor, gpu_milli, started_at_ms, ended_at_ms, epoch)"
    " SELECT w, a, z, t, q, f, g, s, e + greatest(s - e, 0), {epoch}"
    " FROM unnest({0}::text[], {1}::int[], {2}::int[], {3}::text[], {4}::text[], {5}::text[],"
    " {6}::bigint[], {7}::bigint[], {8}::bigint[]) AS r(w, a, z, t, q, f, g, s, e)"
    " ON CONFLICT (workload_id, attempt, resizes) DO UPDATE SET"
    " flavor = coalesce(i.flavor, excluded.flavor),"
    " gpu_milli = coalesce(i.gpu_milli, excluded.gpu_milli),"
    " started_at_ms = coalesce(i.started_at_ms, excluded.started_at_ms),"
    " ended_at_ms = coalesce(i.ended_at_ms, excluded.ended_at_ms) + greatest("
    "coalesce(i.started_at_ms, excluded.started_at_ms)"
    " - coalesce(i.ended_at_ms, excluded.ended_at_ms), 0),"
    " epoch = excluded.epoch RETURNING 1"
)
PRICES: Final = (
    "INSERT INTO monitoring.flavor_price (flavor, version, applied_at_ms,"
    " microdollars_per_gpu_hour, purchase) SELECT * FROM unnest({0}::text[], {1}::bigint[],"
    " {2}::bigint[], {3}::bigint[], {4}::text[]) ON CONFLICT (flavor, version) DO NOTHING"
    " RETURNING 1"
)
DATED_PRICES: Final = (
    "INSERT INTO monitoring.dated_price (flavor, version, applied_at_ms,"
    " microdollars_per_gpu_hour, purchase) SELECT * FROM unnest({0}::text[], {1}::bigint[],"
    " {2}::bigint[], {3}::bigint[], {4}::text[]) ON CONFLICT (flavor, version, applied_at_ms)"
    " DO NOTHING RETURNING 1"
)


@dataclass(slots=True)
class _Row:
    team: str
    queue: str
    flavor: str | None = None
    gpu_milli: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None


@dataclass(slots=True)
class CostRows:
    """What one batch says about intervals and prices."""

    rows: dict[tuple[str, int, int], _Row] = field(default_factory=dict)
    prices: dict[tuple[str, int], Sequence[Price]] = field(default_factory=dict)

    def placed(self, fact: WorkloadPlaced) -> None:
        """An attempt has its devices."""
        self._begins(fact, fact.placement, fact.placed_at_ms, 0)

    def resized(self, fact: WorkloadResized) -> None:
        """An attempt has another size: what it had before ends."""
        self._row(fact, fact.attempt, fact.resizes - 1).ended_at_ms = fact.resized_at_ms
        self._begins(fact, fact.placement, fact.resized_at_ms, fact.resizes)

    def _begins(self, fact: WorkloadFact, held: Placement, at_ms: int, resizes: int) -> None:
        row = self._row(fact, fact.attempt, resizes)
        row.flavor = held.flavor
        row.gpu_milli = held.charge.gpu_milli
        row.started_at_ms = at_ms

    def released(self, fact: WorkloadReleasedDevices) -> None:
        """An attempt has given its devices back; nothing when it held none."""
        if fact.released_attempt:
            row = self._row(fact, fact.released_attempt, fact.released_resizes)
            row.ended_at_ms = fact.released_at_ms

    def price(self, flavor: str, prices: Sequence[Price]) -> None:
        """A version of a flavor has these prices, the earliest first."""
        self.prices.setdefault((flavor, prices[0].version), prices)

    def _row(self, fact: WorkloadFact, attempt: int, resizes: int) -> _Row:
        key = (fact.workload_id, attempt, resizes)
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = _Row(fact.team, fact.queue)
        return row

    def writes(self) -> list[Write]:
        """One statement for the intervals, and one for the prices of each table."""
        writes = []
        if self.rows:
            writes.append(self._intervals())
        firsts = [(flavor, found[0]) for (flavor, _), found in self.prices.items()]
        dated = [(flavor, one) for (flavor, _), found in self.prices.items() for one in found[1:]]
        writes += [Write(PRICES, _columns(firsts))] if firsts else []
        writes += [Write(DATED_PRICES, _columns(dated))] if dated else []
        return writes

    def _intervals(self) -> Write:
        rows = self.rows.values()
        return Write(
            INTERVALS,
            (
                [workload_id for workload_id, _, _ in self.rows],
                [attempt for _, attempt, _ in self.rows],
                [resizes for _, _, resizes in self.rows],
                [row.team for row in rows],
                [row.queue for row in rows],
                [row.flavor for row in rows],
                [row.gpu_milli for row in rows],
                [row.started_at_ms for row in rows],
                [row.ended_at_ms for row in rows],
            ),
            expect=len(self.rows),
        )


def _columns(rows: Sequence[tuple[str, Price]]) -> tuple[Sequence[object], ...]:
    return (
        [flavor for flavor, _ in rows],
        [price.version for _, price in rows],
        [price.applied_at_ms for _, price in rows],
        [price.microdollars_per_gpu_hour for _, price in rows],
        [price.purchase.value for _, price in rows],
    )
