"""Quota, placement and preemption as their loops drive them, and pods that do what they are told.

Nothing is between them but lists: each gets as one batch what the others have said since, until
nobody has more to say; then time goes on. Searches take no time.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import count
from typing import Any

from services.preemption.handler import PreemptionHandler
from services.quota.handler import QuotaHandler
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Workload
from shared.core.model.value import replace
from shared.core.quota.queue_policy import QueuePolicy
from shared.events import organisation, pods, topics, workloads
from shared.events.quotas import FlavorQuota
from tests.support.placement_driver import FLAVOR, Driver, a_node, gpu_limit, pod_fact, reported
from tests.support.queue_model import ROUNDS_MAX, TO_PLACEMENT
from tests.unit.admission.support import received
from tests.unit.preemption.world import Still

OTHER = "l40s"
PRODUCTS = {FLAVOR: "NVIDIA-H100-80GB-HBM3", OTHER: "NVIDIA-L40S"}
START_SECONDS = 1
STOPPING = (State.EVICTING, State.CANCELLING)


class Services:
    """One cell; `queues` by name own so many GPUs of one cohort.

    `others` are what they own of a second flavor, which has `other_nodes`.
    """

    def __init__(
        self,
        queues: Mapping[str, int],
        *,
        nodes: int,
        gpus: int = 8,
        policy: QueuePolicy | None = None,
        others: Mapping[str, int] | None = None,
        other_nodes: int = 0,
    ) -> None:
        self.quota = QuotaHandler(half_life_ms=3_600_000)
        self.driver = Driver()
        self.preemption = PreemptionHandler(clock=Still())
        self._heard: dict[str, list[Any]] = {"quota": [], "placement": [], "preemption": []}
        self._numbers = count(1)
        self._timers: list[tuple[int, int, Any]] = []
        self._seconds: dict[str, float] = {}
        self.evictions = 0
        self.tell(
            *(
                organisation.FlavorApplied(name=name, version=1, products=(product,))
                for name, product in PRODUCTS.items()
            ),
            organisation.CohortApplied(name="all", version=1),
            *(
                _a_queue(name, (owned, (others or {}).get(name, 0)), policy or QueuePolicy())
                for name, owned in queues.items()
            ),
            *(reported(a_node(f"n{number:03}", gpus=gpus)) for number in range(nodes)),
            *(
                reported(a_node(f"m{number:03}", gpus=gpus, flavor=OTHER, product=PRODUCTS[OTHER]))
                for number in range(other_nodes)
            ),
        )
        self.settle()

    @property
    def now_ms(self) -> int:
        return self.driver.now_ms

    @property
    def alive(self) -> Mapping[str, Any]:
        """Placement's records of what is not over."""
        return self.driver.handler.state.records.alive

    def states(self, *names: str) -> set[State]:
        return {self.driver.state(name) for name in names}

    # ── what comes from outside ──

    def submit(self, workload: Workload, seconds: float) -> None:
        """It runs so long once its pods have started."""
        workload = replace(workload, submitted_at_ms=self.now_ms)
        self._seconds[workload.id] = seconds
        self.tell(workloads.WorkloadQueued(workload=workload, body_hash=""))

    def tell(self, *payloads: Any) -> None:
        """Let everybody hear what he reads."""
        for payload in payloads:
            if type(payload) in self.quota.reads():
                self._heard["quota"].append(payload)
            if type(payload) in self.preemption.reads():
                self._heard["preemption"].append(payload)
            if not isinstance(payload, (organisation.QueueApplied, organisation.CohortApplied)):
                self._heard["placement"].append(payload)

    def wait(self, seconds: float, *, step_seconds: float = 1) -> None:
        """Let time pass."""
        until_ms = self.now_ms + seconds * 1000
        while self.now_ms < until_ms:
            self.driver.now_ms += round(step_seconds * 1000)
            while self._timers and self._timers[0][0] <= self.now_ms:
                self._happen(heapq.heappop(self._timers)[2])
            self.settle()

    # ── the loops ──

    def settle(self) -> None:
        """Until nobody has more to say."""
        for _ in range(ROUNDS_MAX):
            if not any([self._quota_turn(), self._placement_turn(), self._preemption_turn()]):
                return
        raise AssertionError("they never come to an end")

    def _take(self, name: str) -> list[Any]:
        batch, self._heard[name] = self._heard[name], []
        return batch

    def _messages(self, name: str, handler: Any) -> list[Any]:
        batch = [received(one, name, next(self._numbers), self.now_ms) for one in self._take(name)]
        return batch or list(handler.due(self.now_ms))

    def _quota_turn(self) -> bool:
        messages = self._messages("quota", self.quota)
        if messages:
            for emit in self.quota.decide(messages, self.now_ms).emits:
                if isinstance(emit.payload, TO_PLACEMENT):
                    self._heard["placement"].append(emit.payload)
                if type(emit.payload) in self.preemption.reads():
                    self._heard["preemption"].append(emit.payload)
        return bool(messages)

    def _placement_turn(self) -> bool:
        driver = self.driver
        messages = [driver.message(one) for one in self._take("placement")]
        messages = messages or list(driver.handler.due(self.now_ms))
        if messages:
            driver.take(messages)
            for payload in [emit.payload for emit in driver.outcome.emits]:
                self._pods(payload)
                for name, handler in (("quota", self.quota), ("preemption", self.preemption)):
                    if type(payload) in handler.reads():
                        self._heard[name].append(payload)
        return bool(messages)

    def _preemption_turn(self) -> bool:
        messages = self._messages("preemption", self.preemption)
        if messages:
            emits = self.preemption.decide(messages, self.now_ms).emits
            commands = (one for one in emits if one.topic is topics.PLAN_COMMANDS)
            self._heard["placement"] += [emit.payload for emit in commands]
        return bool(messages)

    # ── pods ──

    def _pods(self, payload: Any) -> None:
        match payload:
            case pods.BindWorkload():
                self._later(START_SECONDS, pods.PodsRunning, payload)
            case pods.EvictPods():
                self.evictions += 1
                self._later(payload.grace_seconds, pods.PodsGone, payload)
            case pods.ResizePods():
                shrinks = self.alive[payload.workload_id].resize
                seconds = payload.grace_seconds if shrinks.pods < shrinks.pods_before else 1
                more = {"number": payload.number, "pods": len(payload.placement.pods)}
                self._later(seconds, pods.PodsResized, payload, **more)
            case _:
                pass

    def _later(self, seconds: float, kind: Any, command: Any, **more: Any) -> None:
        fact = pod_fact(kind, command.workload_id, command.attempt, **more)
        at_ms = self.now_ms + round(seconds * 1000)
        heapq.heappush(self._timers, (at_ms, next(self._numbers), fact))

    def _happen(self, fact: Any) -> None:
        """What was to happen to the pods, if they are still there for it."""
        record = self.alive.get(fact.workload_id)
        if record is None or record.attempt != fact.attempt:
            return
        match fact:
            case pods.PodsRunning():
                self._later(
                    self._seconds[fact.workload_id], pods.PodsFinished, fact, succeeded=True
                )
                fits = record.state not in STOPPING
            case pods.PodsGone():
                fits = record.state in STOPPING
            case pods.PodsResized():
                fits = record.state is State.RUNNING and record.resize.open
            case _:
                fits = record.state is State.RUNNING
        if fits:
            self._heard["placement"].append(fact)


def _a_queue(name: str, owned: tuple[int, int], policy: QueuePolicy) -> organisation.QueueApplied:
    flavors = tuple(
        FlavorQuota(flavor=flavor, nominal=gpu_limit(gpus))
        for flavor, gpus in zip(PRODUCTS, owned, strict=True)
        if gpus or flavor == FLAVOR
    )
    return organisation.QueueApplied(
        name=name, version=1, team=name, cohort="all", flavors=flavors, policy=policy
    )
