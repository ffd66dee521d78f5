"""Devices on the ladder: what is told of them, what follows, and what is told of that (ADR 88).

`core/health/ladder.py` has the rules. Here signs are kept, a device that takes no work is kept
from all searches, what runs on it is evicted through the ledger with its place kept, and each step
is a fact. In the mode `observe`, and while the breaker is open, all is told and nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from services.placement.nodes.drains import Drains
from services.placement.preemption.evictions import Evictions
from services.placement.state.bodies import Bodies
from services.placement.state.fleet import Fleet
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.health import ladder
from shared.core.health.breaker import may_drain
from shared.core.health.device import TAKES_WORK, DeviceHealth, DeviceState, Sign
from shared.core.health.events import WHOLE_NODE, HealthEventKind
from shared.core.health.ladder import DRAINS, LadderVerdict, Remedy
from shared.core.model.nouns import Gpu, GpuShare, Node
from shared.core.model.reason import Reason
from shared.core.model.value import Value
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.nodes import DeviceHealthChanged, HealthEventReported
from shared.ports.reader import Reader
from shared.ports.store import Write

KIND: Final = "device"
"""Kind of the deadline at which a device leaves its state by itself."""
ROWS: Final = Bodies("placement.device_health", "device")
DRAINED_MAX: Final = 10_000
"""Times of automatic drains that are kept; more than the breaker ever allows in an hour."""
UNRESPONSIVE_MS: Final = 300_000
"""A node whose driver does not answer for so long is drained."""
_ON_RESET: Final = frozenset({HealthEventKind.RETURNED, HealthEventKind.BOOTED})
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(DeviceHealth)

Key = tuple[str, int]
"""(node, index of the GPU)."""


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
        self._devices: dict[Key, DeviceHealth] = {}
        self._touched: dict[Key, None] = {}
        self._draining: dict[Key, None] = {}
        self._timed: dict[Key, None] = {}
        """Devices that leave their state by themselves."""
        self._drained_ms: dict[str, list[int]] = {}
        """When GPUs of a flavor were drained by a rule, the last first in no order."""

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
        known = self._devices.get(key)
        started_ms = self._state.unit.now_ms - 1000 * fact.code
        return known is not None and known.since_ms < started_ms

    def _node_told(self, fact: HealthEventReported) -> None:
        """A driver that does not answer for any GPU: the node is drained if it stays so."""
        key, now_ms = (fact.node, WHOLE_NODE), self._state.unit.now_ms
        if fact.kind is HealthEventKind.UNRESPONSIVE and key not in self._devices:
            self._keep(
                DeviceHealth(
                    node=fact.node,
                    gpu=WHOLE_NODE,
                    state=DeviceState.SUSPECT,
                    rule=fact.kind.value,
                    since_ms=now_ms,
                    until_ms=now_ms + UNRESPONSIVE_MS,
                )
            )
        elif fact.kind in _ON_RESET and key in self._devices:
            self._forget(key)

    def _told(
        self, message: Received, fact: HealthEventReported, device: tuple[Node, Gpu]
    ) -> None:
        node, index, uuid = device[0], device[1].index, device[1].uuid
        known = self._devices.get((node.name, index))
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
        if after.state is known.state or self._allowed(node, after, verdict):
            self._step(message, known, after, sign.text)
            if verdict.remedy in DRAINS and after.state is not known.state:
                self._empty(message, node, after, (verdict, sign))
        else:
            self._keep(ladder.noted(known, sign))
            self._tell(message, known, after, sign.text, done=False)

    def _allowed(self, node: Node, after: DeviceHealth, verdict: LadderVerdict) -> bool:
        """Whether what takes a device out may be done; what only tells always may."""
        if after.state in TAKES_WORK or verdict.remedy in {Remedy.LOSE, Remedy.RESET_SEEN}:
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
        for key, known in list(self._devices.items()):
            if key[0] == node and known.gpu != WHOLE_NODE:
                after = ladder.restored(known, self._state.unit.now_ms)
                self._step(message, known, after, "an operator")
                self._forget(key)

    def removed(self, node: str) -> None:
        """The machine is gone, with its devices."""
        for key in [key for key in self._devices if key[0] == node]:
            self._fleet.out_of_service.discard(key)
            self._forget(key)

    def settle(self) -> None:
        """At the end of a unit: what is drained is quarantined. O(devices that drain)."""
        cause = self._state.unit.last_cause
        if cause is None:
            return
        for key in list(self._draining):
            if not any(True for _ in self._holders(*key)):
                known = self._devices[key]
                after = ladder.drained(known, self._state.unit.now_ms, self._policy.limits)
                self._step(cause, known, after, "nothing runs on it")

    # ── time ──

    def due(self, now_ms: int) -> list[Received]:
        """Devices for which the time of their state is over, as messages. O(those with a time)."""
        timed = (self._devices[key] for key in self._timed)
        return [
            deadline_message(KIND, f"{one.node}/{one.gpu}", one.since_ms, one.until_ms)
            for one in timed
            if one.until_ms <= now_ms
        ]

    def next_due_ms(self) -> int | None:
        """When the first leaves its state; None for never. O(those with a time)."""
        return min((self._devices[key].until_ms for key in self._timed), default=None)

    def expired(self, subject: str, cause: Received) -> None:
        """The time of a device may be over."""
        node, _, gpu = subject.rpartition("/")
        known = self._devices.get((node, int(gpu)))
        if known is None or not 0 < known.until_ms <= self._state.unit.now_ms:
            return
        if known.gpu == WHOLE_NODE:
            self._forget((node, WHOLE_NODE))
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
            if any(one.node == node and gpu in _indexes(one.shares) for one in pods):
                yield record

    def _step(self, message: Received, known: DeviceHealth, after: DeviceHealth, why: str) -> None:
        self._keep(after)
        if after.state is known.state:
            return
        key = known.node, known.gpu
        self._put(key, after.state)
        if known.state not in TAKES_WORK and after.state in TAKES_WORK:
            self._state.unit.freed_nodes[known.node] = message
        self._tell(message, known, after, why, done=True)

    def _put(self, key: Key, state: DeviceState) -> None:
        """Let searches see the device as it may be used now."""
        out = self._fleet.out_of_service
        (out.discard if state in TAKES_WORK else out.add)(key)
        self._draining.pop(key, None)
        if state is DeviceState.DRAINING:
            self._draining[key] = None
        if key[0] in self._fleet.present:
            self._drains.put(key[0])

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
            message=f"GPU {after.gpu} of node {after.node} {would} {after.state.value}: {why}",
            cell=self._state.cell,
        )
        self._state.unit.tell_about(fact, after.node, message)

    def _keep(self, device: DeviceHealth) -> None:
        self._know(device)
        self._touched[device.node, device.gpu] = None

    def _know(self, device: DeviceHealth) -> None:
        key = device.node, device.gpu
        self._devices[key] = device
        self._timed.pop(key, None)
        if device.until_ms:
            self._timed[key] = None

    def _forget(self, key: Key) -> None:
        del self._devices[key]
        self._draining.pop(key, None)
        self._timed.pop(key, None)
        self._touched[key] = None

    # ── rows ──

    async def load(self, reader: Reader) -> None:
        """After the nodes, the workloads and the drains."""
        for known in map(_decoder.decode, await ROWS.read(reader)):
            key = known.node, known.gpu
            self._know(known)
            if known.state not in TAKES_WORK:
                self._put(key, known.state)

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        touched, self._touched = self._touched, {}
        known = self._devices
        saved = {_name(key): _encode(known[key]) for key in touched if key in known}
        return ROWS.writes(saved, [_name(key) for key in touched if key not in known])


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


def _name(key: Key) -> str:
    node, gpu = key
    return f"{node}/{gpu}"


def _indexes(shares: tuple[GpuShare, ...]) -> set[int]:
    return {one.index for one in shares}
