"""Which rows of a table by node differ from what is known now: written with the next unit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar

from shared.ports.store import Write

Known = TypeVar("Known")


class ChangedRows(Generic[Known]):
    """`put` makes the write of some rows by node; `delete` is the statement for names of nodes."""

    def __init__(self, put: Callable[[Mapping[str, Known]], Write], delete: str) -> None:
        self._put, self._delete = put, delete
        self._rows: set[str] = set()
        self._changed: dict[str, None] = {}

    def loaded(self, nodes: Collection[str]) -> None:
        """These have a row."""
        self._rows = set(nodes)

    def mark(self, node: str) -> None:
        """What is known of a node is another, or nothing any more."""
        self._changed[node] = None

    def writes(self, known: Mapping[str, Known]) -> Iterator[Write]:
        """What makes the rows so; nothing is marked then."""
        changed, self._changed = self._changed, {}
        put = {node: known[node] for node in changed if node in known}
        gone = [node for node in changed if node not in known and node in self._rows]
        self._rows = (self._rows | put.keys()).difference(gone)
        if put:
            yield self._put(put)
        if gone:
            yield Write(self._delete, (gone,), expect=len(gone))
