"""Drives the placement handler without a broker or a database, and checks it after each batch.

`send` is one unit of work. What came out is kept as the loop would write it, so a test sees event
ids, versions and transitions over the whole history, not only those of the last batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from services.placement.handlers import PlacementHandler
from services.placement.state.holds import hold
from services.placement.state.records import Record
from services.placement.state.usage import Usage
from services.placement.unit.deadlines import TIME_TO_LIVE
from shared.core.model.lifecycle import TERMINAL, State, allowed
from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Node,
    Placement,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNLIMITED, Resources
from shared.core.scoring.cluster import Cluster
from shared.events import nodes, plans, pods, quotas, topics, workloads
from shared.events.envelope import Received
from shared.ports.reader import Reader
from shared.ports.store import Unit
from shared.runtime.assemble import Counters, assemble
from shared.runtime.handler import Outcome
from tests.support.protocol import FIRST_MS, an_event

FLAVOR = "h100"
NEVER_SECONDS = 1 << 30
QUEUE = "q"


def a_node(
    name: str = "n1", *, gpus: int = 8, mig: int = 0, flavor: str = FLAVOR, **rest: Any
) -> Node:
    """A node of `gpus` whole GPUs and `mig` in MIG mode."""
    devices = tuple(
        Gpu(index=index, uuid=f"{name}-{index}", memory_mib=81_559, mig=index >= gpus)
        for index in range(gpus + mig)
    )
    fields: dict[str, Any] = {
        "product": "NVIDIA-H100-80GB-HBM3",
        "cpu_milli": 64_000,
        "memory_mib": 1 << 19,
    }
    return Node(name=name, flavor=flavor, gpus=devices, **(fields | rest))


def reported(node: Node, generation: int = 1) -> nodes.NodeInventoryReported:
    """The inventory of `node`."""
    return nodes.NodeInventoryReported(node=node, generation=generation)


def gpu_limit(gpus: int) -> Resources:
    """A limit on GPUs alone."""
    return Resources(gpu_milli=gpus * 1000, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)


def a_quota(
    name: str = QUEUE,
    gpus: int = 1_000,
    *,
    parent: str = "",
    kind: str = "queue",
    version: int = 1,
    flavors: Iterable[str] = (FLAVOR,),
    borrowing: int | None = None,
    lending: int | None = None,
    **rest: Any,
) -> quotas.QuotaChanged:
    """`gpus` GPUs in each of `flavors` for one node of the tree."""
    limits = tuple(
        quotas.FlavorQuota(
            flavor=one,
            nominal=gpu_limit(gpus),
            borrowing_limit=None if borrowing is None else gpu_limit(borrowing),
            lending_limit=None if lending is None else gpu_limit(lending),
        )
        for one in flavors
    )
    return quotas.QuotaChanged(
        name=name, kind=kind, parent=parent, flavors=limits, version=version, **rest
    )


def a_workload(
    name: str = "w1",
    *,
    gpus: int = 1,
    pod_count: int = 1,
    gpu: GpuRequest | None = None,
    queue: str = QUEUE,
    team: str = "red",
    priority: int = 0,
    cpu_milli: int = 1_000,
    memory_mib: int = 1_024,
    min_count: int | None = None,
    **spec: Any,
) -> Workload:
    """A workload of `pod_count` pods with `gpus` GPUs each, at least `min_count` of them."""
    request = gpu if gpu is not None else GpuRequest(count=gpus)
    pod_set = PodSet(
        count=pod_count,
        min_count=min_count,
        gpu=request,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )
    return Workload(
        id=name,
        team=team,
        queue=queue,
        cell=0,
        priority=priority,
        spec=WorkloadSpec(name=name, kind=WorkloadKind.TRAINING, pod_sets=(pod_set,), **spec),
        submitted_at_ms=FIRST_MS,
    )


def nominated(
    workload: Workload,
    *,
    number: int = 1,
    order: int = 0,
    flavors: Iterable[str] = (FLAVOR,),
    strict: bool = False,
) -> quotas.WorkloadNominated:
    """Permission to try `workload`."""
    return quotas.WorkloadNominated(
        workload=workload,
        version=1,
        nomination=number,
        order_key=(order,),
        flavors=tuple(quotas.PermittedFlavor(flavor=one) for one in flavors),
        strict=strict,
    )


def queued(workload: Workload) -> workloads.WorkloadQueued:
    """Admission's yes."""
    return workloads.WorkloadQueued(workload=workload, body_hash="")


def pod_fact(kind: type[pods.PodFact], name: str, attempt: int = 1, **more: Any) -> pods.PodFact:
    """A fact about all pods of one attempt."""
    return kind(workload_id=name, attempt=attempt, at_ms=FIRST_MS, **more)


def command(kind: Any, name: str, **more: Any) -> Any:
    """A command of the owner of workload `name`."""
    return kind(workload_id=name, team="red", actor="alice", **more)


TOPIC_OF: dict[type[Any], topics.Topic] = {
    quotas.WorkloadNominated: topics.QUOTA_FACTS,
    quotas.NominationWithdrawn: topics.QUOTA_FACTS,
    quotas.QuotaChanged: topics.QUOTA_FACTS,
    nodes.NodeInventoryReported: topics.NODE_FACTS,
    nodes.HealthEventReported: topics.NODE_FACTS,
    nodes.NodeSilent: topics.HEALTH_FACTS,
    nodes.NodeHeard: topics.HEALTH_FACTS,
    nodes.TrendFound: topics.HEALTH_FACTS,
    nodes.TrendEnded: topics.HEALTH_FACTS,
    nodes.GpuHealthReported: topics.NODE_FACTS,
    nodes.NodeRemoved: topics.NODE_FACTS,
    pods.PodsBound: topics.POD_FACTS,
    pods.PodsRunning: topics.POD_FACTS,
    pods.PodsFinished: topics.POD_FACTS,
    pods.PodsUnstarted: topics.POD_FACTS,
    pods.PodsGone: topics.POD_FACTS,
    pods.BindRefused: topics.POD_FACTS,
    plans.ProposeEvictionPlan: topics.PLAN_COMMANDS,
    nodes.NodeNoticeReported: topics.NODE_FACTS,
    nodes.CordonNode: topics.NODE_COMMANDS,
    nodes.UncordonNode: topics.NODE_COMMANDS,
    pods.PodsResized: topics.POD_FACTS,
    pods.ResizeRefused: topics.POD_FACTS,
}


class Driver:
    """A handler, the messages it was given, and the units that would have been written."""

    def __init__(
        self, *, seed: int = 0, silent_seconds: int = NEVER_SECONDS, **settings: Any
    ) -> None:
        """Nothing is asked about unless `silent_seconds` says so: no binder answers here."""
        self._settings = {"cell": 0, "seed": seed, "silent_seconds": silent_seconds, **settings}
        self.handler = PlacementHandler(**self._settings)
        self.now_ms = FIRST_MS
        self.units: list[Unit] = []
        self.counters = Counters(next_seq=1, next_unit=1, next_audit=1, last_digest=b"")
        self.event_ids: set[str] = set()
        self.states: dict[str, tuple[int, State]] = {}
        self.rows: set[tuple[State, State]] = set()
        """Transitions taken so far."""
        self._numbers = 0
        self._offsets: dict[str, int] = {}

    def message(self, payload: Any) -> Received:
        """`payload` as it is read from its topic."""
        self._numbers += 1
        topic = TOPIC_OF.get(type(payload), topics.QUEUE_FACTS)
        offset = self._offsets.get(topic.name, 0)
        self._offsets[topic.name] = offset + 1
        event = an_event(self._numbers, payload)
        return Received(event=event, topic=topic.name, partition=0, offset=offset)

    def send(self, *payloads: Any) -> list[Any]:
        """One batch; the payloads that came out, in order."""
        return self.take([self.message(one) for one in payloads])

    async def restart(self, reader: Reader) -> None:
        """Another life of the service, with the same settings."""
        self.handler = PlacementHandler(**self._settings)
        await self.handler.load(reader)

    def wait(self, seconds: float) -> list[Any]:
        """Let time pass, then process what is due."""
        self.now_ms += round(seconds * 1000)
        return self.due()

    def due(self) -> list[Any]:
        """Process what is due now."""
        return self.take(list(self.handler.due(self.now_ms)))

    def take(self, messages: list[Received]) -> list[Any]:
        """Decide one batch, and check all that must hold after every one."""
        outcome = self.handler.decide(messages, self.now_ms)
        self.outcome = outcome
        unit = assemble(
            "placement", self.counters, outcome, consumed=messages, dead=(), now_ms=self.now_ms
        )
        self.counters = self.counters.after(unit)
        self.units.append(unit)
        self._check_history(unit, outcome)
        check(self.handler)
        told = [one.payload for one in outcome.emits]
        return [one for one in told if not isinstance(one, nodes.NodesKept)]

    def kept_nodes(self) -> list[nodes.NodesKept]:
        """What the last batch told of nodes that are kept; `take` leaves it out of its answer."""
        told = (one.payload for one in self.outcome.emits)
        return [one for one in told if isinstance(one, nodes.NodesKept)]

    def _check_history(self, unit: Unit, outcome: Outcome) -> None:
        for row in unit.outbox:
            assert row.event_id not in self.event_ids, f"event id twice: {row.value!r}"
            self.event_ids.add(row.event_id)
        for change in outcome.changes:
            version, state = self.states.get(change.subject, (1, State.QUEUED))
            before, after = State(change.before), State(change.after)
            assert version + 1 == change.version, f"{change.subject}: a version is missing"
            assert state is before, f"{change.subject}: {state} was {before}"
            assert allowed(before, after), f"{change.subject}: {before} -> {after}"
            self.states[change.subject] = (change.version, after)
            self.rows.add((before, after))

    def record(self, name: str = "w1") -> Record:
        """What is remembered of a workload that is not over."""
        return self.handler.state.records.alive[name]

    def placement(self, name: str = "w1") -> Placement:
        """Where it is placed."""
        placement = self.record(name).placement
        assert placement is not None
        return placement

    def state(self, name: str = "w1") -> State:
        """Its present state, also when it is over."""
        record = self.handler.state.records.alive.get(name)
        return record.state if record else self.states[name][1]


def kinds(payloads: Iterable[Any]) -> list[str]:
    """Names of the types of `payloads`."""
    return [type(one).__name__ for one in payloads]


def check(handler: PlacementHandler) -> None:
    """Memory agrees with itself: cluster, quota and indexes are the sums of the placements."""
    state, records = handler.state, handler.state.records.alive
    holding = {name for name, record in records.items() if record.holds}
    placed = {name for name, record in records.items() if record.placement is not None}
    assert holding == placed
    assert not any(record.state in TERMINAL for record in records.values())
    assert {} == state.records.touched
    assert cluster_of(handler).digest() == state.cluster.digest()
    assert sums_of(state.usage) == sums_of(usage_of(handler))
    by_node: dict[str, set[str]] = {}
    for name in placed:
        placement = records[name].placement
        assert placement is not None
        for pod in placement.pods:
            by_node.setdefault(pod.node, set()).add(name)
    assert by_node == {node: ids for node, ids in state.records.by_node.items() if ids}
    waiting = {
        name
        for name, record in records.items()
        if record.nomination is not None and record.deadline_kind not in ("backoff", "reservation")
    }
    reserved = {name for name, one in records.items() if one.deadline_kind == "reservation"}
    moving = {
        name
        for name, record in records.items()
        if record.holds and state.reservations.of(name) is not None
    }
    ending = {name for name in moving if records[name].state is State.CANCELLING}
    assert all(records[name].reason == "moved" for name in moving - ending)
    assert all(records[name].reason in ("cancelled", TIME_TO_LIVE) for name in ending)
    kept = {name for name in records if state.reservations.of(name) is not None}
    assert reserved == kept - moving
    assert len(kept) == len(state.reservations)
    for name in reserved:
        nomination, room = records[name].nomination, state.reservations.of(name)
        assert room is not None
        if nomination is not None and nomination.strict and not room.moves:
            waiting.add(name)
    assert waiting == {name for name in records if name in state.waiting}
    assert len(waiting) == len(state.waiting)
    assert all(records[name].state is State.QUEUED for name in waiting)


def cluster_of(handler: PlacementHandler) -> Cluster:
    """A cluster made anew from the inventory and the placements."""
    cluster = Cluster(seed=0)
    for node in handler.fleet.present.values():
        cluster.put_node(handler.drains.seen(node))
    for record in handler.state.records.alive.values():
        if record.placement is not None:
            workload = record.workload
            cluster.charge(workload.team, record.placement.pods, workload.spec.pod_sets)
    hold(cluster, list(handler.state.reservations.pieces()))
    return cluster


def usage_of(handler: PlacementHandler) -> Usage:
    """Use of each node of the quota tree, counted anew from facts, placements and reservations."""
    usage = Usage()
    for fact in handler.state.usage.facts.values():
        usage.put(fact)
    for record in handler.state.records.alive.values():
        if record.placement is not None:
            placement = record.placement
            usage.charge(record.workload.queue, placement.flavor, placement.charge)
    for kept in handler.state.reservations.quota():
        usage.keep(kept, 1)
    return usage


def sums_of(usage: Usage) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Limits, use and promises by node and flavor, where something is used or promised."""
    return {
        (name, flavor): (node.limits_in(flavor), node.charged(flavor), node.taken(flavor))
        for name, node in usage.tree.nodes.items()
        for flavor in (*node.used, *node.promised)
        if any(node.charged(flavor)) or any(node.taken(flavor))
    }
