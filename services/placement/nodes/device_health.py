"""Devices on the ladder: what is told of them, what follows, and what is told of that (ADR 88).

`core/health/ladder.py` has the rules. Here signs are kept, a device that takes no work is kept
from all searches, what runs on it is evicted through the ledger with its place kept, and each step
is a fact. In the mode `observe`, and while the breaker is open, all is told and nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from services.placement.nodes.device_records import DeviceRecords, Key
from services.placement.nodes.drains import Drains
from services.placement.preemption.evictions import Evictions
from services.placement.state.fleet import Fleet
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.health import ladder
from shared.core.health.breaker import may_drain
from shared.core.health.device import TAKES_WORK, DeviceHealth, DeviceState, Sign
from shared.core.health.events import WHOLE_NODE, HealthEventKind
from shared.core.health.ladder import DRAINS, LadderVerdict, Remedy
from shared.core.model.nouns import Gpu, Node
from shared.core.model.reason import Reason
from shared.core.model.value import Value
from shared.events.envelope import Received
from shared.events.nodes import DeviceHealthChanged, HealthEventReported

DRAINED_MAX: Final = 10_000
"""Times of automatic drains that are kept; more than the breaker ever allows in an hour."""
UNRESPONSIVE_MS: Final = 300_000
"""A node whose driver does not answer for so long is drained."""
_NEXT_STEPS: Final = {
    DeviceState.QUARANTINED: "; reset the GPU, then it is on probation",
    DeviceState.LOST: "; reset the GPU or restart its node, then it is on probation",
    DeviceState.FAILED: "; repair or replace it, then uncordon its node",
}
_ON_RESET: Final = frozenset({HealthEventKind.RETURNED, HealthEventKind.BOOTED})


class HealthPolicy(Value, frozen=True, kw_only=True):
    """What placement may do by itself; `acts` false: it tells what it would do."""

    acts: bool = True
    limits: ladder.LadderLimits = ladder.DEFAULT_LIMITS


ACTS: Final = HealthPolicy()


class DeviceHealths:
    """The devices of one cell of which something was told."""

    def __init__(
        self,
        state: CellState,
        fleet: Fleet,
        drains: Drains,
        evictions: Evictions,
        policy: HealthPolicy,
    ) -> None:
        self._state, self._fleet = state, fleet
        self._drains, self._evictions = drains, evictions
        self._policy = policy
        self.records = DeviceRecords(fleet, drains)
        self._drained_ms: dict[str, list[int]] = {}
        """When GPUs of a flavor were drained by a rule."""

    # ── what is told ──

    def reported(self, message: Received, fact: HealthEventReported) -> None:
        """A sign of one device, or of all of a node."""
        node = self._fleet.present.get(fact.node)
        if node is None:
            return
        if fact.gpu == WHOLE_NODE:
            self._node_told(fact)
            for gpu in node.gpus:
                if fact.kind in _ON_RESET and self._precedes(fact, (fact.node, gpu.index)):
                    self._told(message, fact, (node, gpu))
        else:
            meant = _meant(node, fact)
            if meant is not None:
                self._told(message, fact, (node, meant))

    def _precedes(self, fact: HealthEventReported, key: Key) -> bool:
        """Whether the device came to its state before the machine was started, or returned.

        An agent that starts again tells of the same start of its machine once more.
        """
        known = self.records.get(key)
        started_ms = self._state.unit.now_ms - 1000 * fact.code
        return known is not None and known.since_ms < started_ms

    def _node_told(self, fact: HealthEventReported) -> None:
        """A driver that does not answer for any GPU: the node is drained if it stays so."""
        key, now_ms = (fact.node, WHOLE_NODE), self._state.unit.now_ms
        if fact.kind is HealthEventKind.UNRESPONSIVE and self.records.get(key) is None:
            self.records.keep(
                DeviceHealth(
                    node=fact.node,
                    gpu=WHOLE_NODE,
                    state=DeviceState.SUSPECT,
                    rule=fact.kind.value,
                    since_ms=now_ms,
                    until_ms=now_ms + UNRESPONSIVE_MS,
                )
            )
        elif fact.kind in _ON_RESET and self.records.get(key) is not None:
            self.records.forget(key)

    def _told(
        self, message: Received, fact: HealthEventReported, device: tuple[Node, Gpu]
    ) -> None:
        node, index, uuid = device[0], device[1].index, device[1].uuid
        known = self.records.get((node.name, index))
        if known is None or known.uuid != uuid:
            known = DeviceHealth(node=node.name, gpu=index, uuid=uuid)
        sign = Sign(
            kind=fact.kind,
            at_ms=self._state.unit.now_ms,
            code=fact.code,
            instance=fact.instance,
            detail=fact.detail,
            holders=tuple(
                (one.workload.team, one.workload.id) for one in self._holders(node.name, index)
            ),
        )
        verdict = ladder.verdict_of(known, sign)
        after = ladder.follow(
            ladder.noted(known, sign), verdict, self._state.unit.now_ms, self._policy.limits
        )
        drains_node = verdict.remedy is Remedy.DRAIN_NODE and not self._drains.closed(node.name)
        unchanged = after.state is known.state and not drains_node
        if unchanged or self._allowed(node, known, verdict):
            self._step(message, known, after, sign.text)
            if verdict.remedy in DRAINS and not unchanged:
                self._empty(message, node, after, (verdict, sign))
        else:
            self.records.keep(ladder.noted(known, sign))
            self._tell(message, known, after, sign.text, done=False)

    def _allowed(self, node: Node, known: DeviceHealth, verdict: LadderVerdict) -> bool:
        """Whether what takes a device, or its node, out may be done; all else always may.

        O(nodes) where something would be drained.
        """
        takes_out = known.state in TAKES_WORK or verdict.remedy is Remedy.DRAIN_NODE
        if verdict.remedy not in DRAINS or not takes_out:
            return True
        if not self._policy.acts:
            return False
        flavor = node.flavor
        gpus = sum(len(one.gpus) for one in self._fleet.present.values() if one.flavor == flavor)
        more = len(node.gpus) if verdict.remedy is Remedy.DRAIN_NODE else 1
        times = self._drained_ms.setdefault(flavor, [])
        if not may_drain(times, more, gpus, self._state.unit.now_ms):
            return False
        times += [self._state.unit.now_ms] * more
        del times[:-DRAINED_MAX]
        return True

    def _empty(
        self,
        message: Received,
        node: Node,
        device: DeviceHealth,
        why: tuple[LadderVerdict, Sign],
    ) -> None:
        """What runs on the device, or on its node, is stopped and goes on elsewhere."""
        verdict, sign = why
        text = f"GPU {device.gpu} of node {node.name} is taken out of service: {sign.text}"
        self._evictions.lost(node.name, message)
        if verdict.remedy is Remedy.DRAIN_NODE:
            self._drains.drain(message, node.name, f"node {node.name} is drained: {text}")
        at_once = verdict.remedy in {Remedy.DRAIN_AT_ONCE, Remedy.LOSE}
        gone_at_ms = self._state.unit.now_ms if at_once else 0
        for record in self._holders(node.name, device.gpu):
            transitions.evict(
                self._state, record, Reason.DEVICE_UNHEALTHY, text, message, gone_at_ms=gone_at_ms
            )

    def uncordon(self, message: Received, node: str) -> None:
        """An operator vouches for the node, so for all of its devices."""
        for known in self.records.of_node(node):
            if known.gpu != WHOLE_NODE:
                after = ladder.restored(known, self._state.unit.now_ms)
                self._step(message, known, after, "an operator")
            self.records.forget((node, known.gpu))

    def inventory(self, node: Node) -> None:
        """A device in the place of another one begins without the other's past."""
        names = {gpu.index: gpu.uuid for gpu in node.gpus}
        for known in self.records.of_node(node.name):
            if known.uuid and names.get(known.gpu, known.uuid) not in {"", known.uuid}:
                self.records.forget((node.name, known.gpu))
                self._drains.put(node.name)

    def removed(self, node: str) -> None:
        """The machine is gone, with its devices."""
        for known in self.records.of_node(node):
            self.records.forget((node, known.gpu))

    def settle(self) -> None:
        """At the end of a unit: what is drained is quarantined. O(devices that drain)."""
        cause = self._state.unit.last_cause
        if cause is None:
            return
        for known in self.records.draining():
            if next(self._holders(known.node, known.gpu), None) is None:
                after = ladder.drained(known, self._state.unit.now_ms, self._policy.limits)
                self._step(cause, known, after, known.signs[-1].text)

    # ── time ──

    def expired(self, subject: str, cause: Received) -> None:
        """The time of a device may be over."""
        node, _, gpu = subject.rpartition("/")
        known = self.records.get((node, int(gpu)))
        if known is None or not 0 < known.until_ms <= self._state.unit.now_ms:
            return
        if known.gpu == WHOLE_NODE:
            self.records.forget((node, WHOLE_NODE))
            if self._policy.acts:
                minutes = UNRESPONSIVE_MS // 60_000
                why = f"its driver does not answer for {minutes} minutes"
                self._evictions.lost(node, cause)
                self._drains.drain(cause, node, f"node {node} is drained: {why}")
        else:
            after = ladder.expired(known, self._state.unit.now_ms)
            self._step(cause, known, after, "no sign since")

    # ── what follows ──

    def _holders(self, node: str, gpu: int) -> Iterator[Record]:
        """Workloads that hold some of the device. O(workloads on the node)."""
        for record in self._state.records.of_node(node):
            pods = record.placement.pods if record.placement is not None else ()
            shares = (share for one in pods if one.node == node for share in one.shares)
            if any(share.index == gpu for share in shares):
                yield record

    def _step(self, message: Received, known: DeviceHealth, after: DeviceHealth, why: str) -> None:
        self.records.keep(after)
        if after.state is known.state:
            return
        if known.state not in TAKES_WORK and after.state in TAKES_WORK:
            self._state.unit.freed_nodes[known.node] = message
        self._tell(message, known, after, why, done=True)

    def _tell(
        self,
        message: Received,
        known: DeviceHealth,
        after: DeviceHealth,
        why: str,
        *,
        done: bool,
    ) -> None:
        would = "is" if done else "would be"
        fact = DeviceHealthChanged(
            node=after.node,
            gpu=after.gpu,
            uuid=after.uuid,
            before=known.state,
            after=after.state,
            rule=after.rule,
            done=done,
            until_ms=after.until_ms,
            message=f"GPU {after.gpu} of node {after.node} {would} {after.state.value}: {why}"
            + (_NEXT_STEPS.get(after.state, "") if done else ""),
            cell=self._state.cell,
        )
        self._state.unit.tell_about(fact, after.node, message)


def _meant(node: Node, fact: HealthEventReported) -> Gpu | None:
    """The device of a sign: by its UUID, as a cluster may number GPUs otherwise than the driver.

    By its index where the node does not name its GPUs, or the sign does not; None: another one.
    """
    if fact.uuid:
        for gpu in node.gpus:
            if gpu.uuid == fact.uuid:
                return gpu
    at_place = next((gpu for gpu in node.gpus if gpu.index == fact.gpu), None)
    return at_place if at_place is not None and not (fact.uuid and at_place.uuid) else None
