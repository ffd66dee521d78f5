"""Nodes of the cluster carry the taints of what placement keeps work off (ADR 89).

Level-triggered: a node is looked at when what is kept off it changes, when its taints are others
than it should have, and after a start; so a taint that is taken away comes back. What the
API server does not do now is tried again, and nothing else waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import structlog

from services.cluster_watcher import metrics
from services.cluster_watcher.closed_nodes import ClosedFact, ClosedNodes
from services.cluster_watcher.facts import SERVICE
from shared.core.kubernetes import health_taints
from shared.core.kubernetes.health_taints import TaintFields
from shared.core.kubernetes.inventory import KubernetesNode
from shared.ports.cluster_nodes import NodeTaints
from shared.ports.errors import Transient
from shared.ports.reader import Reader
from shared.ports.store import Write

RETRY_SECONDS: Final = 5.0

log = structlog.get_logger(SERVICE)


class Tainting:
    """Of the nodes of one cell."""

    def __init__(self, taints: NodeTaints | None, cell: int) -> None:
        """`taints`: where they are written; None: nowhere."""
        self._taints = taints
        self._cell = cell
        self._closed = ClosedNodes(cell)
        self._marked: dict[str, None] = {}
        self._wake = asyncio.Event()

    async def load(self, reader: Reader) -> None:
        """Forget everything, and read what is kept off."""
        self._closed = ClosedNodes(self._cell)
        await self._closed.load(reader)
        self._mark(self._closed.names)

    def hear(self, fact: ClosedFact) -> None:
        """Placement keeps work off something, or no longer."""
        if self._closed.hear(fact):
            self._mark((fact.node,))

    def seen(self, node: KubernetesNode) -> None:
        """A node as the API server tells it."""
        present = [
            {"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints
        ]
        if health_taints.changed(present, self._wanted(node.name)) is not None:
            self._mark((node.name,))

    def removed(self, nodes: Collection[str]) -> None:
        """These are gone."""
        self._closed.removed(nodes)

    def writes(self) -> Iterable[Write]:
        """The rows that changed since the last call."""
        return self._closed.writes()

    async def run(self) -> None:
        """Put right what is marked until cancelled; never raises for what a server does."""
        while self._taints is not None:
            await self._wake.wait()
            self._wake.clear()
            names, self._marked = self._marked, {}
            failed = [name for name in names if not await self._put(self._taints, name)]
            if failed:
                await asyncio.sleep(RETRY_SECONDS)
                self._mark(failed)

    async def close(self) -> None:
        """Release connections."""
        if self._taints is not None:
            await self._taints.close()

    async def _put(self, taints: NodeTaints, name: str) -> bool:
        wanted = self._wanted(name)
        try:
            written = await taints.put(name, wanted)
        except Transient as error:
            metrics.TAINTS.labels("failed").inc()
            log.warning("a node is not tainted yet", node=name, problem=str(error))
            return False
        if written:
            metrics.TAINTS.labels("written").inc()
            log.info("the taints of a node are changed", node=name, taints=list(wanted))
        return True

    def _wanted(self, name: str) -> Sequence[TaintFields]:
        known = self._closed.of(name)
        return health_taints.wanted(known.reason, known.gpus)

    def _mark(self, names: Iterable[str]) -> None:
        self._marked |= dict.fromkeys(names)
        if self._marked:
            self._wake.set()
