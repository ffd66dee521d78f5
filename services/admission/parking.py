"""Submissions of which the refusal could still be turned by facts under way.

Documents and nodes come on other topics than submissions, so a caller that applies a team and
submits at once, or submits while the fleet is still reporting, could be refused by an accident of
timing. Such a refusal waits a moment for the facts; it is bounded in time and number, and stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from shared.core.admission.admit import Doubt
from shared.core.model.nouns import WorkloadSpec
from shared.ports.reader import Reader
from shared.ports.store import Write

PARKED_MAX: Final = 10_000
NAMES_WAIT_MS: Final = 2_000
"""How long an unknown team, queue or class may take to become known."""
FIT_WAIT_MS: Final = 3_000
"""How long after its last growth a fleet is taken to be still reporting."""
_INSERT: Final = (
    "INSERT INTO admission.parked (id, due_ms, body, epoch) SELECT i, d, b, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[], {2}::text[]) AS r(i, d, b) RETURNING 1"
)
_DELETE: Final = "DELETE FROM admission.parked WHERE id = ANY({0}::text[]) RETURNING 1"


class ParkedSubmission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One submission with what its door knows.

    `key` is the idempotency key on Kafka, `source_offset` the record's place on the team's topic.
    """

    id: str
    team: str
    spec: WorkloadSpec
    body_hash: str
    submitted_at_ms: int
    door: str
    key: str = ""
    source_offset: int = -1
    pod_group: str = ""
    by: str = ""
    doubt: Doubt = Doubt.NONE
    due_ms: int = 0


_submission: Final = msgspec.json.Decoder(ParkedSubmission)


class Parking:
    """Parked submissions by id, and which is due first."""

    def __init__(self) -> None:
        self._parked: dict[str, ParkedSubmission] = {}
        self._due: list[tuple[int, str]] = []
        self._fresh: dict[str, ParkedSubmission] = {}
        self._gone: dict[str, None] = {}

    def __len__(self) -> int:
        """Submissions that wait."""
        return len(self._parked)

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        for row in await reader.fetch("SELECT body FROM admission.parked ORDER BY due_ms, id"):
            self.put(_submission.decode(row["body"]))
        self._fresh = {}

    def get(self, identifier: str) -> ParkedSubmission | None:
        """A parked submission."""
        return self._parked.get(identifier)

    def all(self) -> Iterable[ParkedSubmission]:
        """All that wait, in the order in which they came."""
        return list(self._parked.values())

    def put(self, one: ParkedSubmission) -> None:
        """Let it wait until `due_ms`."""
        self._parked[one.id] = self._fresh[one.id] = one
        heapq.heappush(self._due, (one.due_ms, one.id))

    def remove(self, identifier: str) -> None:
        """It has its verdict."""
        del self._parked[identifier]
        if self._fresh.pop(identifier, None) is None:
            self._gone[identifier] = None

    def next_due_ms(self) -> int | None:
        """When the next one is due."""
        while self._due and self._due[0][1] not in self._parked:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def due(self, now_ms: int) -> list[ParkedSubmission]:
        """Those of which the time is up; they stay until they are removed."""
        first_ms = self.next_due_ms()
        if first_ms is None or first_ms > now_ms:
            return []
        return [one for one in self._parked.values() if one.due_ms <= now_ms]

    def writes(self) -> Sequence[Write]:
        """Rows of what came and went since the last call."""
        writes = []
        if self._fresh:
            fresh, self._fresh = list(self._fresh.values()), {}
            bodies = [msgspec.json.encode(one).decode() for one in fresh]
            columns = ([one.id for one in fresh], [one.due_ms for one in fresh], bodies)
            writes.append(Write(_INSERT, columns, len(fresh)))
        if self._gone:
            gone, self._gone = list(self._gone), {}
            writes.append(Write(_DELETE, (gone,), len(gone)))
        return writes
