"""Workloads that are alive in quota, and their rows.

The whole workload is kept as the JSON that its row has, and decoded again only when it is
nominated once more; most are nominated once, from the message that brought them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from shared.core.model.charges import least_amount
from shared.core.model.nouns import Workload
from shared.core.queueing.nomination import Nominator, Pending, Phase, choice_of
from shared.ports.reader import Reader
from shared.ports.store import Write

PAGE_ROWS: Final = 5_000
_CHANGING: Final = (
    ("phase", "text"),
    ("held", "boolean"),
    ("hold_asked", "boolean"),
    ("cancelled", "boolean"),
    ("priority", "bigint"),
    ("version", "bigint"),
    ("nomination", "int"),
    ("flavor", "text"),
    ("gpu_milli", "bigint"),
    ("cpu_milli", "bigint"),
    ("memory_mib", "bigint"),
    ("attempt", "int"),
    ("placed_at_ms", "bigint"),
)
_FIXED: Final = (
    ("team", "text"),
    ("queue", "text"),
    ("submitted_at_ms", "bigint"),
    ("body", "text"),
)
_NAMES: Final = ", ".join(name for name, _ in _CHANGING)
_FIXED_NAMES: Final = ", ".join(name for name, _ in _FIXED)


def _unnest(columns: Sequence[tuple[str, str]]) -> str:
    arrays = ", ".join(f"{{{index}}}::{kind}[]" for index, (_, kind) in enumerate(columns))
    names = ", ".join(name for name, _ in columns)
    return f"unnest({arrays}) AS r({names})"


_ID: Final = (("workload_id", "text"),)
_INSERT: Final = (
    f"INSERT INTO quota.pending (workload_id, {_NAMES}, {_FIXED_NAMES}, epoch)"  # noqa: S608
    f" SELECT workload_id, {_NAMES}, {_FIXED_NAMES}, {{epoch}}"
    f" FROM {_unnest((*_ID, *_CHANGING, *_FIXED))} RETURNING 1"
)
_UPDATE: Final = (
    "UPDATE quota.pending AS p SET "  # noqa: S608
    + ", ".join(f"{name} = r.{name}" for name, _ in _CHANGING)
    + f", epoch = {{epoch}} FROM {_unnest((*_ID, *_CHANGING))}"
    " WHERE p.workload_id = r.workload_id RETURNING 1"
)
_DELETE: Final = "DELETE FROM quota.pending WHERE workload_id = ANY({0}::text[]) RETURNING 1"
_HISTORY: Final = (
    "INSERT INTO quota.usage_history (workload_id, attempt, team, queue, flavor, gpu_milli,"
    " cpu_milli, memory_mib, started_at_ms, ended_at_ms, resizes, epoch)"
    " SELECT w, a, t, q, f, g, c, m, s, e, z, {epoch} FROM unnest({0}::text[], {1}::int[],"
    " {2}::text[], {3}::text[], {4}::text[], {5}::bigint[], {6}::bigint[], {7}::bigint[],"
    " {8}::bigint[], {9}::bigint[], {10}::int[]) AS r(w, a, t, q, f, g, c, m, s, e, z)"
    " RETURNING 1"
)
_INSERT_EARLY: Final = (
    "INSERT INTO quota.early (workload_id, version, held, gone, priority, epoch)"
    " SELECT w, v, h, g, p, {epoch} FROM unnest({0}::text[], {1}::bigint[], {2}::boolean[],"
    " {3}::boolean[], {4}::bigint[]) AS r(w, v, h, g, p)"
    " ON CONFLICT (workload_id) DO UPDATE SET version = excluded.version, held = excluded.held,"
    " gone = excluded.gone, priority = excluded.priority, epoch = excluded.epoch RETURNING 1"
)
_SELECT_EARLY: Final = "SELECT workload_id, version, held, gone, priority FROM quota.early"
_DELETE_EARLY: Final = "DELETE FROM quota.early WHERE workload_id = ANY({0}::text[]) RETURNING 1"
_SELECT: Final = (
    f"SELECT workload_id, {_NAMES}, body FROM quota.pending"  # noqa: S608  # constants
    f" WHERE workload_id > $1 ORDER BY workload_id LIMIT {PAGE_ROWS}"
)
_encoder: Final = msgspec.json.Encoder()
_workload: Final = msgspec.json.Decoder(Workload)


class EarlyFacts(NamedTuple):
    """What placement said about a workload before `WorkloadQueued` was read here."""

    version: int
    held: bool
    gone: bool
    priority: int | None
    """None where the row is older than this column."""


class QuotaRecords:
    """Every living workload by id, what was touched, and what came early."""

    def __init__(self) -> None:
        self.alive: dict[str, Pending] = {}
        self.early: dict[str, EarlyFacts] = {}
        self._bodies: dict[str, str] = {}
        self._whole: dict[str, Workload] = {}
        self._new: set[str] = set()
        self._touched: dict[str, Pending] = {}
        self._history: list[tuple[Any, ...]] = []
        self._fresh_early: dict[str, None] = {}
        self._merged_early: dict[str, None] = {}

    async def load(self, reader: Reader, core: Nominator) -> None:
        """Rebuild from the rows, page by page; `self` must be new, the tree complete."""
        for row in await reader.fetch(_SELECT_EARLY):
            known = EarlyFacts(row["version"], row["held"], row["gone"], row["priority"])
            self.early[row["workload_id"]] = known
        last = ""
        while True:
            rows = await reader.fetch(_SELECT, last)
            for row in rows:
                self._restore(row, core)
            if len(rows) < PAGE_ROWS:
                return
            last = rows[-1]["workload_id"]

    def _restore(self, row: Any, core: Nominator) -> None:  # noqa: ANN401  # a row of any driver
        pending = pending_of(_workload.decode(row["body"]), row["version"])
        pending.held, pending.hold_asked = row["held"], row["hold_asked"]
        pending.cancelled, pending.nomination = row["cancelled"], row["nomination"]
        pending.attempt, pending.placed_at_ms = row["attempt"], row["placed_at_ms"]
        if row["priority"] != pending.priority:
            core.reprioritise(pending, row["priority"])
        charge = (row["gpu_milli"], row["cpu_milli"], row["memory_mib"])
        core.restore(pending, Phase(row["phase"]), row["flavor"], charge)
        self.alive[pending.id] = pending
        self._bodies[pending.id] = row["body"]

    def add(self, workload: Workload, version: int) -> Pending:
        """A workload that was queued."""
        pending = pending_of(workload, version)
        self.alive[workload.id] = self._touched[workload.id] = pending
        self._bodies[workload.id] = _encoder.encode(workload).decode()
        self._whole[workload.id] = workload
        self._new.add(workload.id)
        return pending

    def touch(self, pending: Pending) -> None:
        """Its row will be written."""
        self._touched[pending.id] = pending

    def whole(self, pending: Pending) -> Workload:
        """The workload with its present priority."""
        found = self._whole.get(pending.id) or _workload.decode(self._bodies[pending.id])
        if found.priority == pending.priority:
            return found
        return Workload(
            id=found.id,
            team=found.team,
            queue=found.queue,
            cell=found.cell,
            priority=pending.priority,
            spec=found.spec,
            submitted_at_ms=found.submitted_at_ms,
        )

    def remember_use(self, pending: Pending, ended_at_ms: int, resizes: int = 0) -> None:
        """The use of an attempt at one size is over: one row of exact history."""
        self._history.append(
            (
                pending.id,
                pending.attempt,
                pending.team,
                pending.queue,
                pending.flavor,
                *pending.charge,
                pending.placed_at_ms,
                ended_at_ms,
                resizes,
            )
        )

    def note_early(self, identifier: str, early: EarlyFacts) -> None:
        """A fact about a workload that is not known yet."""
        self.early[identifier] = early
        self._fresh_early[identifier] = None

    def take_early(self, identifier: str) -> EarlyFacts | None:
        """What was said before the workload came; it is merged now."""
        early = self.early.pop(identifier, None)
        if early is not None and self._fresh_early.pop(identifier, self) is self:
            self._merged_early[identifier] = None
        return early

    def writes(self) -> Sequence[Write]:
        """Rows of everything since the last call, one statement for a table and verb."""
        inserts: list[tuple[Any, ...]] = []
        updates: list[tuple[Any, ...]] = []
        deletes: list[str] = []
        for identifier, pending in self._touched.items():
            new = identifier in self._new
            if pending.phase is Phase.GONE:
                del self.alive[identifier], self._bodies[identifier]
                if not new:
                    deletes.append(identifier)
            elif new:
                inserts.append(
                    (
                        *_row(pending),
                        pending.team,
                        pending.queue,
                        pending.submitted_at_ms,
                        self._bodies[identifier],
                    )
                )
            else:
                updates.append(_row(pending))
        writes = [
            Write(sql, _columns(rows), len(rows))
            for sql, rows in ((_INSERT, inserts), (_UPDATE, updates), (_HISTORY, self._history))
            if rows
        ]
        if deletes:
            writes.append(Write(_DELETE, (deletes,), len(deletes)))
        writes.extend(self._early_writes())
        self._touched, self._new, self._whole, self._history = {}, set(), {}, []
        return writes

    def _early_writes(self) -> Sequence[Write]:
        writes = []
        if self._fresh_early:
            rows = [(one, *self.early[one]) for one in self._fresh_early]
            writes.append(Write(_INSERT_EARLY, _columns(rows), len(rows)))
        if self._merged_early:
            merged = list(self._merged_early)
            writes.append(Write(_DELETE_EARLY, (merged,), len(merged)))
        self._fresh_early, self._merged_early = {}, {}
        return writes


def pending_of(workload: Workload, version: int) -> Pending:
    """The core's view of a workload."""
    return Pending(
        workload.id,
        team=workload.team,
        queue=workload.queue,
        priority=workload.priority,
        submitted_at_ms=workload.submitted_at_ms,
        request=least_amount(workload.spec),
        choice=choice_of(workload.spec),
        version=version,
    )


def _row(pending: Pending) -> tuple[Any, ...]:
    charge = pending.charge
    return (
        pending.id,
        pending.phase.value,
        pending.held,
        pending.hold_asked,
        pending.cancelled,
        pending.priority,
        pending.version,
        pending.nomination,
        pending.flavor,
        charge[0],
        charge[1],
        charge[2],
        pending.attempt,
        pending.placed_at_ms,
    )


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))
