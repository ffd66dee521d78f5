"""Which submission came under which id: a bounded memory before the table.

While the memory holds every row of the table, a batch needs no look-up at all; once the oldest
were forgotten, `prepare` asks for the ids that are not in memory, in one query for a batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from shared.core.model.decision import FieldError
from shared.ports.reader import Reader
from shared.ports.store import Write

KNOWN_MAX: Final = 200_000
ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
_COLUMNS: Final = "id, team, body_hash, state, message, errors, on_shares"
_INSERT: Final = (
    "INSERT INTO admission.workload (id, team, body_hash, state, message, errors, on_shares,"
    " at_ms, epoch) SELECT i, t, h, s, m, e, o, {7}::bigint, {epoch} FROM unnest({0}::text[],"
    " {1}::text[], {2}::text[], {3}::text[], {4}::text[], {5}::text[], {6}::boolean[])"
    " AS r(i, t, h, s, m, e, o) RETURNING 1"
)
_errors: Final = msgspec.json.Decoder(tuple[FieldError, ...])


class Verdict(NamedTuple):
    """What was decided about a workload id."""

    team: str
    body_hash: str
    state: str
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    on_shares: bool = False
    """Whether it holds shares of GPUs, which no protected class may."""


class KnownVerdicts:
    """Verdicts by workload id."""

    def __init__(self) -> None:
        self._recent: OrderedDict[str, Verdict] = OrderedDict()
        self._asked: dict[str, Verdict] = {}
        self._fresh: dict[str, Verdict] = {}
        self._complete = True

    async def load(self, reader: Reader) -> None:
        """Take the whole table into memory when it is small enough."""
        rows = await reader.fetch(
            f"SELECT {_COLUMNS} FROM admission.workload LIMIT {KNOWN_MAX + 1}"  # noqa: S608  # constants
        )
        self._complete = len(rows) <= KNOWN_MAX
        found = {row["id"]: _verdict(row) for row in rows} if self._complete else {}
        self._recent, self._asked, self._fresh = OrderedDict(found), {}, {}

    async def look_up(self, ids: Iterable[str], reader: Reader) -> None:
        """Ask for those of `ids` that memory may have forgotten."""
        self._asked = {}
        if self._complete:
            return
        missing = [one for one in ids if one not in self._recent]
        if missing:
            rows = await reader.fetch(
                f"SELECT {_COLUMNS} FROM admission.workload WHERE id = ANY($1::text[])",  # noqa: S608
                missing,
            )
            self._asked = {row["id"]: _verdict(row) for row in rows}

    def get(self, identifier: str) -> Verdict | None:
        """The verdict about an id that was looked up, or None if there is none yet."""
        return self._recent.get(identifier) or self._asked.get(identifier)

    def add(self, identifier: str, verdict: Verdict) -> None:
        """A new verdict; the oldest in memory is forgotten beyond the bound."""
        self._recent[identifier] = self._fresh[identifier] = verdict
        if len(self._recent) > KNOWN_MAX:
            self._complete = False
            self._recent.popitem(last=False)

    def writes(self, at_ms: int) -> Sequence[Write]:
        """Rows of the verdicts since the last call."""
        fresh, self._fresh = self._fresh, {}
        if not fresh:
            return ()
        verdicts = list(fresh.values())
        columns = (
            list(fresh),
            [one.team for one in verdicts],
            [one.body_hash for one in verdicts],
            [one.state for one in verdicts],
            [one.message for one in verdicts],
            [msgspec.json.encode(one.errors).decode() if one.errors else "" for one in verdicts],
            [one.on_shares for one in verdicts],
            at_ms,
        )
        return (Write(_INSERT, columns, len(fresh)),)


def _verdict(row) -> Verdict:  # type: ignore[no-untyped-def]  # noqa: ANN001  # a row of any driver
    errors = _errors.decode(row["errors"]) if row["errors"] else ()
    return Verdict(
        row["team"], row["body_hash"], row["state"], row["message"], errors, row["on_shares"]
    )
