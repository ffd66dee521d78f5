"""Devices on the ladder with real PostgreSQL: a restart forgets no step, and people read each."""

from __future__ import annotations

from services.placement.handlers import PlacementHandler
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.core.health.device import DeviceState
from shared.core.health.events import HealthEventKind
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Gpu, Node
from shared.events import nodes, topics
from shared.events.nodes import HealthEventReported
from shared.events.pods import PodsGone, PodsRunning
from tests.support.gateway import Gateway, publish_facts, running_projection, until
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


def xid(code: int, gpu: int) -> HealthEventReported:
    return HealthEventReported(
        node="n1", gpu=gpu, kind=HealthEventKind.XID, code=code, at_ms=1, uuid=f"n1-{gpu}"
    )


async def test_a_restart_forgets_no_step(pool: Pool) -> None:
    lease = PostgresLease(pool, "placement", "cell-0", "a", time_to_live_seconds=600)
    assert await lease.try_acquire()
    store, driver = PostgresStore(pool, lease), Driver()
    driver.send(reported(a_node("n1", gpus=4)), a_quota())
    driver.send(nominated(a_workload("w1", gpus=1)))
    driver.send(pod_fact(PodsRunning, "w1"))
    ((share,),) = (pod.shares for pod in driver.placement("w1").pods)
    others = [gpu for gpu in range(4) if gpu != share.index]
    driver.send(xid(119, others[0]))
    driver.wait(600)  # a second GPU within ten minutes would be the node
    driver.send(xid(48, share.index), xid(74, others[1]))
    for unit in driver.units:
        await store.commit(unit)
    await sums_agree(pool, driver.handler)
    written = len(driver.units)

    loaded = PlacementHandler(cell=0, seed=0)
    await loaded.load(pool)

    check(loaded)
    assert loaded.state.cluster.digest() == driver.handler.state.cluster.digest()
    driver.handler = loaded
    driver.send(pod_fact(PodsGone, "w1"), nominated(a_workload("w2", gpus=3)))
    driver.send(nominated(a_workload("w3", gpus=2)))
    for unit in driver.units[written:]:
        await store.commit(unit)
    states = await pool.fetch(
        "SELECT device, body::json->>'state' AS state FROM placement.device_health ORDER BY 1"
    )
    assert {row["device"]: row["state"] for row in states} == {
        f"n1/{share.index}": "quarantined",
        f"n1/{others[0]}": "quarantined",
        f"n1/{others[1]}": "suspect",
    }
    assert [driver.state(name) for name in ("w1", "w2", "w3")] == [
        State.QUEUED, State.QUEUED, State.PLACED,
    ]  # fmt: skip


async def test_a_node_shows_the_step_of_each_device_and_why(gateway: Gateway) -> None:
    gpus = tuple(Gpu(index=index, uuid=f"n1-{index}", memory_mib=80) for index in range(2))
    node = Node(
        name="n1", flavor="h100", product="H100", cpu_milli=1, memory_mib=1 << 18, gpus=gpus
    )
    inventory = (topics.NODE_FACTS, nodes.NodeInventoryReported(node=node, generation=1))
    text = "GPU 1 of node n1 is quarantined: XID 48"

    def step(after: DeviceState, message: str, *, done: bool = True) -> nodes.DeviceHealthChanged:
        return nodes.DeviceHealthChanged(
            node="n1",
            gpu=1,
            uuid="n1-1",
            before=DeviceState.HEALTHY,
            after=after,
            rule="xid-memory",
            message=message,
            done=done,
        )

    async def shown(step: str, out: list[int], messages: list[str]) -> bool:
        one = (await gateway.call("GET", "/v1/nodes/n1")).body
        found = [device["health"] for device in one.get("devices", ())]
        names = ("unhealthy_gpus", "health_messages")
        return (found, *map(one.get, names)) == (["healthy", step], out, messages)

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, [inventory], source="t1", at_ms=1_000)
        observed = step(DeviceState.DRAINING, "would be", done=False)
        told = [(topics.WORKLOAD_FACTS, observed)]
        await publish_facts(gateway.settings, told, source="t2", at_ms=2_000)
        told = [(topics.WORKLOAD_FACTS, step(DeviceState.QUARANTINED, text))]
        await publish_facts(gateway.settings, told, source="t3", at_ms=3_000)
        await until(lambda: shown("quarantined", [1], [text]))
        told = [(topics.WORKLOAD_FACTS, step(DeviceState.SUSPECT, "s"))]
        await publish_facts(gateway.settings, told, source="t4", at_ms=4_000)
        await until(lambda: shown("suspect", [], ["s"]))
        told = [(topics.WORKLOAD_FACTS, step(DeviceState.HEALTHY, "h"))]
        await publish_facts(gateway.settings, told, source="t5", at_ms=5_000)
        await until(lambda: shown("healthy", [], []))
