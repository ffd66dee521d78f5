"""What placement keeps work off: nodes with the reason, GPUs by index; a row for each node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from services.cluster_watcher.changed_rows import ChangedRows
from shared.core.health.device import TAKES_WORK
from shared.events.nodes import DeviceHealthChanged, NodeCordoned, NodeUncordoned
from shared.ports.reader import Reader
from shared.ports.store import Write

PUT: Final = (
    "INSERT INTO cluster_watcher.closed_node AS c (node, cell, reason, gpus)"
    " SELECT r.node, {0}::int, r.reason, r.gpus::json"
    " FROM unnest({1}::text[], {2}::text[], {3}::text[]) AS r(node, reason, gpus)"
    " ON CONFLICT (node) DO UPDATE SET reason = excluded.reason, gpus = excluded.gpus RETURNING 1"
)
DELETE: Final = "DELETE FROM cluster_watcher.closed_node WHERE node = ANY({0}::text[]) RETURNING 1"
ALL: Final = (
    "SELECT node, reason, gpus::text AS gpus FROM cluster_watcher.closed_node WHERE cell = $1"
)
_encode: Final = msgspec.json.Encoder().encode
_gpus: Final = msgspec.json.Decoder(tuple[int, ...])

ClosedFact = DeviceHealthChanged | NodeCordoned | NodeUncordoned
CLOSED_FACTS: Final = (DeviceHealthChanged, NodeCordoned, NodeUncordoned)


class ClosedNode(msgspec.Struct, frozen=True, kw_only=True):
    """What of a node takes no work."""

    reason: str = ""
    """Why nothing starts on the node; empty: it is open."""
    gpus: tuple[int, ...] = ()
    """Indexes of GPUs that are out of service, ascending."""


OPEN: Final = ClosedNode()


class ClosedNodes:
    """Of one cell."""

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._known: dict[str, ClosedNode] = {}
        self._rows = ChangedRows(self._put, DELETE)

    async def load(self, reader: Reader) -> None:
        """What is committed."""
        for row in await reader.fetch(ALL, self._cell):
            gpus = _gpus.decode(row["gpus"])
            self._known[row["node"]] = ClosedNode(reason=row["reason"], gpus=gpus)
        self._rows.loaded(self._known)

    @property
    def names(self) -> Collection[str]:
        """Of nodes of which something takes no work."""
        return self._known.keys()

    def of(self, node: str) -> ClosedNode:
        """What of a node takes no work now."""
        return self._known.get(node, OPEN)

    def hear(self, fact: ClosedFact) -> bool:
        """Whether anything else of its node takes no work from now on."""
        known = self.of(fact.node)
        now = _after(known, fact)
        if now != known:
            self._keep(fact.node, now)
        return now != known

    def removed(self, nodes: Collection[str]) -> None:
        """These are gone; another machine of such a name is another machine."""
        for node in nodes:
            if node in self._known:
                self._keep(node, OPEN)

    def _keep(self, node: str, now: ClosedNode) -> None:
        self._rows.mark(node)
        if now == OPEN:
            self._known.pop(node, None)
        else:
            self._known[node] = now

    def writes(self) -> Iterator[Write]:
        """The rows that changed since the last call."""
        return self._rows.writes(self._known)

    def _put(self, known: Mapping[str, ClosedNode]) -> Write:
        reasons = [one.reason for one in known.values()]
        gpus = [_encode(one.gpus).decode() for one in known.values()]
        return Write(PUT, (self._cell, list(known), reasons, gpus), expect=len(known))


def _after(known: ClosedNode, fact: ClosedFact) -> ClosedNode:
    if isinstance(fact, NodeCordoned):
        return ClosedNode(reason=fact.reason.value, gpus=known.gpus)
    if isinstance(fact, NodeUncordoned):
        return ClosedNode(gpus=known.gpus)
    if not fact.done:
        return known
    others = {gpu for gpu in known.gpus if gpu != fact.gpu}
    out = others if fact.after in TAKES_WORK else {*others, fact.gpu}
    return ClosedNode(reason=known.reason, gpus=tuple(sorted(out)))
