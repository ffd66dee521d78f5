"""A handler of native pods with its rows, on news and facts that a test hands to it."""

import asyncio
from typing import Any

from services.native.handler import NativeHandler
from services.native.records import GROUPS
from shared.core.kubernetes.requests import TakenResources
from shared.core.model.lifecycle import State
from shared.core.native import ContainerGpus, GroupObject, NativePod
from shared.events import organisation, workloads
from shared.events.envelope import Event, Received
from shared.events.topics import NATIVE_COMMANDS
from shared.ports.errors import Transient
from shared.ports.native import GroupChanged, PodChanged, PodsListed

INDEX = "batch.kubernetes.io/job-completion-index"
GONE_MS = 60_000
START_MS = 1_000_000
TEAM = organisation.TeamApplied(name="vision", version=1, default_queue="q", namespace="red")


class Source:
    """Tells what the test tells."""

    def __init__(self):
        self.tell: Any = None

    async def follow(self, tell):
        self.tell = tell
        await asyncio.Event().wait()

    async def close(self):
        pass


class Notices:
    def __init__(self):
        self.written: list[Any] = []
        self.failures = 0

    async def write(self, notice):
        if self.failures:
            self.failures -= 1
            raise Transient("no answer")
        self.written.append(notice)

    async def close(self):
        pass


class Rows:
    """The rows that the handler's writes leave."""

    def __init__(self):
        self.groups: dict[str, dict[str, Any]] = {}
        self.documents: list[dict[str, Any]] = []

    async def fetch(self, sql, *arguments):
        del arguments
        return list(self.groups.values()) if sql == GROUPS else self.documents

    def take(self, writes):
        for write in writes:
            if write.sql.startswith("DELETE"):
                for key in write.arguments[0]:
                    del self.groups[key]
            elif "pod_group" in write.sql:
                names = (
                    "key",
                    "workload_id",
                    "team",
                    "restart",
                    "state",
                    "uids",
                    "reason",
                    "message",
                )
                for row in zip(*write.arguments[1:], strict=True):
                    times = ("changed_at_ms", "submitted_at_ms")
                    fields = dict(zip((*names, *times), row, strict=True))
                    self.groups[row[0]] = {**fields, "uids": fields["uids"].split(",")}
            else:
                columns = ("kind", "name", "version", "namespace", "present")
                for row in zip(*write.arguments, strict=True):
                    self.documents.append(dict(zip(columns, row, strict=True)))


class World:
    """A handler with its rows; every step takes in what is due."""

    def __init__(self):
        self.source, self.notices, self.rows = Source(), Notices(), Rows()
        self.at_ms = START_MS
        self.make()

    def make(self):
        self.handler = NativeHandler(
            source=self.source,
            notices=self.notices,
            clock=self,
            pool_labels=("muster.dev/pool",),
            gone_ms=GONE_MS,
        )

    def now_ms(self):
        return self.at_ms

    def monotonic_seconds(self):
        return self.at_ms / 1000

    async def load(self):
        await self.handler.load(self.rows)
        await asyncio.sleep(0)

    def decide(self, *messages):
        outcome = self.handler.decide(messages, self.at_ms)
        self.rows.take(outcome.writes)
        assert {NATIVE_COMMANDS.name} >= {one.topic.name for one in outcome.emits}
        return [one.payload for one in outcome.emits]

    def due(self):
        messages = self.handler.due(self.at_ms)
        return self.decide(*messages) if messages else []

    def hear(self, *news):
        for one in news:
            self.source.tell(one)
        return self.due()

    def fact(self, payload):
        event = Event(
            id="e", type="", source="", subject="", time_ms=self.at_ms, key="", payload=payload
        )
        return self.decide(Received(event=event, topic="t", partition=0, offset=0))

    def over(self, work, kind=workloads.WorkloadFailed, state=State.FAILED, message=""):
        return self.fact(
            kind(
                workload_id=work, team="vision", queue="q", version=2, state=state, attempt=1,
                priority=1, message=message,
            )
        )  # fmt: skip

    async def told(self):
        for _ in range(5):
            await asyncio.sleep(0)
        return [(one.name, one.reason) for one in self.notices.written]


def a_pod(name="p", **fields):
    defaults = {"namespace": "red", "name": name, "uid": f"u-{name}", "owner_uid": "j1"}
    gpus = (ContainerGpus(container="a", amounts={"nvidia.com/gpu": "1"}),)
    return NativePod(**{**defaults, "taken": TakenResources(gpus=1), "gpus": gpus, **fields})


def of_job(index, uid=""):
    return a_pod(
        f"j-{index}", uid=uid or f"u{index}", owner_kind="Job", owner_name="j",
        labels={INDEX: str(index)},
    )  # fmt: skip


def changed(pod):
    return PodChanged(key=f"{pod.namespace}/{pod.name}", pod=pod)


def gone(pod):
    return PodChanged(key=f"{pod.namespace}/{pod.name}", pod=None)


def listed(*pods):
    return PodsListed(pods={f"{one.namespace}/{one.name}": one for one in pods})


def job(parallelism=2, **fields):
    told = GroupObject(size=parallelism, **fields)
    return GroupChanged(key="red/job/j1", told=told)


def refused(work, reason, kind=workloads.PlacementRefused):
    more = {"nomination": 1} if kind is workloads.PlacementRefused else {}
    return kind(
        workload_id=work, team="vision", queue="q", reason=reason, message="It waits.",
        next_step="wait", **more,
    )  # fmt: skip


NO_JOB = GroupChanged(key="red/job/j1", told=None)
