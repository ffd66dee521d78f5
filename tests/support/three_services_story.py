"""What teams and operators do to quota, placement and preemption together, at random."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from shared.core.model.nouns import GpuRequest
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.events import nodes, workloads
from tests.support.placement_driver import a_workload, command
from tests.support.three_services import Services

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


def play(story: Story) -> None:
    """To its end, after which nothing is left anywhere."""
    for _ in range(25):
        story.step()

    story.end()

    services, memory = story.services, story.services.preemption.memory
    assert {} == services.alive
    assert {} == services.quota.memory.records.alive
    assert ({}, {}, {}, {}) == (memory.flights, memory.followers, memory.offers, memory.placements)
    assert 0 == len(services.driver.handler.state.reservations)
    assert 0 == services.driver.handler.state.cluster.gpu_milli_used()
