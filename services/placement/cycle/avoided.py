"""Nodes that one workload goes round, as it did not start there: kept with it until it starts.

Others may use them. It tries the rest of the fleet first, and them if nothing else has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from services.placement.state.bodies import Bodies
from services.placement.state.records import Record, Records
from shared.core.model.value import replace
from shared.core.scoring import Cluster
from shared.ports.reader import Reader
from shared.ports.store import Write

ROWS: Final = Bodies("placement.avoided", "workload_id")
AVOIDED_MAX: Final = 16
"""Nodes that one workload goes round; the first are forgotten."""
_encode: Final = msgspec.json.Encoder().encode


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a row."""

    workload_id: str
    nodes: tuple[str, ...]


_decoder: Final = msgspec.json.Decoder(Row)


@contextmanager
def closed(cluster: Cluster, names: Iterable[str]) -> Iterator[None]:
    """No search finds these nodes meanwhile."""
    found = [node for name in names if (node := cluster.node(name)) and not node.cordoned]
    for node in found:
        cluster.put_node(replace(node, cordoned=True))
    try:
        yield
    finally:
        for node in found:
            cluster.put_node(node)


class Avoided:
    """The rows of `Record.avoids`."""

    def __init__(self) -> None:
        self._touched: dict[str, Record] = {}

    def add(self, record: Record, nodes: Iterable[str]) -> None:
        """It did not start on these either."""
        self._set(record, tuple(dict.fromkeys((*record.avoids, *nodes)))[-AVOIDED_MAX:])

    def clear(self, record: Record) -> None:
        """It started, so it has no reason any more."""
        self._set(record, ())

    def _set(self, record: Record, nodes: tuple[str, ...]) -> None:
        if nodes != record.avoids:
            record.avoids = nodes
            self._touched[record.workload.id] = record

    async def load(self, records: Records, reader: Reader) -> None:
        """After the workloads."""
        for row in map(_decoder.decode, await ROWS.read(reader)):
            record = records.alive.get(row.workload_id)
            if record is not None:
                record.avoids = row.nodes

    def writes(self, changed: Sequence[Record]) -> list[Write]:
        """The rows that changed since the last call; of `changed`, what is over needs none."""
        for record in changed:
            if record.avoids and record.over:
                self.clear(record)
        touched, self._touched = self._touched, {}
        saved = {
            name: _encode(Row(workload_id=name, nodes=record.avoids))
            for name, record in touched.items()
            if record.avoids
        }
        return ROWS.writes(saved, [name for name in touched if name not in saved])
