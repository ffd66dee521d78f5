"""What is stopped when the ladder takes a device, or its node, out of service (ADR 88)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from services.placement.nodes.drain_budget import DrainBudget
from services.placement.nodes.drains import Drains
from services.placement.preemption.evictions import Evictions
from services.placement.state.fleet import Fleet
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.health.device import TAKES_WORK, DeviceHealth, DeviceState, Sign
from shared.core.health.ladder import DRAINS, LadderVerdict, Remedy
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WHOLE_MASK, Node
from shared.core.model.reason import Reason
from shared.events.envelope import Received

UNRESPONSIVE_MS: Final = 300_000
"""A node whose driver does not answer for so long is drained."""
_STOPS: Final = DRAINS | {Remedy.DRAIN_SLICE}
_AT_ONCE: Final = frozenset({Remedy.DRAIN_AT_ONCE, Remedy.LOSE})
"""Remedies that leave no grace."""


class JudgedSign(NamedTuple):
    """A sign of a device, what was known of the device before, and what the sign asks for."""

    node: Node
    known: DeviceHealth
    sign: Sign
    verdict: LadderVerdict

    @property
    def text(self) -> str:
        """For the owners of what runs there."""
        where = f"GPU {self.known.gpu} of node {self.node.name}"
        if self.verdict.remedy is Remedy.DRAIN_SLICE:
            return f"instance {self.sign.instance} of {where} failed: {self.sign.text}"
        return f"{where} is taken out of service: {self.sign.text}"


class DeviceDrains:
    """Of one cell."""

    def __init__(
        self,
        state: CellState,
        fleet: Fleet,
        drains: Drains,
        evictions: Evictions,
        budget: DrainBudget,
    ) -> None:
        self._state, self._fleet = state, fleet
        self._drains, self._evictions = drains, evictions
        self._budget = budget

    def may(self, told: JudgedSign) -> bool:
        """Whether what a sign asks of its device may be done; what takes nothing out always may.

        A device of a node that is closed counted with its node.
        """
        remedy = told.verdict.remedy
        if remedy not in _STOPS or told.known.state not in TAKES_WORK:
            return True
        whole = remedy in DRAINS and not self._drains.closed(told.node.name)
        gpus = 1 if whole else 0
        return self._budget.take(told.node, gpus, self._state.unit.now_ms)

    def drain_node(self, message: Received, told: JudgedSign) -> bool:
        """Drain the node of a device if that may be done; whether it was."""
        text = told.text
        if told.verdict.remedy is not Remedy.DRAIN_NODE:
            text += ", the second of its node within 10 minutes"
        return self._drain(message, told.node, text)

    def drain_silent(self, message: Received, node: Node) -> bool:
        """Drain a node whose driver does not answer; false where that may not be done."""
        minutes = UNRESPONSIVE_MS // 60_000
        why = f"its driver does not answer for {minutes} minutes"
        return self._drains.closed(node.name) or self._drain(message, node, why)

    def _drain(self, message: Received, node: Node, why: str) -> bool:
        if self._drains.closed(node.name):
            return False
        out = self._fleet.out_of_service
        gpus = sum((node.name, gpu.index) not in out for gpu in node.gpus)
        if not self._budget.take(node, gpus, self._state.unit.now_ms):
            return False
        self._evictions.lost(node.name, message)
        self._drains.drain(message, node.name, f"node {node.name} is drained: {why}")
        return True

    def follow(self, message: Received, told: JudgedSign, after: DeviceHealth) -> None:
        """Stop what runs on a device that went out, or have it stopped at once."""
        remedy = told.verdict.remedy
        if remedy is Remedy.DRAIN_SLICE and after.state in TAKES_WORK:
            self._empty(message, told, told.sign.mask)
        elif remedy in DRAINS and after.state is not told.known.state:
            self._empty(message, told)
        elif remedy is Remedy.DRAIN_AT_ONCE and after.state is DeviceState.DRAINING:
            self._hasten(message, told)

    def _empty(self, message: Received, told: JudgedSign, mask: int = WHOLE_MASK) -> None:
        """What runs on these slices of the device is stopped and goes on elsewhere."""
        self._evictions.lost(told.node.name, message)
        gone_at_ms = self._state.unit.now_ms if told.verdict.remedy in _AT_ONCE else 0
        for record in self.holders(told.node.name, told.known.gpu, mask):
            transitions.evict(
                self._state,
                record,
                Reason.DEVICE_UNHEALTHY,
                told.text,
                message,
                gone_at_ms=gone_at_ms,
            )

    def _hasten(self, message: Received, told: JudgedSign) -> None:
        """What is being stopped there has no grace any more: what it computes may be wrong."""
        now_ms = self._state.unit.now_ms
        for record in self.holders(told.node.name, told.known.gpu):
            if record.state is State.EVICTING:
                transitions.stop_pods(self._state, record, record.reason, message, now_ms)

    def holders(self, node: str, gpu: int, mask: int = WHOLE_MASK) -> Iterator[Record]:
        """Workloads that hold some of these slices of a device. O(workloads on the node)."""
        for record in self._state.records.of_node(node):
            pods = record.placement.pods if record.placement is not None else ()
            shares = (share for one in pods if one.node == node for share in one.shares)
            if any(share.index == gpu and _overlaps(share.mask, mask) for share in shares):
                yield record


def _overlaps(held: int, mask: int) -> bool:
    """A share without slices of its own is on all of its GPU."""
    return mask == WHOLE_MASK or bool((held or WHOLE_MASK) & mask)
