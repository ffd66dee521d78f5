"""Rows by node: what is written, what is deleted, and what was never there."""

from services.cluster_watcher.changed_rows import ChangedRows
from shared.ports.store import Write


def a_table(*nodes):
    rows = ChangedRows[int](lambda known: Write("PUT", (dict(known),)), "DELETE")
    rows.loaded(nodes)
    return rows


def written(rows, known, *marked):
    for node in marked:
        rows.mark(node)
    return [(one.sql, one.arguments[0]) for one in rows.writes(known)]


def test_what_changed_is_written_once():
    rows = a_table("a")

    assert written(rows, {"a": 1, "b": 2}, "a", "b") == [("PUT", {"a": 1, "b": 2})]
    assert written(rows, {"a": 1, "b": 2}) == []


def test_what_is_not_known_any_more_is_deleted_once():
    rows = a_table("a")
    written(rows, {"b": 2}, "b")

    assert written(rows, {}, "a", "b") == [("DELETE", ["a", "b"])]
    assert written(rows, {}, "a") == []


def test_a_node_without_a_row_is_not_deleted():
    """It came and went between two units: a delete that finds nothing would be a stale row."""
    assert written(a_table(), {}, "a") == []
