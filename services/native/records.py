"""The tables of the native service: what is committed, and the statements that change it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

import msgspec

from shared.events.organisation import DocumentDeleted, PriorityClassApplied, TeamApplied
from shared.ports.reader import Reader
from shared.ports.store import Write

PUT_GROUPS: Final = (
    "INSERT INTO native.pod_group AS g (key, cell, workload_id, team, restart, state, uids,"
    " reason, message, changed_at_ms, submitted_at_ms)"
    " SELECT k, {0}::int, w, t, n, s, string_to_array(u, ','), e, m, c, b"
    " FROM unnest({1}::text[], {2}::text[], {3}::text[], {4}::int[], {5}::text[], {6}::text[],"
    " {7}::text[], {8}::text[], {9}::bigint[], {10}::bigint[]) AS r(k, w, t, n, s, u, e, m, c, b)"
    " ON CONFLICT (key) DO UPDATE SET workload_id = excluded.workload_id, team = excluded.team,"
    " restart = excluded.restart, state = excluded.state, uids = excluded.uids,"
    " reason = excluded.reason, message = excluded.message,"
    " changed_at_ms = excluded.changed_at_ms, submitted_at_ms = excluded.submitted_at_ms"
    " RETURNING 1"
)
DELETE_GROUPS: Final = "DELETE FROM native.pod_group WHERE key = ANY({0}::text[]) RETURNING 1"
GROUPS: Final = (
    "SELECT key, workload_id, team, restart, state, uids, reason, message,"
    " changed_at_ms, submitted_at_ms FROM native.pod_group WHERE cell = $1"
)
PUT_DOCUMENTS: Final = (
    "INSERT INTO native.document AS d (kind, name, version, namespace, present)"
    " SELECT k, n, v, s, p FROM unnest({0}::text[], {1}::text[], {2}::bigint[], {3}::text[],"
    " {4}::boolean[]) AS r(k, n, v, s, p) ON CONFLICT (kind, name) DO UPDATE SET"
    " version = excluded.version, namespace = excluded.namespace, present = excluded.present"
    " RETURNING 1"
)
DOCUMENTS: Final = "SELECT kind, name, version, namespace, present FROM native.document"
TEAM, PRIORITY_CLASS = "team", "priority_class"


class GroupState(StrEnum):
    """What became of the last submission of a group."""

    SUBMITTED = "submitted"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    """In Muster, by a person: its pods stay, so they are not submitted again."""
    ENDED = "ended"


class GroupRecord(msgspec.Struct, kw_only=True):
    """A group that was submitted."""

    key: str
    workload_id: str
    team: str
    restart: int
    """Counts its submissions, from 0: a controller makes pods anew after an end."""
    state: GroupState
    uids: tuple[str, ...]
    """Of its pods at the submission, in order."""
    reason: str = ""
    """Code of why it waits or was rejected; empty: nothing was told."""
    message: str = ""
    """The same for people, with the next step."""
    changed_at_ms: int = 0
    submitted_at_ms: int = 0
    """As its workload has it; 0: not known."""


async def load_groups(reader: Reader, cell: int) -> dict[str, GroupRecord]:
    """All groups by key."""
    rows = await reader.fetch(GROUPS, cell)
    return {
        row["key"]: GroupRecord(
            **{**row, "state": GroupState(row["state"]), "uids": tuple(row["uids"])}
        )
        for row in rows
    }


def put_groups(records: Collection[GroupRecord], cell: int) -> Write:
    """New rows, or what they are now."""
    columns = [
        [one.key for one in records],
        [one.workload_id for one in records],
        [one.team for one in records],
        [one.restart for one in records],
        [one.state.value for one in records],
        [",".join(one.uids) for one in records],
        [one.reason for one in records],
        [one.message for one in records],
        [one.changed_at_ms for one in records],
        [one.submitted_at_ms for one in records],
    ]
    return Write(PUT_GROUPS, (cell, *columns), expect=len(records))


def delete_groups(keys: Iterable[str]) -> Write:
    """Rows of groups without pods."""
    return Write(DELETE_GROUPS, (list(keys),))


class Directory:
    """The team of each namespace, and the priority classes there are."""

    def __init__(self) -> None:
        self._namespaces: dict[str, str] = {}
        """By team."""
        self._versions: dict[tuple[str, str], int] = {}
        self._fresh: dict[tuple[str, str], tuple[int, str, bool]] = {}
        self.classes: set[str] = set()

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        for row in await reader.fetch(DOCUMENTS):
            self._take(row["kind"], row["name"], row["version"], row["namespace"], row["present"])

    def team_of(self, namespace: str) -> str | None:
        """The team that has the namespace; None: none has. O(teams)."""
        found = (team for team, own in self._namespaces.items() if own == namespace)
        return next(found, None)

    def hear(self, document: TeamApplied | PriorityClassApplied | DocumentDeleted) -> None:
        """A document of the organisation; an old version of it is no news."""
        namespace, present = "", not isinstance(document, DocumentDeleted)
        if isinstance(document, DocumentDeleted):
            kind = document.kind
        elif isinstance(document, TeamApplied):
            kind, namespace = TEAM, document.namespace or document.name
        else:
            kind = PRIORITY_CLASS
        key = (kind, document.name)
        if kind not in (TEAM, PRIORITY_CLASS) or self._versions.get(key, -1) >= document.version:
            return
        self._take(kind, document.name, document.version, namespace, present)
        self._fresh[key] = (document.version, namespace, present)

    def _take(self, kind: str, name: str, version: int, namespace: str, present: bool) -> None:  # noqa: FBT001  # the columns of a row
        self._versions[kind, name] = version
        if kind == PRIORITY_CLASS:
            (self.classes.add if present else self.classes.discard)(name)
        elif present:
            self._namespaces[name] = namespace
        else:
            self._namespaces.pop(name, None)

    def writes(self) -> list[Write]:
        """Rows of what is new since the last call."""
        fresh, self._fresh = self._fresh, {}
        if not fresh:
            return []
        columns = [
            [kind for kind, _ in fresh],
            [name for _, name in fresh],
            [version for version, _, _ in fresh.values()],
            [namespace for _, namespace, _ in fresh.values()],
            [present for _, _, present in fresh.values()],
        ]
        return [Write(PUT_DOCUMENTS, tuple(columns), expect=len(fresh))]
