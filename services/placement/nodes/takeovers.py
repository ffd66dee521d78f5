"""What kubelets told of the GPUs that they chose, and what the ledger makes of it.

At the end of a unit, so that what its messages placed and gave back is known: each report is a
permutation of GPUs among those that hold some of its node, or it is disputed and the GPUs
concerned take no new work until an operator uncordons the node (docs/adr/0074). The decision is
the core's (`core/kubernetes/takeover.py`); here it is written down: memory, ledger, fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from services.placement.nodes.drains import Drains
from services.placement.preemption.evictions import Evictions
from services.placement.state.bodies import Bodies
from services.placement.state.fleet import Fleet
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from shared.core.kubernetes.takeover import APART, Device, Disputed, Key, TakeoverResult, take_over
from shared.core.model.nouns import WHOLE_MASK, Node, PodPlacement
from shared.core.model.units import GPU_MILLI
from shared.core.model.value import replace
from shared.events.envelope import Received
from shared.events.nodes import (
    HeldDevices,
    NodeDevicesDisputed,
    NodeDevicesLearned,
    NodeDevicesSettled,
)
from shared.events.pods import PodDevices, PodDevicesTold
from shared.ports.reader import Reader
from shared.ports.store import Write

ROWS: Final = Bodies("placement.node_devices", "node")
CHANGED_HANDS: Final = "has other GPUs free than it seemed"
_encode: Final = msgspec.json.Encoder().encode


class ToldGpu(msgspec.Struct, frozen=True, kw_only=True):
    """Which GPU an index is, and what a kubelet gave it to; nothing once that attempt is over."""

    uuid: str
    workload_id: str = ""
    attempt: int = 0
    rank: int = 0


class EarlyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet told of a pod while its node listed no such GPUs, as after a restart."""

    workload_id: str
    attempt: int
    rank: int
    devices: tuple[str, ...]


class NodeDevices(msgspec.Struct, kw_only=True):
    """What kubelets told of one node, by index."""

    node: str
    gpus: dict[int, ToldGpu] = msgspec.field(default_factory=dict)
    disputed: dict[int, str] = msgspec.field(default_factory=dict)
    """Why GPUs take no new work."""
    early: list[EarlyReport] = msgspec.field(default_factory=list)
    """Read when the node lists its GPUs again."""


_decoder: Final = msgspec.json.Decoder(NodeDevices)


class Takeovers:
    """The reports of one cell."""

    def __init__(
        self, state: CellState, fleet: Fleet, drains: Drains, evictions: Evictions
    ) -> None:
        self._state, self._fleet = state, fleet
        self._drains, self._evictions = drains, evictions
        self._nodes: dict[str, NodeDevices] = {}
        self._touched: dict[str, None] = {}
        self._reports: list[tuple[Received, PodDevicesTold]] = []

    def told(self, message: Received, fact: PodDevicesTold) -> None:
        """A report, for the end of the unit."""
        self._reports.append((message, fact))

    def removed(self, message: Received, node: str) -> None:
        """The node is gone; another machine of its name has other GPUs."""
        self._reopen(message, node)
        if self._nodes.pop(node, None) is not None:
            self._touched[node] = None

    def inventory(self, message: Received, node: Node) -> None:
        """An inventory that names GPUs otherwise than kubelets were understood: ask them again.

        What each of them told is read anew at the end of the unit, by the names that are certain.
        """
        known = self._nodes.get(node.name)
        if known is None or not node.gpus:
            return
        self._read_early(message, known)
        names = {gpu.index: gpu.uuid for gpu in node.gpus if gpu.uuid}
        if not names or all(
            names.get(index) == told.uuid for index, told in known.gpus.items() if told.uuid
        ):
            return
        pods: dict[tuple[str, int, int], list[str]] = {}
        for told in known.gpus.values():
            if told.workload_id:
                pods.setdefault((told.workload_id, told.attempt, told.rank), []).append(told.uuid)
        known.gpus = {}
        self._touched[node.name] = None
        self._reports = [*map(partial(_again, message), pods.items()), *self._reports]

    def _read_early(self, message: Received, known: NodeDevices) -> None:
        early, known.early = known.early, []
        for one in early:
            key = one.workload_id, one.attempt, one.rank
            self._reports.append(_again(message, (key, one.devices)))
            self._touched[known.node] = None

    def uncordon(self, message: Received, node: str) -> None:
        """An operator has looked at it: what was disputed takes work again."""
        if self._reopen(message, node) and node in self._fleet.present:
            self._drains.put(node)
            self._state.unit.freed_nodes[node] = message

    def _reopen(self, message: Received, node: str) -> bool:
        """Whether anything was disputed there."""
        known = self._nodes.get(node)
        if known is None or not known.disputed:
            return False
        self._fleet.disputed -= {(node, index) for index in known.disputed}
        known.disputed = {}
        self._touched[node] = None
        fact = NodeDevicesSettled(node=node, cell=self._state.cell)
        self._state.unit.tell_about(fact, node, message)
        return True

    def settle(self) -> None:
        """Make the ledger say what the reports of this unit say."""
        reports, self._reports = self._reports, []
        changed: dict[str, None] = {}
        for message, fact in reports:
            record = self._state.records.alive.get(fact.workload_id)
            if record is None or record.attempt != fact.attempt or record.placement is None:
                continue
            for one in fact.pods:
                changed |= self._settle(message, record, one)
        for name in changed:
            record = self._state.records.alive[name]
            assert record.placement is not None
            self._state.records.touch(record)
            self._state.unit.ledger.recharge(record.workload, record.attempt, record.placement)

    def _settle(self, message: Received, record: Record, told: PodDevices) -> dict[str, None]:
        """Workloads with another placement."""
        assert record.placement is not None
        pod = next((one for one in record.placement.pods if one.rank == told.rank), None)
        node = self._fleet.present.get(pod.node) if pod is not None else None
        if pod is None or node is None or not pod.shares or not _is_whole(pod):
            return {}
        if not told.devices:
            self._ended(node.name, (record.workload.id, told.rank))
            return {}
        known = self._nodes.get(node.name) or NodeDevices(node=node.name)
        if not {one.index for one in pod.shares} <= {gpu.index for gpu in node.gpus}:
            self._keep(known, record, told)
            return {}
        held = self._held(node.name)
        devices = [
            Device(index=gpu.index, uuid=gpu.uuid, certain=True)
            if gpu.uuid
            else Device(index=gpu.index, uuid=_name(known, gpu.index))
            for gpu in node.gpus
        ]
        confirmed = {index for index, key in held.items() if self._is_told(known, index, key)}
        key = (record.workload.id, told.rank)
        found = take_over(devices, held, confirmed, key, told.devices)
        if isinstance(found, Disputed):
            self._dispute(message, record, (node.name, told), found)
            return {}
        names = {one.index: one.uuid for one in devices}
        return self._take(message, record, (known, names | found.learned), key, found)

    def _keep(self, known: NodeDevices, record: Record, told: PodDevices) -> None:
        """For the inventory that lists the GPUs; but nothing that was told before."""
        key = record.workload.id, record.attempt, told.rank
        names = {gpu.uuid for gpu in known.gpus.values() if _holder(gpu) == key}
        early = [one for one in known.early if _holder(one) != key]
        if names != set(told.devices):
            early.append(
                EarlyReport(workload_id=key[0], attempt=key[1], rank=key[2], devices=told.devices)
            )
        if early != known.early:
            known.early = early
            self._nodes[known.node] = known
            self._touched[known.node] = None

    def _ended(self, node: str, key: Key) -> None:
        """The ledger keeps what the pod holds until its attempt is over; its kubelet does not."""
        known = self._nodes.get(node)
        if known is None:
            return
        for index, told in known.gpus.items():
            if (told.workload_id, told.rank) == key:
                known.gpus[index] = ToldGpu(uuid=told.uuid)
                self._touched[node] = None

    def _held(self, node: str) -> dict[int, Key]:
        """What holds each GPU of a node by the ledger."""
        held: dict[int, Key] = {}
        for record in self._state.records.of_node(node):
            assert record.placement is not None
            for pod in record.placement.pods:
                if pod.node == node:
                    whole = (record.workload.id, pod.rank) if _is_whole(pod) else APART
                    held |= {share.index: whole for share in pod.shares}
        return held

    def _is_told(self, known: NodeDevices, index: int, key: Key) -> bool:
        told, record = known.gpus.get(index), self._state.records.alive.get(key[0])
        return (
            told is not None
            and record is not None
            and (told.workload_id, told.attempt, told.rank) == (key[0], record.attempt, key[1])
        )

    def _take(
        self,
        message: Received,
        record: Record,
        what: tuple[NodeDevices, Mapping[int, str]],
        key: Key,
        found: TakeoverResult,
    ) -> dict[str, None]:
        """Move what moves, note what was told, tell it; workloads with another placement.

        `what`: the row of the node, and the names of its GPUs as they are known now.
        """
        known, uuids = what
        names = sorted({name for name, _ in found.moves})
        if names:
            self._evictions.lost(known.node, message, CHANGED_HANDS)
            self._move(known.node, found.moves, names)
        gpus = known.gpus | {index: ToldGpu(uuid=uuid) for index, uuid in found.learned.items()}
        assert record.placement is not None
        (pod,) = (one for one in record.placement.pods if one.rank == key[1])
        for share in pod.shares:
            gpus[share.index] = ToldGpu(
                uuid=uuids[share.index],
                workload_id=key[0],
                attempt=record.attempt,
                rank=key[1],
            )
        if known.gpus != gpus:
            known.gpus = gpus
            self._nodes[known.node] = known
            self._touched[known.node] = None
        if names:
            self._tell(message, known.node, names)
        return dict.fromkeys(names)

    def _move(self, node: str, moves: Mapping[Key, Mapping[int, int]], names: list[str]) -> None:
        """All give back what they hold, then all take what they have."""
        records = [self._state.records.alive[name] for name in names]
        self._charge(records, release=True)
        for record in records:
            assert record.placement is not None
            pods = tuple(
                _moved(pod, moves.get((record.workload.id, pod.rank), {}))
                if pod.node == node
                else pod
                for pod in record.placement.pods
            )
            record.placement = replace(record.placement, pods=pods)
        self._charge(records, release=False)

    def _charge(self, records: Iterable[Record], *, release: bool) -> None:
        cluster = self._state.cluster
        for record in records:
            assert record.placement is not None
            workload = record.workload
            act = cluster.release if release else cluster.charge
            act(workload.team, record.placement.pods, workload.spec.pod_sets)

    def _tell(self, message: Received, node: str, names: list[str]) -> None:
        state = self._state
        held = tuple(
            HeldDevices(workload_id=name, attempt=record.attempt, placement=record.placement)
            for name in names
            if (record := state.records.alive[name]).placement is not None
        )
        fact = NodeDevicesLearned(node=node, workloads=held, cell=state.cell)
        state.unit.tell_about(fact, node, message)

    def _dispute(
        self, message: Received, record: Record, what: tuple[str, PodDevices], found: Disputed
    ) -> None:
        """Once for each GPU."""
        node, told = what
        text = f"pod {record.workload.id}-{record.attempt}-{told.rank}: {found.message}"
        known = self._nodes.setdefault(node, NodeDevices(node=node))
        if all(known.disputed.get(index) == text for index in found.gpus):
            return
        known.disputed |= dict.fromkeys(found.gpus, text)
        self._touched[node] = None
        self._fleet.disputed.update((node, index) for index in found.gpus)
        self._drains.put(node)
        fact = NodeDevicesDisputed(
            node=node,
            gpus=found.gpus,
            workload_id=record.workload.id,
            attempt=record.attempt,
            rank=told.rank,
            devices=told.devices,
            message=text,
            disputed=tuple(sorted(known.disputed)),
            cell=self._state.cell,
        )
        self._state.unit.tell_about(fact, node, message)
        self._evictions.lost(node, message, CHANGED_HANDS)

    # ── rows ──

    async def load(self, reader: Reader) -> None:
        """After the nodes, and what else keeps work off them."""
        for body in await ROWS.read(reader):
            known = _decoder.decode(body)
            self._nodes[known.node] = known
            self._fleet.disputed.update((known.node, index) for index in known.disputed)
            if known.disputed and known.node in self._fleet.present:
                self._drains.put(known.node)

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        touched, self._touched = self._touched, {}
        saved = {one: _encode(self._nodes[one]) for one in touched if one in self._nodes}
        return ROWS.writes(saved, [one for one in touched if one not in self._nodes])


def _again(
    message: Received, one: tuple[tuple[str, int, int], Sequence[str]]
) -> tuple[Received, PodDevicesTold]:
    """What the kubelet of a pod told, as a report."""
    (workload_id, attempt, rank), devices = one
    pods = (PodDevices(rank=rank, devices=tuple(devices)),)
    at_ms = message.event.time_ms
    told = PodDevicesTold(workload_id=workload_id, attempt=attempt, at_ms=at_ms, pods=pods)
    return message, told


def _holder(one: ToldGpu | EarlyReport) -> tuple[str, int, int]:
    return one.workload_id, one.attempt, one.rank


def _is_whole(pod: PodPlacement) -> bool:
    return all(one.mask == WHOLE_MASK and one.milli == GPU_MILLI for one in pod.shares)


def _name(known: NodeDevices, index: int) -> str:
    told = known.gpus.get(index)
    return told.uuid if told is not None else ""


def _moved(pod: PodPlacement, moves: Mapping[int, int]) -> PodPlacement:
    shares = (replace(one, index=moves.get(one.index, one.index)) for one in pod.shares)
    return replace(pod, shares=tuple(sorted(shares, key=lambda one: one.index)))
