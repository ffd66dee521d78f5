"""What agents see of their GPUs: the newest of each node, and the rows of those that were told.

A node that was not told yet has no row: its agent tells it again every minute, so what was heard
of it counts for three minutes. Then it may be of another machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from services.cluster_watcher.changed_rows import ChangedRows
from shared.core.kubernetes.observed import Observation
from shared.events.nodes import GpusObserved
from shared.ports.reader import Reader
from shared.ports.store import Write

UNMET_MS: Final = 180_000
UNMET_MAX: Final = 10_000
"""Nodes that were not told yet; the one heard of first is forgotten for one more."""
PUT: Final = (
    "INSERT INTO cluster_watcher.observation AS o (node, cell, at_ms, body)"
    " SELECT r.node, {0}::int, r.at_ms, r.body::json"
    " FROM unnest({1}::text[], {2}::bigint[], {3}::text[]) AS r(node, at_ms, body)"
    " ON CONFLICT (node) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body"
    " RETURNING 1"
)
DELETE: Final = "DELETE FROM cluster_watcher.observation WHERE node = ANY({0}::text[]) RETURNING 1"
ALL: Final = (
    "SELECT node, at_ms, body::text AS body FROM cluster_watcher.observation WHERE cell = $1"
)
_encode: Final = msgspec.json.Encoder().encode
_observations: Final = msgspec.json.Decoder(Observation)


class Heard(NamedTuple):
    """What an agent saw at `at_ms` of its clock, heard at `heard_ms` of ours."""

    seen: Observation
    at_ms: int
    heard_ms: int


class Observed:
    """Of the nodes of one cell."""

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._met: dict[str, Heard] = {}
        """Of nodes that were told."""
        self._unmet: dict[str, Heard] = {}
        """Of others, in the order in which they were heard of."""
        self._rows = ChangedRows(self._put, DELETE)

    async def load(self, reader: Reader) -> None:
        """What is committed."""
        for row in await reader.fetch(ALL, self._cell):
            seen = _observations.decode(row["body"])
            self._met[row["node"]] = Heard(seen, row["at_ms"], heard_ms=0)
        self._rows.loaded(self._met)

    def hear(self, fact: GpusObserved, now_ms: int) -> bool:
        """Whether it says anything else than was known."""
        met = fact.node in self._met
        known = (self._met if met else self._unmet).get(fact.node)
        if known is not None and fact.at_ms <= known.at_ms:
            return False
        heard = Heard(Observation(gpus=fact.gpus, links=fact.links), fact.at_ms, now_ms)
        changed = known is None or known.seen != heard.seen
        if met:
            self._met[fact.node] = heard
            if changed:
                self._rows.mark(fact.node)
        else:
            self._unmet.pop(fact.node, None)
            self._unmet[fact.node] = heard
            if len(self._unmet) > UNMET_MAX:
                del self._unmet[next(iter(self._unmet))]
        return changed

    def of(self, node: str, now_ms: int) -> Observation | None:
        """What is known of a node."""
        heard = self._met.get(node)
        if heard is None:
            heard = self._unmet.get(node)
            if heard is None or heard.heard_ms < now_ms - UNMET_MS:
                return None
        return heard.seen

    def told(self, node: str) -> None:
        """The node is told: what is known of it lasts."""
        heard = self._unmet.pop(node, None)
        if heard is not None and node not in self._met:
            self._met[node] = heard
            self._rows.mark(node)

    def removed(self, nodes: Collection[str]) -> None:
        """These are gone, and what was seen of them with them."""
        for node in nodes:
            self._unmet.pop(node, None)
            if self._met.pop(node, None) is not None:
                self._rows.mark(node)

    def writes(self) -> Iterator[Write]:
        """The rows that changed since the last call."""
        return self._rows.writes(self._met)

    def _put(self, met: Mapping[str, Heard]) -> Write:
        times = [one.at_ms for one in met.values()]
        bodies = [_encode(one.seen).decode() for one in met.values()]
        return Write(PUT, (self._cell, list(met), times, bodies), expect=len(met))
