"""Which nodes fell silent, and which are heard again: told on change (core/health/silence.py)."""

from __future__ import annotations

from collections.abc import Iterator

from services.monitoring.memory import AGENT, SILENT, MonitoringMemory
from shared.core.health.silence import SILENT_MS_MIN, HeardNode, is_break, may_be_called_silent
from shared.events.envelope import Received
from shared.events.nodes import NodeHeard, NodeSilent
from shared.events.topics import HEALTH_FACTS
from shared.runtime.handler import Emit


class Silence:
    """Of the nodes of a memory; each of them was heard once."""

    def __init__(self, memory: MonitoringMemory, cell: int) -> None:
        self._memory = memory
        self._cell = cell
        self._newest_ms = 0
        self._since_ms = 0
        """End of the last break in which nobody was heard; after a restart the first report."""

    def reported(self, message: Received, node: str) -> list[Emit]:
        """A report of a node came; what it lets be said of it and of others.

        O(1 + nodes that are late): they are kept in the order in which they were heard.
        """
        memory, at_ms = self._memory, message.logged_ms
        if is_break(self._newest_ms, at_ms):
            self._since_ms = at_ms
        self._newest_ms = max(self._newest_ms, at_ms)
        known = memory.heard.pop(node, None)
        one = HeardNode(at_ms=at_ms) if known is None else known.heard(at_ms)
        memory.heard[node] = one
        if known is None or one.limit_ms - known.limit_ms >= SILENT_MS_MIN:
            memory.journal.put(AGENT, node, one)
        return [*self._end_of_silence(message, node), *self._late(message)]

    def removed(self, message: Received, node: str) -> list[Emit]:
        """The node is gone: nobody waits for it, and its silence is over for who hears late."""
        if self._memory.heard.pop(node, None) is not None:
            self._memory.journal.drop(AGENT, node)
        return list(self._end_of_silence(message, node))

    def _end_of_silence(self, message: Received, node: str) -> Iterator[Emit]:
        """What is told of a node that was silent; nothing of another one."""
        if self._memory.silent.pop(node, None) is not None:
            self._memory.journal.drop(SILENT, node)
            yield self._emit(NodeHeard(node=node, cell=self._cell), message)

    def _late(self, message: Received) -> Iterator[Emit]:
        memory, late = self._memory, []
        for name, one in memory.heard.items():
            if self._newest_ms - one.at_ms <= SILENT_MS_MIN:
                break  # it and all after it were heard just now
            if name not in memory.silent and one.is_late(self._newest_ms, self._since_ms):
                late.append((name, one))
        missing = len(memory.silent) + len(late)
        if not may_be_called_silent(missing, len(memory.heard) - missing):
            return
        for name, one in late:
            memory.silent[name] = one.at_ms
            memory.journal.put(SILENT, name, one.at_ms)
            silent_ms = self._newest_ms - one.at_ms
            fact = NodeSilent(node=name, since_ms=one.at_ms, silent_ms=silent_ms, cell=self._cell)
            yield self._emit(fact, message)

    def _emit(self, fact: NodeSilent | NodeHeard, message: Received) -> Emit:
        return Emit(
            payload=fact,
            topic=HEALTH_FACTS,
            subject=fact.node,
            cause=message,
            partition=self._cell,
        )
