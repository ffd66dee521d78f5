"""Kubelets choose GPUs as they like, and the ledger of real PostgreSQL follows them.

Random histories: work starts and ends, kubelets report in any order and more than once, several
reports in a unit beside placements and ends. After each unit the sums of the ledger agree with its
rows; at rest every pod is charged the GPUs that its kubelet gave it, and a reload finds the same.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from services.placement.handlers import PlacementHandler
from services.placement.nodes.takeovers import ROWS
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.core.model.lifecycle import State
from shared.events.nodes import NodeDevicesDisputed, NodeDevicesLearned
from shared.events.pods import PodDevices, PodDevicesTold, PodsFinished, PodsRunning
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    check,
    nominated,
    pod_fact,
    reported,
)
from tests.support.placement_ledger import sums_agree

NODES, STEPS = 2, 40


class Kubelets:
    """What each pod really has: the device plugin of its node chose any that were free."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._free = {f"n{number}": {*range(8)} for number in range(NODES)}
        self.has: dict[str, dict[int, tuple[str, frozenset[int]]]] = {}

    def start(self, driver: Driver, name: str) -> None:
        self.has[name] = {}
        for pod in driver.placement(name).pods:
            free = sorted(self._free[pod.node])
            chosen = frozenset(self._random.sample(free, len(pod.shares)))
            self._free[pod.node] -= chosen
            self.has[name][pod.rank] = pod.node, chosen

    def end(self, name: str) -> None:
        for node, chosen in self.has.pop(name).values():
            self._free[node] |= chosen

    def report(self, name: str) -> Any:
        pods = tuple(
            PodDevices(rank=rank, devices=tuple(f"{node}-{index}" for index in sorted(chosen)))
            for rank, (node, chosen) in self.has[name].items()
        )
        return pod_fact(PodDevicesTold, name, pods=pods)


class History:
    """Messages of one random history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driver = Driver()
        self.kubelets = Kubelets(self.random)
        nodes = [reported(a_node(f"n{number}")) for number in range(NODES)]
        self.driver.send(*nodes, a_quota())
        self._made = 0

    def step(self) -> None:
        """One unit: ends, reports and starts in any order."""
        alive = list(self.kubelets.has)
        ends = [name for name in alive if self.random.random() < 0.15]
        told = [name for name in alive if self.random.random() < 0.5]
        messages = [self.kubelets.report(name) for name in told]
        messages += [pod_fact(PodsFinished, name, succeeded=True) for name in ends]
        self._made += 1
        gpus, pods = self.random.randint(1, 4), self.random.randint(1, 3)
        messages.append(nominated(a_workload(f"w{self._made}", gpus=gpus, pod_count=pods)))
        self.random.shuffle(messages)
        out = self.driver.send(*messages)
        assert not [one for one in out if isinstance(one, NodeDevicesDisputed)]
        for one in ends:
            self.kubelets.end(one)
        self._start()

    def _start(self) -> None:
        """Whoever is placed runs, on GPUs that its kubelet chooses."""
        records = self.driver.handler.state.records.alive
        for name in [name for name, one in records.items() if one.state is State.PLACED]:
            self.kubelets.start(self.driver, name)
            self.driver.send(pod_fact(PodsRunning, name))


@pytest.mark.parametrize("seed", range(4))
async def test_the_ledger_ends_in_what_kubelets_chose(pool: Pool, seed: int) -> None:
    lease = PostgresLease(pool, "placement", "cell-0", "a", time_to_live_seconds=600)
    assert await lease.try_acquire()
    store, history, written = PostgresStore(pool, lease), History(seed), 0
    driver, kubelets = history.driver, history.kubelets
    for number in range(STEPS):
        history.step()
        if number == STEPS - 1:
            driver.send(*(kubelets.report(name) for name in kubelets.has))
        for unit in driver.units[written:]:
            await store.commit(unit)
        written = len(driver.units)
        await sums_agree(pool, driver.handler)
    loaded = PlacementHandler(cell=0, seed=0)
    await loaded.load(pool)
    rows = await pool.fetch("SELECT workload_id, rank, node, gpu FROM placement.allocation")

    really = {
        (name, rank, node, index)
        for name, pods in kubelets.has.items()
        for rank, (node, chosen) in pods.items()
        for index in chosen
    }
    assert really == {tuple(row.values()) for row in rows}
    assert len(really) > 1
    check(loaded)
    assert driver.handler.state.cluster.digest() == loaded.state.cluster.digest()
    again = loaded.decide([driver.message(kubelets.report(name)) for name in kubelets.has], 1)
    told = (NodeDevicesLearned, NodeDevicesDisputed)
    assert [] == [one for one in again.emits if isinstance(one.payload, told)]
    assert [] == [one for one in again.writes if ROWS.table in one.sql]
