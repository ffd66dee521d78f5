"""Nodes on which work does not start: what speaks against them, and which are left alone (ADR 40).

`core/nodes/shunning.py` has the rule. Here it hears of starts and of starts that did not come,
keeps a node that is shunned from all searches by a taint of its own, and lets it be tried again in
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from services.placement.cycle.avoided import Avoided
from services.placement.nodes.drains import Drains
from services.placement.preemption.evictions import Evictions
from services.placement.state.bodies import Bodies
from services.placement.state.fleet import Fleet
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from shared.core.model.nouns import Workload
from shared.core.model.reason import Reason
from shared.core.model.value import replace
from shared.core.model.wording import listing
from shared.core.nodes import shunning
from shared.core.nodes.shunning import REST_AFTER_REFUSAL, ShunPolicy, Suspicion, Witness
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.nodes import NodeShunned, NodeUnshunned
from shared.ports.reader import Reader
from shared.ports.store import Write

KIND: Final = "shunned"
"""Kind of the deadline after which a node is tried again."""
NAMED_MAX: Final = 3
"""Nodes that a message names."""
ROWS: Final = Bodies("placement.suspicion", "node")
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Suspicion)


class Shunning:
    """The nodes of one cell that something speaks against."""

    def __init__(
        self,
        state: CellState,
        fleet: Fleet,
        drains: Drains,
        evictions: Evictions,
        policy: ShunPolicy,
    ) -> None:
        self._state, self._fleet, self._drains = state, fleet, drains
        self._evictions = evictions
        self._policy = policy
        self.suspicions: dict[str, Suspicion] = {}
        self._touched: dict[str, None] = {}
        self.avoided = Avoided()

    # ── what is heard ──

    def started(self, record: Record, cause: Received) -> None:
        """All pods of it run: nothing speaks against their nodes, more against those before."""
        assert record.placement is not None
        if self.suspicions:
            for node in dict.fromkeys(pod.node for pod in record.placement.pods):
                known = self.suspicions.get(node)
                if known is not None and known.silent:  # a start is no word of its agent
                    self._keep(replace(known, witnesses=(), heard=(), rounds=0))
                else:
                    self.forgive(node, Reason.STARTED, cause)
        for node in record.avoids:
            known = self.suspicions.get(node)
            if known is not None:
                self._judge(shunning.confirmed(known, record.workload.id), cause)
        self.avoided.clear(record)

    def gave_up(self, record: Record, unstarted: Iterable[int], cause: Received) -> None:
        """The pods of these ranks did not start in time."""
        assert record.placement is not None
        pods = sorted(record.placement.pods, key=lambda pod: pod.rank)
        nodes = dict.fromkeys(pods[rank].node for rank in unstarted if rank < len(pods))
        self.avoided.add(record, nodes)
        if nodes:
            record.message += f"; it did not start on {_some(list(nodes))}"
            self._state.records.touch(record)
        for node in nodes:
            known = self.suspicions.get(node, Suspicion(node=node))
            if not known.until_ms and record.began_at_ms > known.since_ms:
                witness = Witness(workload_id=record.workload.id, voice=voice_of(record.workload))
                self._judge(shunning.accused(known, witness), cause)

    def refused(self, record: Record, node: str, cause: Received) -> None:
        """The kubelet of a node would not take a pod: it rests, and this work goes round it."""
        self.avoided.add(record, (node,))
        known = self.suspicions.get(node, Suspicion(node=node))
        fresh = node in self._fleet.present and not known.until_ms
        if fresh and self._policy.seconds and self._others(node):
            known = shunning.shunned(known, REST_AFTER_REFUSAL, self._state.unit.now_ms)
            self._keep(known)
            self._shun(known, cause, "because its kubelet refused a pod")

    def forgive(self, node: str, reason: Reason, cause: Received) -> None:
        """Nothing speaks against it any more."""
        known = self.suspicions.pop(node, None)
        if known is not None:
            self._touched[node] = None
            if known.until_ms:
                self._open(node, reason, cause)

    def silent(self, node: str, silent_ms: int, cause: Received) -> None:
        """Its agent is not heard: nobody knows how its GPUs are."""
        known = self.suspicions.get(node, Suspicion(node=node))
        if node in self._fleet.present and not known.silent:
            known = shunning.silenced(known, self._state.unit.now_ms)
            self._keep(known)
            why = f"until its agent is heard: it has told nothing for {silent_ms // 1000} s"
            self._shun(known, cause, why)

    def heard(self, node: str, cause: Received) -> None:
        """Its agent is heard again; what else speaks against the node is remembered."""
        known = self.suspicions.get(node)
        if known is not None and known.silent:
            self._keep(replace(known, silent=False, until_ms=0))
            self._open(node, Reason.HEARD, cause)

    # ── what follows ──

    def _judge(self, known: Suspicion, cause: Received) -> None:
        """Keep what is known; shun the node if that is enough, and others are left."""
        if known.node not in self._fleet.present:
            return
        guilty = not known.until_ms and shunning.guilty(known)
        if guilty and self._policy.seconds and self._others(known.node):
            known = shunning.shunned(known, self._policy, self._state.unit.now_ms)
            self._keep(known)
            why = (
                f"because {len(known.heard)} workloads"
                f" did not start there within {self._state.start_seconds} s"
            )
            self._shun(known, cause, why)
        else:
            self._keep(known)

    def _keep(self, known: Suspicion) -> None:
        self.suspicions[known.node] = known
        self._touched[known.node] = None

    def _others(self, name: str) -> bool:
        """Whether one more node of its flavor may be shunned. O(kinds + nodes shunned)."""
        fleet, flavor = self._fleet, self._fleet.present[name].flavor
        kinds = self._state.cluster.node_classes.items()
        nodes = sum(kind.nodes for key, kind in kinds if key.flavor == flavor)
        out = sum(fleet.present[one].flavor == flavor for one in fleet.shunned)
        return out < shunning.nodes_max(nodes, self._policy)

    def _shun(self, known: Suspicion, cause: Received, why: str) -> None:
        state, node = self._state, known.node
        self._fleet.shunned.add(node)
        self._drains.put(node)
        self._evictions.lost(node, cause)
        workloads, seconds = len(known.heard), (known.until_ms - known.since_ms) // 1000
        time = "" if known.silent else f" for {seconds} s,"
        fact = NodeShunned(
            node=node,
            until_ms=known.until_ms,
            workloads=workloads,
            start_seconds=state.start_seconds,
            rounds=known.rounds,
            message=f"node {node} is in quarantine{time} {why}",
            cell=state.cell,
        )
        state.unit.tell_about(fact, node, cause)

    def _open(self, node: str, reason: Reason, cause: Received) -> None:
        """Work may be placed there again."""
        self._fleet.shunned.discard(node)
        if node in self._fleet.present:
            self._drains.put(node)
            self._state.unit.freed_nodes[node] = cause
        fact = NodeUnshunned(node=node, reason=reason, cell=self._state.cell)
        self._state.unit.tell_about(fact, node, cause)

    # ── time ──

    def due(self, now_ms: int) -> list[Received]:
        """Nodes for which the time is over, as messages."""
        shunned = (self.suspicions[node] for node in sorted(self._fleet.shunned))
        return [
            deadline_message(KIND, one.node, one.rounds, one.until_ms)
            for one in shunned
            if one.until_ms <= now_ms
        ]

    def next_due_ms(self) -> int | None:
        """When the first may be tried again; None for never. O(nodes shunned)."""
        shunned = (self.suspicions[node].until_ms for node in self._fleet.shunned)
        return min(shunned, default=None)

    def expired(self, node: str, cause: Received) -> None:
        """The time of a node may be over: it is tried again, and remembered."""
        known = self.suspicions.get(node)
        if known is not None and 0 < known.until_ms <= self._state.unit.now_ms:
            self._keep(replace(known, until_ms=0, silent=False))
            self._open(node, Reason.EXPIRED, cause)

    # ── rows ──

    async def load(self, reader: Reader) -> None:
        """After the nodes, the workloads and the drains."""
        for known in map(_decoder.decode, await ROWS.read(reader)):
            self.suspicions[known.node] = known
            if known.until_ms and known.node in self._fleet.present:
                self._fleet.shunned.add(known.node)
                self._drains.put(known.node)
        await self.avoided.load(self._state.records, reader)

    def writes(self, changed: Sequence[Record]) -> list[Write]:
        """The rows that changed since the last call; `changed` are the workloads of the unit."""
        touched, self._touched = self._touched, {}
        known = self.suspicions
        saved = {node: _encode(known[node]) for node in touched if node in known}
        gone = [node for node in touched if node not in known]
        return [*ROWS.writes(saved, gone), *self.avoided.writes(changed)]


def _some(nodes: Sequence[str]) -> str:
    """The first `NAMED_MAX` of them."""
    more = len(nodes) - NAMED_MAX
    return listing([*nodes[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])])


def voice_of(workload: Workload) -> str:
    """What it is counted as: its team and images, which may be what does not start."""
    images = sorted({one.image for one in workload.spec.pod_sets})
    return " ".join((workload.team, *images))
