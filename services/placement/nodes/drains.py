"""Nodes on which nothing more is started: cordoned, drained, fenced, or about to be taken away.

Placement's word beside what the agent reports, so it outlives every new inventory. What runs on a
node that is drained or announced to go is evicted at once, with its own grace but no longer than
the node stays; it is queued again with its place kept as soon as its pods are gone (mission P10).

A node that is fenced is lost, and an operator vouches that its machine is off. The binder is told
so of everything that is being stopped there: it takes those pods away without their kubelet, and
they are gone. When it is back it stays closed, until somebody who has looked at it uncordons it
(docs/adr/0073).

Commands and inventories are of two topics, which are read in any order: a cordon of a node that
was never heard of is kept for it. Nothing can run there before it is known, so even a drain finds
nothing to evict by then.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from services.placement.preemption.evictions import Evictions
from services.placement.state.bodies import Bodies
from services.placement.state.fleet import Fleet, usable
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from services.placement.workloads.transitions import HAS_PODS
from shared.core.model.nouns import Node
from shared.core.model.reason import Reason
from shared.core.model.taints import SHUNNED
from shared.core.model.value import replace
from shared.events import nodes
from shared.events.envelope import Received
from shared.ports.reader import Reader
from shared.ports.store import Write

ROWS: Final = Bodies("placement.cordon", "node")
UNMET_MAX: Final = 10_000
"""Cordons of nodes that were never heard of; the first is lifted for one more."""
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(nodes.NodeCordoned)


class Drains:
    """The nodes of one cell that are to take no work."""

    def __init__(self, state: CellState, fleet: Fleet, evictions: Evictions) -> None:
        self._state = state
        self._fleet = fleet
        self._evictions = evictions
        self._cordons: dict[str, nodes.NodeCordoned] = {}
        self._touched: dict[str, None] = {}

    def seen(self, node: Node) -> Node:
        """`node` as placement may use it."""
        node = _without(usable(node), self._fleet.disputed, self._fleet.out_of_service)
        if node.name in self._fleet.shunned:
            node = replace(node, taints=(*node.taints, SHUNNED))
        return replace(node, cordoned=True) if node.name in self._cordons else node

    def put(self, name: str) -> None:
        """Let searches see a node that is present as it may be used now; promises look again."""
        self._state.cluster.put_node(self.seen(self._fleet.present[name]))
        self._state.promises.changed()

    def cordon(self, message: Received, command: nodes.CordonNode) -> None:
        """An operator wants nothing more there."""
        note = command.note or command.reason
        reason = Reason.DRAINED if command.drain else Reason.CORDONED
        text = f"node {command.node} is {reason} by {command.by or 'an operator'}"
        text += f": {note}" if note else ""
        self._stop(message, command.node, reason, text, note=note)

    def closed(self, node: str) -> bool:
        """Whether nothing is started there already, by whatever word."""
        return node in self._cordons

    def drain(self, message: Received, node: str, text: str) -> None:
        """A device of it asks for a restart of the machine: an operator gives it back."""
        if not self.closed(node):
            self._stop(message, node, Reason.DRAINED, text)

    def fence(self, message: Received, command: nodes.FenceNode) -> None:
        """The machine of a lost node is off; a node that is back meanwhile is left alone.

        The command may come before the report that it is about.
        """
        state, name = self._state, command.node
        node = self._fleet.present.get(name)
        told = self._fleet.generations.get(name, -1) >= command.generation
        if self._fleet.removed(name) or (node is not None and node.ready and told):
            return
        text = f"node {name} is fenced by {command.by or 'an operator'}, its machine is off"
        text += f": {command.note}" if command.note else ""
        self._stop(message, name, Reason.FENCED, text, note=command.note)
        for record in state.records.of_node(name):
            transitions.stop_pods(state, record, record.reason, message, fenced_nodes=(name,))

    def notice(self, message: Received, fact: nodes.NodeNoticeReported) -> None:
        """The node will be gone soon."""
        if self._fleet.noticed(fact.node, fact.generation):
            seconds = max(0, fact.gone_at_ms - self._state.unit.now_ms) // 1000
            text = f"node {fact.node} will be gone in {seconds} s"
            self._stop(message, fact.node, Reason.SPOT_NOTICE, text, gone_at_ms=fact.gone_at_ms)

    def _stop(
        self,
        message: Received,
        node: str,
        reason: Reason,
        text: str,
        *,
        gone_at_ms: int = 0,
        note: str = "",
    ) -> None:
        state = self._state
        if self._fleet.removed(node):
            return
        victims = []
        if reason is not Reason.CORDONED:
            victims = [one for one in state.records.of_node(node) if one.state in HAS_PODS]
        fact = nodes.NodeCordoned(
            node=node,
            reason=reason,
            message=text,
            note=note,
            gone_at_ms=gone_at_ms,
            evicted=len(victims),
            cell=state.cell,
        )
        self._cordons[node] = fact
        self._touched[node] = None
        state.unit.tell_about(fact, node, message)
        if node not in self._fleet.present:
            self._trim(message)
            return
        self.put(node)
        self._evictions.lost(node, message)
        why = Reason.NODE_LOST if reason is Reason.FENCED else reason
        for victim in victims:
            transitions.evict(state, victim, why, text, message, gone_at_ms=gone_at_ms, note=note)

    def _trim(self, message: Received) -> None:
        """Bound those that wait for their node. O(cordons), only with a command for one."""
        unmet = [one for one in self._cordons if one not in self._fleet.present]
        if len(unmet) > UNMET_MAX:
            self._lift(unmet[0], message)

    def uncordon(self, message: Received, command: nodes.UncordonNode) -> None:
        """An operator gives the node back."""
        if self._lift(command.node, message) and command.node in self._fleet.present:
            self.put(command.node)
            self._state.unit.freed_nodes[command.node] = message

    def removed(self, node: str, message: Received) -> None:
        """It is gone; another machine of its name is another machine."""
        self._lift(node, message)

    def _lift(self, node: str, message: Received) -> bool:
        """Whether there was a cordon; that it is no more is told."""
        if self._cordons.pop(node, None) is None:
            return False
        self._touched[node] = None
        fact = nodes.NodeUncordoned(node=node, cell=self._state.cell)
        self._state.unit.tell_about(fact, node, message)
        return True

    async def load(self, reader: Reader) -> None:
        """After the nodes."""
        for body in await ROWS.read(reader):
            fact = _decoder.decode(body)
            self._cordons[fact.node] = fact
            node = self._fleet.present.get(fact.node)
            if node is not None:
                self._state.cluster.put_node(self.seen(node))

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        touched, self._touched = self._touched, {}
        saved = {one: _encode(self._cordons[one]) for one in touched if one in self._cordons}
        return ROWS.writes(saved, [one for one in touched if one not in self._cordons])


def _without(node: Node, *out: Collection[tuple[str, int]]) -> Node:
    """`node` with these GPUs kept from work."""
    kept = {gpu.index for gpu in node.gpus if any((node.name, gpu.index) in one for one in out)}
    if not kept:
        return node
    gpus = (replace(gpu, healthy=False) if gpu.index in kept else gpu for gpu in node.gpus)
    return replace(node, gpus=tuple(gpus))
