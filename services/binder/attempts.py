"""The table of attempts: what is committed, and the statements that change it.

A row is the record of one attempt: what was commanded, how far it was told. Which fact may still
be told follows from `state` alone, so each is told exactly once, however often it is observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from services.binder.gang import BoundGang
from services.binder.gang_state import Key, ToldFact
from services.binder.stored_pods import read, written
from shared.ports.cluster import Pod
from shared.ports.reader import Reader
from shared.ports.store import Write

STATES: Final = ("binding", "bound", "running")
"""States of an active attempt, in the order of `ToldFact`."""
FINISHED: Final = "finished"
REFUSED: Final = "refused"
ANSWERED: Final = "gone"

INSERT: Final = (
    "INSERT INTO binder.attempt (workload_id, attempt, cell, epoch, team, state, active, evicting,"
    " grace_seconds, succeeded, fenced_nodes, size, pods, accepted_at_ms, changed_at_ms)"
    " SELECT w, n, {1}::int, {2}::bigint, t, {3}::text, {4}::bool, {5}::bool, {6}::int,"
    " {7}::bool, {8}::text[], z, p::json, {0}::bigint, {0}::bigint"
    " FROM unnest({9}::text[], {10}::int[], {11}::text[], {12}::int[], {13}::text[])"
    " AS r(w, n, t, z, p) RETURNING 1"
)
UPDATE: Final = (
    "UPDATE binder.attempt AS x SET state = {1}::text, active = {2}::bool, evicting = {3}::bool,"
    " grace_seconds = {4}::int, succeeded = {5}::bool, fenced_nodes = {6}::text[], reason = o,"
    " changed_at_ms = {0}::bigint"
    " FROM unnest({7}::text[], {8}::int[], {9}::text[]) AS r(w, n, o)"
    " WHERE x.workload_id = r.w AND x.attempt = r.n RETURNING 1"
)
RESIZE: Final = (
    "UPDATE binder.attempt AS x SET state = {1}::text, active = {2}::bool, evicting = {3}::bool,"
    " grace_seconds = {4}::int, succeeded = {5}::bool, fenced_nodes = {6}::text[], reason = o,"
    " changed_at_ms = {0}::bigint, size = z, resizing = i, pods_before = b, pods = p::json"
    " FROM unnest({7}::text[], {8}::int[], {9}::text[], {10}::int[], {11}::int[], {12}::int[],"
    " {13}::text[]) AS r(w, n, o, z, i, b, p)"
    " WHERE x.workload_id = r.w AND x.attempt = r.n RETURNING 1"
)
"""As UPDATE, for a row with a resize that was asked for or answered in this unit."""
FENCE: Final = (
    "INSERT INTO binder.fence AS f (cell, epoch) VALUES ({0}::int, {1}::bigint)"
    " ON CONFLICT (cell) DO UPDATE SET epoch = greatest(f.epoch, excluded.epoch) RETURNING 1"
)
ACTIVE: Final = (
    "SELECT workload_id, attempt, cell, epoch, team, state, evicting, grace_seconds, succeeded,"
    " fenced_nodes, size, resizing, pods_before,"
    " CASE WHEN state = 'binding' OR resizing > 0 THEN pods::text END AS pods"
    " FROM binder.attempt WHERE active ORDER BY accepted_at_ms, workload_id, attempt"
)
NEVER_BOUND: Final = (
    "SELECT workload_id, attempt FROM binder.attempt WHERE NOT active AND size = 0"
)
FENCES: Final = "SELECT cell, epoch FROM binder.fence"
SOME: Final = (
    "SELECT x.workload_id, x.attempt, x.cell, x.epoch, x.team, x.state, x.evicting,"
    " x.grace_seconds, x.succeeded, x.size, x.reason FROM binder.attempt x JOIN"
    " unnest($1::text[], $2::int[]) AS r(w, n) ON x.workload_id = r.w AND x.attempt = r.n"
    " WHERE NOT x.active"
)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One row. It changes in `decide`; if that is not committed, memory is rebuilt."""

    workload_id: str
    attempt: int
    cell: int
    epoch: int
    team: str
    state: str
    size: int
    active: bool = True
    evicting: bool = False
    grace_seconds: int = 0
    fenced_nodes: tuple[str, ...] = ()
    """From these its pods go without their kubelets."""
    succeeded: bool = False
    reason: str = ""
    resizing: int = 0
    """Number of the resize that is not answered yet; `size` is then what is wanted."""
    pods_before: int = 0
    wanted: tuple[Pod, ...] | None = None
    """Set when this unit changes the resize of the row: the pods it then has to have."""

    @property
    def key(self) -> Key:
        """Workload and attempt."""
        return self.workload_id, self.attempt


def insert(rows: Sequence[tuple[Attempt, tuple[Pod, ...]]], now_ms: int) -> list[Write]:
    """New rows, one statement for those that are alike; an existing row gets all rejected.

    What a batch has in common travels once: each value of an array costs the driver time.
    """
    groups: dict[tuple[object, ...], list[tuple[Attempt, tuple[Pod, ...]]]] = {}
    for row in rows:
        one = row[0]
        groups.setdefault((one.cell, one.epoch, *_standing(one)), []).append(row)
    return [
        Write(
            INSERT,
            (
                now_ms,
                *common,
                [one.workload_id for one, _ in group],
                [one.attempt for one, _ in group],
                [one.team for one, _ in group],
                [one.size for one, _ in group],
                [written(pods) for _, pods in group],
            ),
            expect=len(group),
        )
        for common, group in groups.items()
    ]


def update(attempts: Iterable[Attempt], now_ms: int) -> list[Write]:
    """The present state of rows that exist, one statement for those that are alike."""
    groups: dict[tuple[object, ...], list[Attempt]] = {}
    for one in attempts:
        groups.setdefault((one.wanted is not None, *_standing(one)), []).append(one)
    return [
        Write(
            RESIZE if resized else UPDATE,
            (
                now_ms,
                *common,
                [one.workload_id for one in group],
                [one.attempt for one in group],
                [one.reason for one in group],
                *(_sizes(group) if resized else ()),
            ),
            expect=len(group),
        )
        for (resized, *common), group in groups.items()
    ]


def _sizes(group: Sequence[Attempt]) -> tuple[list[object], ...]:
    pods = [written(one.wanted or ()) for one in group]
    for one in group:
        one.wanted = None
    return (
        [one.size for one in group],
        [one.resizing for one in group],
        [one.pods_before for one in group],
        [*pods],
    )


def _standing(one: Attempt) -> tuple[object, ...]:
    ends = one.grace_seconds, one.succeeded, one.fenced_nodes
    return one.state, one.active, one.evicting, *ends


def fence(cell: int, epoch: int) -> Write:
    """The highest epoch of placement that was seen for a cell."""
    return Write(FENCE, (cell, epoch), expect=1)


@dataclass(slots=True, kw_only=True)
class BinderMemory:
    """Everything the binder knows of its own tables."""

    attempts: dict[Key, Attempt]
    """Active ones."""
    never_bound: set[Key]
    """Evicted before they were bound: a later command to bind them is ignored."""
    epochs: dict[int, int]
    """Highest epoch of placement seen, by cell."""
    gangs: list[BoundGang]
    """The active attempts as the actuator starts with them, nothing known of their pods."""


async def load(reader: Reader) -> BinderMemory:
    """Read it all."""
    memory = BinderMemory(attempts={}, never_bound=set(), epochs={}, gangs=[])
    for row in await reader.fetch(FENCES):
        memory.epochs[row["cell"]] = row["epoch"]
    for row in await reader.fetch(NEVER_BOUND):
        memory.never_bound.add((row["workload_id"], row["attempt"]))
    for row in await reader.fetch(ACTIVE):
        fields = dict(row)
        pods, fenced = fields.pop("pods"), tuple(fields.pop("fenced_nodes"))
        attempt = Attempt(**fields, fenced_nodes=fenced)
        memory.attempts[attempt.key] = attempt
        memory.gangs.append(gang_of(attempt, read(pods) if pods else ()))
    return memory


def gang_of(attempt: Attempt, pods: tuple[Pod, ...], correlation_id: str = "") -> BoundGang:
    """The attempt as the actuator works on it."""
    gang = BoundGang(
        workload_id=attempt.workload_id,
        attempt=attempt.attempt,
        size=attempt.pods_before if attempt.resizing else attempt.size,
        pods=pods,
        cell=attempt.cell,
        told=ToldFact(STATES.index(attempt.state)),
        correlation_id=correlation_id,
    )
    if attempt.resizing:
        gang.resize(attempt.resizing, pods, attempt.grace_seconds)
    if attempt.evicting:
        gang.evict(attempt.grace_seconds, attempt.fenced_nodes)
    if attempt.succeeded:
        gang.note()
    return gang


async def find_over(keys: Sequence[Key], reader: Reader) -> dict[Key, Attempt]:
    """Those of `keys` that exist and are over."""
    rows = await reader.fetch(SOME, [key[0] for key in keys], [key[1] for key in keys])
    found = (Attempt(**row, active=False) for row in rows)
    return {attempt.key: attempt for attempt in found}
