"""Devices on the ladder: what is told of them, what follows, and what is told of that (ADR 88).

`core/health/ladder.py` has the rules. Here signs are kept, a device that takes no work is kept
from all searches, what runs on it is evicted through the ledger with its place kept, and each step
is a fact. In the mode `observe`, and while the breaker is open, all is told and nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.placement.nodes.device_drains import (
    UNRESPONSIVE_MS,
    DeviceDrains,
    JudgedSign,
)
from services.placement.nodes.device_records import DeviceRecords, Key
from services.placement.nodes.drain_budget import DrainBudget
from services.placement.nodes.drains import Drains
from services.placement.preemption.evictions import Evictions
from services.placement.state.fleet import Fleet
from services.placement.unit.cell_state import CellState
from shared.core.health import ladder
from shared.core.health.breaker import DEFAULT_BREAKER, BreakerLimits
from shared.core.health.device import TAKES_WORK, DeviceHealth, DeviceState, Sign
from shared.core.health.events import WHOLE_NODE, HealthEventKind
from shared.core.health.xid import NO_OVERRIDES, XidClass
from shared.core.model.nouns import Gpu, Node
from shared.core.model.value import Value, replace
from shared.events.envelope import Received
from shared.events.nodes import CheckGpu, DeviceHealthChanged, HealthEventReported, RestoreDevice
from shared.ports.reader import Reader

_NEXT_STEPS: Final = {
    DeviceState.QUARANTINED: "; reset the GPU, then it is on probation",
    DeviceState.LOST: "; reset the GPU or restart its node, then it is on probation",
    DeviceState.FAILED: "; repair or replace it, then muster admin restore",
}
_ON_RESET: Final = frozenset({HealthEventKind.RETURNED, HealthEventKind.BOOTED})


class HealthPolicy(Value, frozen=True, kw_only=True):
    """What placement may do by itself; `acts` false: it tells what it would do."""

    acts: bool = True
    limits: ladder.LadderLimits = ladder.DEFAULT_LIMITS
    breaker: BreakerLimits = DEFAULT_BREAKER
    overrides: Mapping[int, XidClass] = NO_OVERRIDES
    """Classes of XIDs that the site has instead."""


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
        self._policy = policy
        self._budget = DrainBudget(fleet, policy.breaker, acts=policy.acts)
        self._out = DeviceDrains(state, fleet, drains, evictions, self._budget)
        self.records = DeviceRecords(fleet, drains)

    async def load(self, reader: Reader) -> None:
        """After the nodes, the workloads and the drains."""
        await self.records.load(reader)
        self._budget.load(self.records)

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
            mask=fact.mask,
            detail=fact.detail,
            holders=tuple(
                (one.workload.team, one.workload.id) for one in self._out.holders(node.name, index)
            ),
        )
        self._judge(message, node, known, sign)

    def _judge(self, message: Received, node: Node, known: DeviceHealth, sign: Sign) -> None:
        now_ms = self._state.unit.now_ms
        verdict = ladder.verdict_of(known, sign, self._policy.overrides)
        after = ladder.follow(ladder.noted(known, sign), verdict, now_ms, self._policy.limits)
        told = JudgedSign(node, known, sign, verdict)
        others = [one for one in self.records.of_node(node.name) if one.gpu != known.gpu]
        of_node = ladder.is_of_node(verdict, others, now_ms)
        drained = of_node and self._out.drain_node(message, told)
        if after.state is known.state or drained or self._out.may(told):
            self._step(message, known, after, sign.text)
            self._out.follow(message, told, after)
        else:
            self.records.keep(ladder.noted(known, sign))
            self._tell(message, known, after, sign.text, done=False)

    def uncordon(self, message: Received, node: str) -> None:
        """An operator vouches for the node, so for all of its devices."""
        for known in self.records.of_node(node):
            self._restore(message, known, "an operator")

    def restore(self, message: Received, command: RestoreDevice) -> None:
        """An operator vouches for one device."""
        known = self.records.get((command.node, command.gpu))
        if known is not None and known.gpu != WHOLE_NODE:
            why = command.by or "an operator"
            self._restore(message, known, f"{why}: {command.note}" if command.note else why)

    def inventory(self, message: Received, node: Node) -> None:
        """A device in the place of another one begins without the other's past."""
        names = {gpu.index: gpu.uuid for gpu in node.gpus}
        for known in self.records.of_node(node.name):
            if known.uuid and names.get(known.gpu, known.uuid) not in {"", known.uuid}:
                self._restore(message, known, "another device is in its place")

    def _restore(self, message: Received, known: DeviceHealth, why: str) -> None:
        """Nothing of what was told of a device counts any more."""
        if known.gpu != WHOLE_NODE:
            self._step(message, known, ladder.restored(known, self._state.unit.now_ms), why)
        self.records.forget((known.node, known.gpu))

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
            if next(self._out.holders(known.node, known.gpu), None) is None:
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
            if self._out.drain_silent(cause, self._fleet.present[node]):
                self.records.forget((node, WHOLE_NODE))
            else:
                later_ms = self._state.unit.now_ms + UNRESPONSIVE_MS
                self.records.keep(replace(known, until_ms=later_ms))
        else:
            after = ladder.expired(known, self._state.unit.now_ms)
            self._step(cause, known, after, "no sign since")

    # ── what follows ──

    def _step(self, message: Received, known: DeviceHealth, after: DeviceHealth, why: str) -> None:
        self.records.keep(after)
        if after.state is known.state:
            return
        if known.state not in TAKES_WORK and after.state in TAKES_WORK:
            self._state.unit.freed_nodes[known.node] = message
        self._tell(message, known, after, why, done=True)
        if after.state is DeviceState.PROBATION:
            self._check(after, message)

    def _check(self, device: DeviceHealth, cause: Received) -> None:
        """Its agent proves it, where it has a check; else the time of its probation counts."""
        command = CheckGpu(
            node=device.node,
            gpu=device.gpu,
            uuid=device.uuid,
            expires_at_ms=device.until_ms,
            epoch=self._state.epoch,
            cell=self._state.cell,
        )
        self._state.unit.command_node(command, device.node, cause)

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
            breaker=self._policy.acts and not done,
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
