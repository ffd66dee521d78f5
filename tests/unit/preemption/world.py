"""Placement and preemption talking to each other without broker and database."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from services.preemption.handler import PreemptionHandler
from shared.core.model.lifecycle import State
from shared.core.model.units import UNLIMITED, Resources
from shared.core.quota.queue_policy import QueuePolicy
from shared.events.envelope import Received
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.plans import ProposeEvictionPlan
from shared.events.pods import BindWorkload, EvictPods, PodsGone, PodsRunning
from shared.events.quotas import FlavorQuota
from shared.events.topics import PREEMPTION_FACTS, WORKLOAD_FACTS
from shared.ports.store import Write
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)
from tests.support.protocol import an_event

AT_ONCE = QueuePolicy(min_runtime_seconds=0, cooldown_seconds=0)
COMMANDS = (BindWorkload, EvictPods)


class Still:
    """Searches take no time."""

    def now_ms(self) -> int:
        return 0

    def monotonic_seconds(self) -> float:
        return 0.0


class Journal:
    """The rows that the service wrote."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}

    def apply(self, write: Write) -> None:
        if "INSERT" in write.sql:
            for seq, entries, body in zip(*write.arguments, strict=True):
                self.rows[seq] = {"seq": seq, "entries": entries, "body": body}
        else:
            (first,) = write.arguments
            self.rows = {seq: row for seq, row in self.rows.items() if seq >= first}

    async def fetch(self, *_: Any) -> Sequence[Any]:
        return [self.rows[seq] for seq in sorted(self.rows)]


class Cell:
    """One cohort of queues on one fleet."""

    def __init__(self, *, gpus: int = 8, nodes: int = 1) -> None:
        self.driver = Driver()
        self.handler = PreemptionHandler(clock=Still())
        self.journal = Journal()
        self.plans: list[ProposeEvictionPlan] = []
        self.refusals: list[Any] = []
        self.said: list[Any] = []
        """All that placement told."""
        self._number = 1_000_000
        self.total = gpus * nodes
        self.both(*(reported(a_node(f"n{number}", gpus=gpus)) for number in range(nodes)))
        self.hear(CohortApplied(name="all", version=1))
        self.driver.send(a_quota("all", self.total, kind="cohort"))

    def queue(self, name: str, gpus: int, **fields: Any) -> None:
        """A queue that owns `gpus`; placement lets it borrow all that is there."""
        amount = Resources(gpu_milli=gpus * 1000, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)
        fields.setdefault("policy", AT_ONCE)
        fields.setdefault("version", 1)
        flavors = (FlavorQuota(flavor="h100", nominal=amount),)
        self.hear(QueueApplied(name=name, team="red", cohort="all", flavors=flavors, **fields))
        self.driver.send(a_quota(name, self.total, parent="all", version=fields["version"]))

    def hear(self, *payloads: Any) -> None:
        """Let preemption read facts."""
        self.decide([self._message(one) for one in payloads])

    def both(self, *payloads: Any) -> list[Any]:
        """Facts that both read; what placement says to them is heard too."""
        self.hear(*payloads)
        return self.send(*payloads)

    def send(self, *payloads: Any) -> list[Any]:
        """Let placement decide, and preemption hear of it."""
        return self._told(self.driver.send(*payloads))

    def _told(self, out: list[Any]) -> list[Any]:
        self.said += out
        self.hear(*filter(_is_fact, out), *self.driver.kept_nodes())
        return out

    def hear_again(self, most: int = sys.maxsize) -> None:
        """Preemption reads the last that placement told once more: its relay began anew."""
        last = self.said[max(0, len(self.said) - most) :]
        self.hear(*filter(_is_fact, last))

    def turn(self, seconds: float = 0) -> list[Any]:
        """Let preemption look for victims, and placement carry out what it proposes."""
        self._told(self.driver.wait(seconds))
        proposed = self.decide(list(self.handler.due(self.driver.now_ms)))
        self.plans += proposed
        return [one for plan in proposed for one in self.send(plan)]

    def run(self, name: str, queue: str, **spec: Any) -> None:
        """Let a workload run."""
        self.both(nominated(a_workload(name, queue=queue, **spec)))
        running = pod_fact(PodsRunning, name, self.driver.record(name).attempt)
        self.send(running)
        assert self.driver.state(name) is State.RUNNING

    def ask(self, name: str, queue: str, *, order: int = 0, **spec: Any) -> None:
        """Let a workload be tried in vain."""
        self.both(nominated(a_workload(name, queue=queue, **spec), order=order))
        assert self.driver.state(name) is State.QUEUED

    def leave(self, *names: str) -> None:
        """Their pods are gone."""
        for name in names:
            self.send(pod_fact(PodsGone, name, self.driver.record(name).attempt))

    def states(self, names: str) -> list[State]:
        """Of workloads named by one letter each."""
        return [self.driver.state(name) for name in names]

    def decide(self, messages: list[Received]) -> list[Any]:
        """One unit of preemption; the plans that it proposes. What it tells is kept."""
        if not messages:
            return []
        outcome = self.handler.decide(messages, self.driver.now_ms)
        for write in outcome.writes:
            self.journal.apply(write)
        told = [one.payload for one in outcome.emits if one.topic is PREEMPTION_FACTS]
        self.refusals += told
        return [one.payload for one in outcome.emits if one.topic is not PREEMPTION_FACTS]

    async def reload(self) -> None:
        """Preemption starts anew from its journal."""
        self.handler = PreemptionHandler(clock=Still())
        await self.handler.load(self.journal)

    def _message(self, payload: Any) -> Received:
        self._number += 1
        event = an_event(self._number, payload)
        return Received(event=event, topic=WORKLOAD_FACTS.name, partition=0, offset=self._number)


def _is_fact(told: object) -> bool:
    return not isinstance(told, COMMANDS)
