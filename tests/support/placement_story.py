"""Random histories for the placement handler: whatever may come, in any order, also too late.

A story draws its next batch from what there is now, so that most messages mean something and some
are stale, doubled or about nobody. The same generator gives the same story.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from services.placement.state.records import Record
from services.placement.workloads.transitions import HAS_PODS
from shared.core.model.nouns import GpuRequest, Node, Placement
from shared.core.model.request import PlacementRequest
from shared.core.model.units import UNBOUNDED
from shared.core.preemption.moves.vacating import place_without
from shared.events import nodes, plans, pods, quotas, workloads
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    nominated,
    pod_fact,
    queued,
    reported,
)

QUEUES = ("q0", "q1", "q2")
COHORTS = ("c0", "c1")
FLAVORS = ("h100", "a100")
SHUT = 0.05
"""How often a document holds or drains its queue."""
FLAVOR_SETS = (("h100",), ("h100", "a100"), ("a100",))
NODES = ("n0", "n1", "n2")
COMMANDS = (
    workloads.CancelWorkload,
    workloads.HoldWorkload,
    workloads.ReleaseWorkload,
    workloads.RequestEviction,
)
STEPS = (pods.PodsBound, pods.PodsRunning, pods.PodsFinished, pods.PodsGone)
LATE = (pods.PodsUnstarted, pods.BindRefused)
REQUESTS = (
    GpuRequest(count=1),
    GpuRequest(count=2),
    GpuRequest(milli=400, memory_mib=30_000),
    GpuRequest(mig_profile="1g.10gb", mig_count=1),
    GpuRequest(mig_profile="3g.40gb", mig_count=1),
    GpuRequest(),
)


class Story:
    """One history of one cell; a `calm` one has quota and nodes enough for plans to work out."""

    def __init__(self, random: Random, *, calm: bool = False) -> None:
        self._random = random
        self._calm = calm
        seldom = 0.2 if calm else 2
        self._born = 0
        self._nomination = 0
        self._versions: dict[str, int] = {}
        self._plots: tuple[tuple[float, Callable[[Driver], Any]], ...] = (
            (12 if calm else 6, self._nominate),
            (2, self._queue),
            (1, self._withdraw),
            (3, self._command),
            (2, self._reprioritise),
            (3, self._wish),
            (2, self._idle),
            (9, self._pods),
            (seldom, self._node),
            (seldom, self._quota),
            (6, self._plan),
        )

    def batch(self, driver: Driver) -> list[Any]:
        """The payloads of the next batch; the first one makes a small world."""
        if not driver.units:
            return [*(self._quota_of(name) for name in QUEUES), *map(self._inventory, NODES)]
        weights = [weight for weight, _ in self._plots]
        plots = [plot for _, plot in self._plots]
        count = self._random.randint(1, 4)
        return [plot(driver) for plot in self._random.choices(plots, weights, k=count)]

    def seconds(self) -> int:
        """How long nothing happens after a batch."""
        return self._random.choice((0, 0, 0, 0, 0, 0, 1, 30, 130))

    def _next(self, name: str) -> int:
        """Mostly a newer version of `name`, now and then an old one."""
        old = self._versions.get(name, 0)
        version = old if old and self._random.random() < 0.1 else old + 1
        self._versions[name] = version
        return version

    # ── workloads ──

    def _new(self) -> Any:
        self._born += 1
        return a_workload(
            f"w{self._born}",
            gpu=self._random.choice(REQUESTS),
            pod_count=self._random.choice((1, 1, 1, 2, 3)),
            min_count=self._random.choice((None, 1)),
            queue=self._random.choice(QUEUES),
            team=self._random.choice(("red", "blue")),
            max_retries=self._random.choice((0, 1)),
            max_duration_seconds=self._random.choice((None, 100)),
        )

    def _some(self, driver: Driver) -> str:
        """The name of a workload that is alive, or once was, or never was."""
        alive = sorted(driver.handler.state.records.alive)
        if alive and self._random.random() < 0.9:
            return self._random.choice(alive)
        return f"w{self._random.randint(0, self._born + 1)}"

    def _queue(self, driver: Driver) -> Any:
        return queued(self._new())

    def _nominate(self, driver: Driver) -> Any:
        self._nomination += 1
        record = driver.handler.state.records.alive.get(self._some(driver))
        workload = record.workload if record else self._new()
        sets = (("h100",), ("a100",), ("h100", "a100"), ("h100", "none"))
        flavors = FLAVORS if self._calm else self._random.choice(sets)
        return nominated(
            workload,
            number=self._nomination,
            order=self._random.randint(0, 9),
            flavors=flavors,
            strict=workload.queue == "q0",
        )

    def _withdraw(self, driver: Driver) -> Any:
        name = self._some(driver)
        record = driver.handler.state.records.alive.get(name)
        known = record.nomination.number if record and record.nomination else 0
        number = self._random.choice((known, known, 1))
        return quotas.NominationWithdrawn(workload_id=name, nomination=number)

    def _command(self, driver: Driver) -> Any:
        return command(self._random.choice(COMMANDS), self._some(driver))

    def _reprioritise(self, driver: Driver) -> Any:
        name, priority = self._some(driver), self._random.randint(0, 2)
        named = {"priority_class": f"class-{priority}", "priority": priority}
        return command(workloads.ReprioritiseWorkload, name, **named)

    def _wish(self, driver: Driver) -> Any:
        """The owner asks for a size, a wrong one now and then."""
        name, size = self._some(driver), self._random.randint(0, 4)
        return command(workloads.ResizeWorkload, name, pods=size)

    def _idle(self, driver: Driver) -> Any:
        """Work is said to be idle, now and then of an attempt that is over."""
        name = self._some(driver)
        record = driver.handler.state.records.alive.get(name)
        attempt = (record.attempt if record else 1) - self._random.choice((0, 0, 0, 1))
        self._born += 1
        return plans.ReleaseIdleWorkload(
            plan_id=f"idle-{self._born}",
            workload_id=name,
            attempt=attempt,
            since_ms=0,
            until_ms=driver.now_ms,
            utilization_percent=0,
            priority_class=record.priority_class if record else "",
        )

    def _resized(self, record: Record) -> Any:
        """What the binder answers to the resize that is open."""
        resize, name = record.resize, record.workload.id
        more: dict[str, Any] = {"number": resize.number}
        if resize.pods < resize.pods_before or self._random.random() < 0.7:
            return pod_fact(pods.PodsResized, name, record.attempt, pods=resize.pods, **more)
        more |= {"reason": "Conflict", "message": "x", "node": "n0"}
        return pod_fact(pods.ResizeRefused, name, record.attempt, **more)

    def _pods(self, driver: Driver) -> Any:
        records = driver.handler.state.records.alive
        holding = sorted(name for name, record in records.items() if record.holds)
        sure = holding and self._random.random() < 0.95
        name = self._random.choice(holding) if sure else self._some(driver)
        record = driver.handler.state.records.alive.get(name)
        attempt = (record.attempt if record else 1) - self._random.choice((0, 0, 0, 0, 1))
        if record is not None and record.resize.open and self._random.random() < 0.7:
            return self._resized(record)
        kind = self._random.choice((*STEPS, pods.PodsRunning, pods.PodsGone, *LATE))
        more: dict[str, Any] = {}
        if kind in (pods.PodsFinished, pods.PodsGone):
            more["succeeded"] = self._random.random() < 0.5
        if kind is pods.BindRefused:
            more = {"reason": "Conflict", "message": "taken"}
        if kind in LATE:
            field = "ranks" if kind is pods.PodsUnstarted else "unstarted"
            more[field] = self._random.choice(((0,), (0, 2), (1,)))
        return pod_fact(kind, name, attempt, **more)

    def _plan(self, driver: Driver) -> Any:
        """To evict some of those that run, now and then by an old version, for one that waits."""
        records = driver.handler.state.records.alive
        waiting = sorted(name for name, one in records.items() if one.nomination is not None)
        name = self._random.choice(waiting) if waiting else self._some(driver)
        nomination = records[name].nomination if name in records else None
        permitted = nomination.flavors if nomination and self._random.random() < 0.9 else FLAVORS
        flavor = self._random.choice(permitted)
        running = sorted(
            name
            for name, one in records.items()
            if one.placement is not None
            and one.placement.flavor == flavor
            and (one.state in HAS_PODS or self._random.random() < 0.1)
        )
        some = self._random.sample(running, min(len(running), self._random.choice((1, 2, 9, 9))))
        victims = tuple(
            plans.PlannedVictim(
                workload_id=one,
                version=records[one].version - self._random.choice((0, 0, 0, 0, 0, 0, 1)),
                attempt=records[one].attempt,
                moves_to=self._elsewhere(driver, records[one]),
                priority_class=records[one].priority_class,
            )
            for one in some
        )
        self._born += 1
        return plans.ProposeEvictionPlan(
            plan_id=f"plan-{self._born}",
            workload_id=name,
            version=records[name].version if name in records else 1,
            nomination=self._nomination,
            flavor=flavor,
            rule="priority",
            victims=victims,
        )

    def _elsewhere(self, driver: Driver, record: Record) -> Placement | None:
        """Where one of a plan may go on; that two of them want the same place is refused."""
        if record.placement is None or self._random.random() < 0.6:
            return None
        flavor = record.placement.flavor
        request = PlacementRequest(
            workload=record.workload, flavors=(flavor,), headroom={flavor: UNBOUNDED}
        )
        return place_without(driver.handler.state.cluster, (), request)

    # ── nodes and quota ──

    def _inventory(self, name: str) -> Any:
        return reported(self._a_node(name), self._next(name))

    def _a_node(self, name: str) -> Node:
        if self._calm:
            return a_node(name, gpus=2, mig=1, flavor=FLAVORS[NODES.index(name) % 2])
        return a_node(
            name,
            gpus=self._random.choice((1, 2, 4)),
            mig=self._random.choice((0, 0, 1)),
            flavor=FLAVORS[NODES.index(name) % 2],
            cpu_milli=self._random.choice((3_000, 64_000)),
            ready=self._random.random() < 0.95,
            cordoned=self._random.random() < 0.1,
        )

    def _node(self, driver: Driver) -> Any:
        name = self._random.choice(NODES)
        dice = self._random.random()
        if dice < 0.4:
            return self._inventory(name)
        if dice < 0.5:
            return self._cordon(name)
        if dice < 0.6:
            return nodes.NodeRemoved(node=name, generation=self._next(name))
        return nodes.GpuHealthReported(
            node=name,
            gpu=self._random.randint(-1, 2),
            healthy=self._random.random() < 0.8,
            generation=self._next(name),
        )

    def _cordon(self, name: str) -> Any:
        dice = self._random.random()
        if dice < 0.5:
            return nodes.UncordonNode(node=name)
        if dice < 0.8:
            return nodes.CordonNode(node=name, drain=dice < 0.7)
        version = self._next(name)
        return nodes.NodeNoticeReported(node=name, gone_at_ms=0, generation=version)

    def _quota(self, driver: Driver) -> Any:
        return self._quota_of(self._random.choice(QUEUES + COHORTS))

    def _quota_of(self, name: str) -> Any:
        choice = self._random.choice
        queue = name in QUEUES
        return a_quota(
            name,
            choice((8, 16) if self._calm else (0, 2, 4, 8, 16)),
            parent=choice(("", "c0", "c1")) if queue else ("", "c0")[name == "c1"],
            kind="queue" if queue else "cohort",
            version=self._next(name),
            flavors=choice((("h100", "a100"),) if self._calm else FLAVOR_SETS),
            borrowing=choice((None,) if self._calm else (None, None, 0, 2)),
            lending=choice((None,) if self._calm else (None, None, 0, 2)),
            held=not self._calm and self._random.random() < SHUT,
            draining=queue and not self._calm and self._random.random() < SHUT,
        )
