"""Day partitions of inbox and outbox on a real database, however long nobody made any."""

from __future__ import annotations

import time

import pytest

from shared.events.envelope import event_id
from tests.fixtures.servers import Database
from tests.support.system import now_ms

DAY_MS = 86_400_000


def consumed(number: int, id_ms: int, at_ms: int | None = None) -> str:
    """An inbox row whose event id was made at `id_ms` and that was consumed at `at_ms`, or now."""
    identifier = event_id(id_ms, f"e{number}", "test", 0)
    taken_ms = now_ms() if at_ms is None else at_ms
    values = f"'{identifier}', 'cell-0', 1, {number}, 'topic', 0, {number}, {taken_ms}, 1"
    return f"INSERT INTO quota.inbox VALUES ({values})"


def told(number: int, day: str = "CURRENT_DATE") -> str:
    """An outbox row that was written on `day`."""
    identifier = event_id(now_ms(), f"t{number}", "test", 0)
    values = f"'cell-0', {number}, {day}, '{identifier}', 'topic', 0, '', '', '', 1"
    return f"INSERT INTO quota.outbox VALUES ({values})"


def without_parts(database: Database) -> None:
    """As it is on the fourth day of a service during which nobody made parts."""
    parts = database.execute(
        "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent IN"
        " ('quota.inbox'::regclass, 'quota.outbox'::regclass)"
        " AND inhrelid::regclass::text ~ '[0-9]{8}$'"
    ).split()
    assert len(parts) == 6
    database.execute(*(f"DROP TABLE {part}" for part in parts))


def rows(database: Database, table: str, column: str) -> list[tuple[str, int]]:
    """(table of the part, number) of every row."""
    found = database.execute(
        f"SELECT tableoid::regclass, {column} FROM quota.{table} ORDER BY {column}"
    )
    pairs = (line.split("|") for line in found.splitlines())
    return [(name.removeprefix("quota."), int(number)) for name, number in pairs]


def test_rows_of_days_without_a_part_are_in_one_afterwards(database: Database):
    without_parts(database)
    today_ms = now_ms()
    far_ms = today_ms + 30 * DAY_MS  # an agent's clock is a month ahead
    inserts = [consumed(1, today_ms), consumed(2, today_ms + DAY_MS), consumed(3, far_ms), told(1)]
    database.execute(*inserts)
    assert {"inbox_other"} == {name for name, _ in rows(database, "inbox", "ordinal")}

    database.execute("SELECT quota.maintain()", "SELECT quota.maintain()")

    days = [time.strftime("%Y%m%d", time.gmtime((today_ms + at) / 1000)) for at in (0, DAY_MS)]
    inbox = [(f"inbox_{days[0]}", 1), (f"inbox_{days[1]}", 2), ("inbox_other", 3)]
    assert inbox == rows(database, "inbox", "ordinal")
    assert [(f"outbox_{days[0]}", 1)] == rows(database, "outbox", "seq")
    with pytest.raises(Exception, match=r"inbox_.*_pkey"):
        database.execute(consumed(1, today_ms))
    database.execute(consumed(4, today_ms), told(2))
    assert (f"inbox_{days[0]}", 4) in rows(database, "inbox", "ordinal")


def test_what_has_no_part_is_forgotten_as_late_as_what_has_one(database: Database):
    today_ms = now_ms()
    old_ms = today_ms - 7 * DAY_MS
    ids = [(1, 0, old_ms), (2, 0, today_ms), (3, today_ms + 30 * DAY_MS, old_ms)]
    database.execute(*(consumed(*one) for one in ids))
    database.execute(told(1, "CURRENT_DATE - 7"), told(2, "CURRENT_DATE - 7"))
    database.execute("INSERT INTO quota.watermark (shard, acked_seq) VALUES ('cell-0', 1)")

    database.execute("SELECT quota.maintain()")

    assert [("inbox_other", 2)] == rows(database, "inbox", "ordinal")
    assert [("outbox_other", 2)] == rows(database, "outbox", "seq"), "not yet acknowledged"
