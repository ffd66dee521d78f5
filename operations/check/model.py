"""What the checker reads and what it says: records of the log, violations, results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Row = Mapping[str, Any]
Payload = dict[str, Any]
Place = tuple[str, int, int]
"""Topic, partition and offset."""
SUBMIT: Final = "muster.submit.workload.v1"
"""All that a team may send."""
_Index = dict[str, list["Record"]]


class CannotCheck(Exception):  # noqa: N818  # the name says what happened
    """A source cannot be read, so nothing can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of the log; `topic` without the prefix, `payload` empty where not needed."""

    topic: str
    partition: int
    offset: int
    id: str
    type: str
    source: str
    sequence: int
    time_ms: int
    causation_id: str = ""
    subject: str = ""
    payload: Payload = field(default_factory=dict)
    redriven: bool = False
    """Whether an operator sent it again from the dead letters, out of its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule: about which workload, GPU, event or shard, and the numbers."""

    subject: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The verdict on one invariant; `checked` counts what was looked at."""

    id: str
    what: str
    checked: int
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.violations


@dataclass(slots=True, kw_only=True)
class Findings:
    """Collects what one check finds."""

    checked: int = 0
    violations: list[Violation] = field(default_factory=list)

    def add(self, subject: object, detail: str) -> None:
        """Note one violation."""
        self.violations.append(Violation(subject=str(subject), detail=detail))

    def merge(self, other: Findings) -> Findings:
        """This and `other` together."""
        self.checked += other.checked
        self.violations += other.violations
        return self

    def result(self, identifier: str, what: str) -> Result:
        """The verdict."""
        return Result(
            id=identifier, what=what, checked=self.checked, violations=tuple(self.violations)
        )


@dataclass(slots=True, kw_only=True)
class Log:
    """The log in order by (topic, partition, offset), and where it ended around the snapshot.

    `ends_before` was read before the database snapshot: everything below it must be explained by
    the database. The records reach to ends read after the snapshot: everything that the
    database calls published must be among them.
    """

    records: list[Record] = field(default_factory=list)
    ends_before: dict[tuple[str, int], int] = field(default_factory=dict)
    dead: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    """Services that set a record aside, by its place: every record in the dead letters."""
    unreadable: Mapping[Place, str] = field(default_factory=dict)
    """Why nothing is known of a record, by its place."""
    begins: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """First offset that is left, where retention has removed some; by topic and partition."""
    _index: tuple[_Index, _Index] | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing was removed: where it was, a cause may be gone."""
        return not any(self.begins.values())

    def whole(self, topic: str) -> bool:
        """Whether all of a topic is there."""
        return not any(begin for (name, _), begin in self.begins.items() if name == topic)

    def covered(self, record: Record) -> bool:
        """Whether it was there before the snapshot, so that rows and causes must be known."""
        return record.offset < self.ends_before.get((record.topic, record.partition), 0)

    def of(self, *types: str) -> Iterable[Record]:
        """Records of these types, first copy only, in order by type."""
        by_type, _ = self._indexes()
        return (record for one in types for record in by_type.get(one, ()))

    def on(self, topic: str) -> Iterable[Record]:
        """Records of one topic, first copy only, in order."""
        _, by_topic = self._indexes()
        return iter(by_topic.get(topic, ()))

    def _indexes(self) -> tuple[_Index, _Index]:
        if self._index is None:
            self._index = _index(self.records)
        return self._index


def foreign(topic: str) -> bool:
    """Whether a team writes it: nothing in its headers can be trusted."""
    return topic.startswith("submission-")


def _index(records: Iterable[Record]) -> tuple[_Index, _Index]:
    """First copies by type and by topic."""
    seen: set[tuple[str, str]] = set()
    by_type: _Index = {}
    by_topic: _Index = {}
    for record in records:
        key = (record.topic, record.id)
        forged = foreign(record.topic) and record.type != SUBMIT
        if key not in seen and not forged:
            seen.add(key)
            by_type.setdefault(record.type, []).append(record)
            by_topic.setdefault(record.topic, []).append(record)
    return by_type, by_topic


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything a check may look at: rows by the name of their query, and the log."""

    rows: dict[str, Sequence[Row]] = field(default_factory=dict)
    log: Log = field(default_factory=Log)
    acknowledged: frozenset[str] = frozenset()
    """Workload ids that a client's own ledger says were accepted."""
