"""The tables of the notifications service: what is committed, and what changes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from services.notifications.notices import Notice
from shared.events.organisation import NotificationApplied
from shared.ports.reader import Reader
from shared.ports.store import Write

PUT_DESTINATIONS: Final = (
    "INSERT INTO notifications.destination AS d (name, body, next_number, dropped,"
    " delivered_at_ms, failing_since_ms, problem) SELECT n, b, x, o, t, f, p FROM"
    " unnest({0}::text[], {1}::text[], {2}::bigint[], {3}::bigint[], {4}::bigint[],"
    " {5}::bigint[], {6}::text[]) AS r(n, b, x, o, t, f, p) ON CONFLICT (name) DO UPDATE SET"
    " body = excluded.body, next_number = excluded.next_number, dropped = excluded.dropped,"
    " delivered_at_ms = excluded.delivered_at_ms,"
    " failing_since_ms = excluded.failing_since_ms, problem = excluded.problem RETURNING 1"
)
DELETE_DESTINATIONS: Final = (
    "DELETE FROM notifications.destination WHERE name = ANY({0}::text[]) RETURNING 1"
)
DESTINATIONS: Final = (
    "SELECT d.name, d.body, d.next_number, d.dropped, d.delivered_at_ms, d.failing_since_ms,"
    " d.problem, coalesce(min(w.number), d.next_number) AS first_number"
    " FROM notifications.destination d"
    " LEFT JOIN notifications.delivery w ON w.destination = d.name GROUP BY d.name"
)
PUT_DELIVERIES: Final = (
    "INSERT INTO notifications.delivery (destination, number, body, created_at_ms)"
    " SELECT d, n, b, c FROM unnest({0}::text[], {1}::bigint[], {2}::text[], {3}::bigint[])"
    " AS r(d, n, b, c) RETURNING 1"
)
DELETE_DELIVERIES: Final = (
    "DELETE FROM notifications.delivery w USING unnest({0}::text[], {1}::bigint[]) AS r(d, t)"
    " WHERE w.destination = r.d AND w.number <= r.t RETURNING 1"
)
PAGE: Final = (
    "SELECT number, body, created_at_ms FROM notifications.delivery"
    " WHERE destination = $1 AND number >= $2 AND number < $3 ORDER BY number LIMIT $4"
)
EXPIRED: Final = (
    "SELECT coalesce(max(number), -1) AS through FROM notifications.delivery"
    " WHERE destination = $1 AND number < $2 AND created_at_ms < $3"
)


class Destination(msgspec.Struct, kw_only=True):
    """A document in force, and how it stands. Numbers count its notices, from 1."""

    document: NotificationApplied
    next_number: int = 1
    first_number: int = 1
    """The oldest that is not delivered; `next_number` where none waits."""
    dropped: int = 0
    delivered_at_ms: int = 0
    failing_since_ms: int = 0
    problem: str = ""
    trial_number: int = 0
    """Of a test that was not answered yet; 0: none."""
    told_at_ms: int = 0
    told_waiting: int = 0
    """What was told last."""

    @property
    def waiting(self) -> int:
        """Notices that are not delivered."""
        return self.next_number - self.first_number


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A notice in the queue of a destination."""

    number: int
    notice: Notice
    created_at_ms: int


async def load_destinations(reader: Reader) -> dict[str, Destination]:
    """All by name."""
    return {
        row["name"]: Destination(
            document=msgspec.json.decode(row["body"], type=NotificationApplied),
            next_number=row["next_number"],
            first_number=row["first_number"],
            dropped=row["dropped"],
            delivered_at_ms=row["delivered_at_ms"],
            failing_since_ms=row["failing_since_ms"],
            problem=row["problem"],
        )
        for row in await reader.fetch(DESTINATIONS)
    }


async def page_of(
    reader: Reader, name: str, first: int, end: int, count: int
) -> Sequence[Delivery]:
    """The next that wait, from number `first` to before `end`, `count` at most."""
    rows = await reader.fetch(PAGE, name, first, end, count)
    return [
        Delivery(
            number=row["number"],
            notice=msgspec.json.decode(row["body"], type=Notice),
            created_at_ms=row["created_at_ms"],
        )
        for row in rows
    ]


async def expired_through(reader: Reader, name: str, end: int, before_ms: int) -> int:
    """The newest number of the notices that are older than that; -1: none."""
    rows = await reader.fetch(EXPIRED, name, end, before_ms)
    return int(rows[0]["through"])


def put_destinations(changed: Collection[Destination]) -> Write:
    """Rows as they are now."""
    columns = (
        [one.document.name for one in changed],
        [msgspec.json.encode(one.document).decode() for one in changed],
        [one.next_number for one in changed],
        [one.dropped for one in changed],
        [one.delivered_at_ms for one in changed],
        [one.failing_since_ms for one in changed],
        [one.problem for one in changed],
    )
    return Write(PUT_DESTINATIONS, columns, expect=len(changed))


def put_deliveries(queued: Sequence[tuple[str, Delivery]]) -> Write:
    """New rows."""
    columns = (
        [name for name, _ in queued],
        [one.number for _, one in queued],
        [msgspec.json.encode(one.notice).decode() for _, one in queued],
        [one.created_at_ms for _, one in queued],
    )
    return Write(PUT_DELIVERIES, columns, expect=len(queued))


def delete_deliveries(through: Mapping[str, int]) -> Write:
    """All up to a number, by destination."""
    return Write(DELETE_DELIVERIES, (list(through), list(through.values())))


def delete_destinations(names: Collection[str]) -> Write:
    """Documents that are no more."""
    return Write(DELETE_DESTINATIONS, (list(names),))
