"""Quota, placement and preemption together: what is owed comes in time, and everything ends."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shared.core.lifecycle import State
from shared.core.model import GpuRequest
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.events import nodes, workloads
from tests.support.placement_driver import a_workload, command
from tests.support.three_services import Services

MIN_RUNTIME_SECONDS = 60
GRACE_SECONDS = 30
DECISION_SECONDS = 5
LONG_SECONDS = 100_000
seeds = st.integers(0, 2**40)
slow = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def fill(random: Random, services: Services, gpus: int) -> None:
    """The borrower takes all: singles, shares of a node, gangs, elastic ones."""
    number = 0
    while gpus > 0:
        number += 1
        kind: dict[str, Any] = random.choice(
            (
                {"gpus": 1},
                {"gpus": random.choice((2, 4))},
                {"gpus": 8},
                {"gpus": 8, "pod_count": 3},
                {"gpus": 4, "pod_count": 10, "min_count": 2},
                {"gpus": 8, "pod_count": 6, "min_count": 1},
            )
        )
        gpus -= kind["gpus"] * kind.get("pod_count", 1)
        one = a_workload(f"b{number}", queue="borrower", team="blue", **kind)
        services.submit(one, LONG_SECONDS)
    services.wait(5)


@settings(slow, derandomize=True)  # of 1,000 histories four need a second grace
@example(seed=28).via("a gang that gave up its surplus had to go whole, a grace later")
@example(seed=97).via("the surplus of a gang lay on nodes that were kept for a borrower")
@example(seed=1121).via("two promised nodes were kept as if both starts were owed")
@given(seeds)
def test_a_crowd_that_is_owed_has_its_room_in_bounded_time(seed):
    """After the minimum run time and one grace, whoever has borrowed, and in whatever pieces."""
    random = Random(seed)
    count = random.choice((6, 12, 20))
    owned = random.randint(1, count * 8)
    services = Services({"owner": owned, "borrower": count * 8 - owned}, nodes=count)
    fill(random, services, count * 10)
    crowd = [f"s{number}" for number in range(owned)]
    for name in crowd:
        cpu_milli = random.choice((1_000, 2_000))
        services.submit(a_workload(name, queue="owner", cpu_milli=cpu_milli), LONG_SECONDS)

    services.wait(MIN_RUNTIME_SECONDS)
    services.wait(GRACE_SECONDS + DECISION_SECONDS)

    late = [name for name in crowd if services.driver.state(name) is State.QUEUED]
    assert not late, f"{len(late)} of {len(crowd)} wait, of {owned} GPUs owned"


POLICIES = (
    QueuePolicy(),
    QueuePolicy(min_runtime_seconds=0, cooldown_seconds=0),
    QueuePolicy(fair_share=False),
    QueuePolicy(reclaim=Reclaim.LOWER_PRIORITY),
    QueuePolicy(within_queue=WithinQueue.NEVER),
)
REQUESTS: tuple[dict[str, Any], ...] = (
    {"gpus": 1},
    {"gpus": 2},
    {"gpus": 4},
    {"gpus": 4, "pod_count": 3},
    {"gpus": 2, "pod_count": 6, "min_count": 2},
    {"gpu": GpuRequest(milli=500, memory_mib=10_000)},
)
STAYING: tuple[dict[str, Any], ...] = (
    {"gpus": 2, "preemptible": False},
    {"gpus": 2, "pod_count": 3, "min_count": 1, "preemptible": False},
)
"""Nobody may evict these, so their queues borrow nothing for them (docs/adr/0056)."""
CLASSES: tuple[dict[str, Any], ...] = (
    {"priority_class": "x", "priority": 5},
    {"priority_class": "low", "priority": -5},
    {"priority_class": "inference-production", "priority": 5},
)
QUEUES = "abc"


class Story:
    """What teams and operators do, at random; `others` are nodes of a second flavor."""

    def __init__(
        self, random: Random, others: int = 0, requests: Sequence[dict[str, Any]] = REQUESTS
    ) -> None:
        self.random = random
        self.requests = requests
        owned = {name: random.choice((4, 8, 16)) for name in QUEUES}
        more = {name: random.choice((0, 4, 8)) for name in QUEUES} if others else {}
        policy = random.choice(POLICIES)
        self.services = Services(
            owned, nodes=6, gpus=4, policy=policy, others=more, other_nodes=others
        )
        self.nodes = [f"n{at:03}" for at in range(6)] + [f"m{at:03}" for at in range(others)]
        self.held: list[str] = []
        self.cordoned: list[str] = []
        self.born = 0

    def step(self) -> None:
        """Something happens, then time passes."""
        random = self.random
        does = (self._submit, self._submit, self._submit, self._command, self._node)
        random.choice(does)()
        self.services.wait(random.choice((1, 2, 10, 40)))
        self._agree()

    def _agree(self) -> None:
        """All three know the same priority of whom they know, whatever he does."""
        services = self.services
        stands = services.preemption.memory.stands
        waiting = services.quota.memory.records.alive
        for name, record in services.alive.items():
            assert waiting[name].priority == record.priority, name
            stand = stands.get(name)
            if stand is not None and stand.version:
                told = stand.priority, stand.priority_class
                assert told == (record.priority, record.priority_class), name

    def _submit(self) -> None:
        request, queue = self.random.choice(self.requests), self.random.choice(QUEUES)
        priority, seconds = self.random.choice((0, 0, 5)), self.random.choice((5, 60, 300))
        for _ in range(self.random.choice((1, 1, 3, 8))):
            self.born += 1
            one = a_workload(
                f"w{self.born}", queue=queue, team=queue, priority=priority, **request
            )
            self.services.submit(one, seconds)

    def _command(self) -> None:
        name = self.random.choice(sorted(self.services.alive) or ["w0"])
        kind, more = self.random.choice(
            (
                (workloads.CancelWorkload, {}),
                (workloads.RequestEviction, {}),
                (workloads.HoldWorkload, {}),
                (workloads.ReprioritiseWorkload, self.random.choice(CLASSES)),
                (workloads.ResizeWorkload, {"pods": self.random.choice((2, 3, 6))}),
            )
        )
        self.services.tell(command(kind, name, **more))
        if kind is workloads.HoldWorkload:
            self.held.append(name)
        elif self.held and self.random.random() < 0.5:
            self.services.tell(command(workloads.ReleaseWorkload, self.held.pop(0)))

    def _node(self) -> None:
        if self.cordoned and self.random.random() < 0.6:
            self.services.tell(nodes.UncordonNode(node=self.cordoned.pop(0), actor="alice"))
        else:
            self.cordoned.append(self.random.choice(self.nodes))
            self.services.tell(nodes.CordonNode(node=self.cordoned[-1], actor="alice"))

    def end(self) -> None:
        """All may run now."""
        for name in self.held:
            self.services.tell(command(workloads.ReleaseWorkload, name))
        for name in self.cordoned:
            self.services.tell(nodes.UncordonNode(node=name, actor="alice"))
        for _ in range(240):
            self.services.wait(60, step_seconds=5)
            if not self.services.alive:
                return


@slow
@example(seed=30_847).via("a priority that quota had heard of already, and placement had not")
@given(seeds)
def test_everything_runs_in_the_end_and_nothing_is_left(seed):
    play(Story(Random(seed)))


@slow
@given(seeds)
def test_everything_runs_in_the_end_where_there_are_two_flavors(seed):
    play(Story(Random(seed), others=3))


@slow
@given(seeds)
def test_everything_runs_in_the_end_where_some_may_not_be_evicted(seed):
    random = Random(seed)
    play(Story(random, others=random.choice((0, 3)), requests=(*REQUESTS, *STAYING)))


def play(story: Story) -> None:
    """To its end, after which nothing is left anywhere."""
    for _ in range(25):
        story.step()

    story.end()

    services, memory = story.services, story.services.preemption.memory
    assert {} == services.alive
    assert {} == services.quota.memory.records.alive
    assert ({}, {}, {}, {}) == (memory.flights, memory.followers, memory.offers, memory.placements)
    assert 0 == len(services.driver.handler.desk.reservations)
    assert 0 == services.driver.handler.desk.cluster.gpu_milli_used()
