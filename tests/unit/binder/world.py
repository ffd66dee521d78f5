"""A binder with its cluster, tables and clock in the test's hands; a kill is a new handler."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.binder import attempts, watcher
from services.binder.handler import BinderHandler
from shared.adapters.memory_cluster import MemoryCluster
from shared.core.model.nouns import GpuShare, Placement, PodPlacement, PodSet
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.events.envelope import Event, Received, event_id
from shared.events.pods import BindWorkload, EvictPods, ResizePods
from shared.events.registry import NAME_BY_TYPE
from shared.simulator.pods import Timing

START_MS = 1_700_000_000_000


class ManualClock:
    def __init__(self):
        self.ms = START_MS

    def now_ms(self):
        return self.ms

    def monotonic_seconds(self):
        return self.ms / 1000


@dataclass
class Tables:
    """binder.attempt and binder.fence as dictionaries; understands the binder's own statements."""

    rows: dict[Any, Any] = field(default_factory=dict)
    fences: dict[int, int] = field(default_factory=dict)

    def apply(self, writes):
        known: dict[str, Any] = {
            attempts.INSERT: self._insert,
            attempts.UPDATE: self._update,
            attempts.RESIZE: self._resize,
            attempts.FENCE: self._fence,
        }
        for write in writes:
            known[write.sql](*write.arguments)

    def _insert(self, now_ms, *values):
        shared, columns = values[:8], values[8:]
        names = (
            "cell", "epoch", "state", "active", "evicting", "grace_seconds", "succeeded",
            "fenced_nodes",
        )  # fmt: skip
        for workload_id, attempt, team, size, pods in zip(*columns, strict=True):
            assert (workload_id, attempt) not in self.rows
            self.rows[workload_id, attempt] = dict(zip(names, shared, strict=True)) | {
                "workload_id": workload_id, "attempt": attempt, "team": team, "size": size,
                "pods": pods, "accepted_at_ms": now_ms, "resizing": 0, "pods_before": 0,
                "reason": "",
            }  # fmt: skip

    def _update(self, now_ms, *values):
        shared, columns = values[:6], values[6:]
        names = ("state", "active", "evicting", "grace_seconds", "succeeded", "fenced_nodes")
        for workload_id, attempt, reason in zip(*columns, strict=True):
            changes = dict(zip(names, shared, strict=True)) | {"reason": reason}
            self.rows[workload_id, attempt] |= changes

    def _resize(self, now_ms, *values):
        names = ("size", "resizing", "pods_before", "pods")
        rows = zip(*values[6:8], *values[9:], strict=True)
        self._update(now_ms, *values[:9])
        for workload_id, attempt, *changed in rows:
            self.rows[workload_id, attempt] |= dict(zip(names, changed, strict=True))

    def _fence(self, cell, epoch):
        self.fences[cell] = max(self.fences.get(cell, 0), epoch)

    async def fetch(self, sql, *arguments):
        def pick(row, *names):
            return {name: row[name] for name in names}

        common = ("workload_id", "attempt", "cell", "epoch", "team", "state", "evicting",
                  "grace_seconds", "succeeded", "size")  # fmt: skip
        rows = list(self.rows.values())
        if sql == attempts.FENCES:
            return [{"cell": cell, "epoch": epoch} for cell, epoch in self.fences.items()]
        if sql == attempts.NEVER_BOUND:
            return [pick(one, "workload_id", "attempt") for one in rows
                    if not one["active"] and not one["size"]]  # fmt: skip
        if sql == attempts.ACTIVE:
            return [
                pick(one, *common, "resizing", "pods_before", "fenced_nodes")
                | {"pods": one["pods"] if one["state"] == "binding" or one["resizing"] else None}
                for one in rows
                if one["active"]
            ]
        assert sql == attempts.SOME
        wanted = set(zip(*arguments, strict=True))
        return [
            pick(one, *common, "reason")
            for one in rows
            if not one["active"] and (one["workload_id"], one["attempt"]) in wanted
        ]


class World:
    """See the module. `facts` are those committed, in order."""

    def __init__(self, *, start_ms=0, stop_ms=0, seed=0):
        self.clock = ManualClock()
        timing = Timing(start_delay_ms=start_ms, stop_delay_ms=stop_ms)
        self.cluster = MemoryCluster(self.clock, timing, seed=seed)
        self.tables = Tables()
        self.facts = []
        self.dead = []
        self._sent = 0
        self.handler: Any = None

    async def start(self):
        """A new process on the same tables and cluster; the old one is gone."""
        if self.handler is not None:
            await self.handler.suspend()
        self.handler = BinderHandler(cluster=self.cluster, clock=self.clock)
        await self.handler.load(self.tables)
        self.handler.topics()
        await self.settle()

    async def stop(self):
        await self.handler.suspend()

    def message(self, payload):
        self._sent += 1
        identifier = event_id(self.clock.ms, f"command {self._sent}", "placement", 0)
        event = Event(
            id=identifier, type=NAME_BY_TYPE[type(payload)], source="placement",
            subject=getattr(payload, "workload_id", "cell-0"), time_ms=self.clock.ms, key="",
            payload=payload,
        )  # fmt: skip
        return Received(event=event, topic="pod.commands.v1", partition=0, offset=self._sent)

    async def unit(self, messages, *, kill=""):
        """One unit of work. `kill`: before the commit, or after it and before anything else."""
        await self.handler.prepare(messages, self.tables)
        outcome = self.handler.decide(messages, self.clock.ms)
        if kill == "before commit":
            return
        self.tables.apply(outcome.writes)
        self.facts += [emit.payload for emit in outcome.emits]
        self.dead += outcome.dead
        if kill != "after commit":
            self.handler.topics()

    async def send(self, *payloads, kill="", kill_before=None):
        await self.unit([self.message(one) for one in payloads], kill=kill)
        if not kill:
            await self.settle(kill_before=kill_before)

    async def settle(self, *, kill_before=None):
        """Let the actuator work until nothing happens any more at this time.

        `kill_before`: a type of fact before whose first commit the binder is killed.
        """
        quiet = 0
        while quiet < 4:
            self.handler._actuator.gangs.wake.set()
            for _ in range(8):
                await asyncio.sleep(0)
            observations = self.handler.due(self.clock.ms)
            quiet = 0 if observations else quiet + 1
            if any(type(one.event.payload) is kill_before for one in observations):
                await self.unit(observations, kill="before commit")
                await self.start()
                return
            if observations:
                await self.unit(observations)

    async def advance(self, seconds):
        """Let time pass, a quarter of a second at a time."""
        for _ in range(max(1, round(seconds * 4))):
            self.clock.ms += min(250, round(seconds * 1000))
            self.cluster.tick()
            await self.settle()

    async def fence(self, node):
        """No container runs on the node any more, says an operator."""
        self.cluster.pods.fence_node(node)
        self.cluster.tick()
        await self.settle()

    async def relist(self):
        """Have the binder list again, as it does after any doubt."""
        before = self.handler._actuator.watcher.round
        self.handler._actuator.watcher.relist()
        while self.handler._actuator.watcher.round == before:
            await asyncio.sleep(0.001)
        await self.settle()

    def told(self, workload_id="w1", attempt=1):
        return [type(one).__name__ for one in self.facts
                if (one.workload_id, one.attempt) == (workload_id, attempt)]  # fmt: skip

    def pods(self):
        return {pod.name: pod for pod in self.cluster.pods.all_pods()}


def bind(workload_id="w1", attempt=1, nodes=("n1",), epoch=1, seconds=None):
    return BindWorkload(
        workload_id=workload_id, team="red", attempt=attempt, epoch=epoch,
        placement=placed_on(nodes), pod_sets=(PodSet(image="a/b:1"),),
        expected_duration_seconds=seconds,
    )  # fmt: skip


def resize(nodes, number=1, workload_id="w1", *, seconds=None):
    return ResizePods(
        workload_id=workload_id, team="red", attempt=1, number=number, epoch=1,
        placement=placed_on(nodes), pod_sets=(PodSet(image="a/b:1"),),
        expected_duration_seconds=seconds,
    )  # fmt: skip


def placed_on(nodes):
    share = GpuShare(index=0, mask=255, milli=1000, memory_mib=81_920)
    pods = tuple(
        PodPlacement(pod_set="main", rank=rank, node=node, shares=(share,))
        for rank, node in enumerate(nodes)
    )
    return Placement(flavor="h100", pods=pods, charge=Resources(gpu_milli=1000 * len(pods)))


def evict(workload_id="w1", attempt=1, epoch=1, grace=30, reason=Reason.OPERATOR, *, fenced=()):
    return EvictPods(
        workload_id=workload_id, attempt=attempt, epoch=epoch, reason=reason, grace_seconds=grace,
        fenced_nodes=fenced,
    )  # fmt: skip


def without_backoff(monkeypatch):
    """Errors of the cluster are tried again at once, so that no test waits."""
    monkeypatch.setattr(watcher, "BACKOFF_SECONDS", (0.0, 0.0))


def stored_pods(row):
    return msgspec.json.decode(row["pods"])["pods"]
