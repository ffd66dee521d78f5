"""An operator vouches for one GPU by HTTP: on the log, in the audit; refused if it is fit."""

from typing import Any

from shared.core.health.device import DeviceState
from shared.core.model.nouns import Gpu, Node
from shared.events import nodes, topics
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.records import first_records

GPUS = tuple(Gpu(index=index, uuid=f"GPU-{index}", memory_mib=80_000) for index in range(2))
NODE = Node(name="n1", flavor="f", product="p", cpu_milli=1_000, memory_mib=1_000, gpus=GPUS)


async def test_a_gpu_that_is_out_is_restored_and_a_fit_one_is_not(gateway: Gateway, database: Any):
    out = nodes.DeviceHealthChanged(
        node="n1",
        gpu=1,
        uuid="GPU-1",
        before=DeviceState.DRAINING,
        after=DeviceState.FAILED,
        rule="third-quarantine",
        message="GPU 1 of node n1 is failed: XID 119",
    )

    async def known() -> bool:
        node = (await gateway.call("GET", "/v1/nodes/n1")).body
        return any(one.get("health") == "failed" for one in node.get("devices", ()))

    async with running_projection(gateway.settings):
        facts = [
            (topics.NODE_FACTS, nodes.NodeInventoryReported(node=NODE, generation=1)),
            (topics.WORKLOAD_FACTS, out),
        ]
        await publish_facts(gateway.settings, facts, source="t1", at_ms=1_000)
        await until(known)
    path = "/v1/nodes/n1/restore"
    member = await gateway.call("POST", path, {"gpu": 1}, key=await gateway.key("red", "admin"))
    done = await gateway.call("POST", path, {"gpu": 1, "note": "replaced"})
    fit = await gateway.call("POST", path, {"gpu": 0})
    wrong = [await gateway.call("POST", path, body) for body in ({}, {"gpu": -1}, {"gpu": "1"})]
    ((_, body),) = await first_records(gateway.settings, topics.NODE_COMMANDS, 1)
    rows = database.execute("SELECT subject, after FROM gateway.audit WHERE kind = 'node'")

    assert (403, 202) == (member.status, done.status)
    assert ("n1", 1, "replaced") == (body["node"], body["gpu"], body["note"])
    assert body["by"]
    assert ["node/n1|restore"] == rows.split()
    assert (409, "urn:muster:problem:gpu-healthy") == (fit.status, fit.body["type"])
    assert [400] * 3 == [one.status for one in wrong]
