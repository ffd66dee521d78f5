"""Random histories of faults: whatever happens, nothing is placed on a device that is out."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from shared.core.health.device import TAKES_WORK
from shared.core.health.events import HealthEventKind as Kind
from shared.core.model.lifecycle import State
from shared.events.nodes import DeviceHealthChanged, UncordonNode
from shared.events.pods import PodsFinished, PodsGone
from shared.events.workloads import WorkloadPlaced
from tests.support.placement_driver import a_workload, nominated, pod_fact
from tests.unit.placement.test_device_health import PROBATION_SECONDS, fleet, told


class RandomFaults:
    """Work, ends, signs, starts anew and operators in any order; the driver checks the ledger."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driver = fleet(nodes=3, gpus=4)
        self.out: set[tuple[str, int]] = set()
        self.made = 0

    def step(self) -> None:
        acts = (self._work, self._work, self._end, self._sign, self._sign, self._operator)
        told = self.random.choice(acts)()
        told += self.driver.wait(self.random.choice((0, 1, 30, PROBATION_SECONDS)))
        self._look(told)

    def _look(self, told: list[Any]) -> None:
        """What is placed in a unit is placed after all that its messages took out."""
        for one in told:
            if isinstance(one, DeviceHealthChanged) and one.done:
                place = one.node, one.gpu
                (self.out.discard if one.after in TAKES_WORK else self.out.add)(place)
            elif isinstance(one, WorkloadPlaced):
                shares = {
                    (pod.node, gpu.index) for pod in one.placement.pods for gpu in pod.shares
                }
                assert not shares & self.out

    def _work(self) -> list[Any]:
        self.made += 1
        gpus, pods = self.random.choice((1, 2, 4)), self.random.choice((1, 2))
        return self.driver.send(nominated(a_workload(f"w{self.made}", gpus=gpus, pod_count=pods)))

    def _end(self) -> list[Any]:
        alive = self.driver.handler.state.records.alive
        told = []
        for name in [one for one, record in alive.items() if record.placement is not None]:
            attempt = self.driver.record(name).attempt
            if self.driver.state(name) is State.EVICTING:
                told += self.driver.send(pod_fact(PodsGone, name, attempt))
            elif self.random.random() < 0.3:
                told += self.driver.send(pod_fact(PodsFinished, name, attempt, succeeded=True))
        return told

    def _sign(self) -> list[Any]:
        kind = self.random.choice(list(Kind))
        code = (
            self.random.choice((0, 1, 2, 7, 13, 48, 74, 79, 119)) if kind is not Kind.BOOTED else 0
        )
        gpu = self.random.randint(-1, 3)
        return self.driver.send(told(kind, code, gpu, f"n{self.random.randint(1, 4)}"))

    def _operator(self) -> list[Any]:
        return self.driver.send(UncordonNode(node=f"n{self.random.randint(1, 3)}"))


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_placed_on_a_device_that_is_out_whatever_happens(seed):
    faults = RandomFaults(seed)
    for _ in range(60):
        faults.step()
