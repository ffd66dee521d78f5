"""Reports of use through monitoring, a real broker and PostgreSQL, until people read a trend.

Reports of hours are published within seconds: monitoring takes their own time for the broker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from typing_extensions import override

from services.monitoring.handler import MonitoringHandler
from shared.core.model.nouns import Gpu, Node
from shared.events import nodes, topics
from shared.events.envelope import Received
from shared.runtime.handler import Outcome
from shared.runtime.settings import Settings
from tests.fixtures.servers import Database
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.running import running_handler

MINUTE_MS = 60_000
START_MS = 1_790_000_000_000
GPUS = tuple(Gpu(index=index, uuid=f"n1-{index}", memory_mib=80) for index in range(2))


class InItsTime(MonitoringHandler):
    """Monitoring for which the broker took a report when it was read."""

    @override
    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        told = [
            msgspec.structs.replace(one, logged_ms=one.event.payload.at_ms)
            if isinstance(one.event.payload, nodes.GpuUsageReported)
            else one
            for one in messages
        ]
        return super().decide(told, now_ms)


def report(minute: int, replays: int) -> tuple[topics.Topic, nodes.GpuUsageReported]:
    return topics.USAGE_FACTS, nodes.GpuUsageReported(
        node="n1",
        at_ms=START_MS + minute * MINUTE_MS,
        utilization_percent=(0, 0),
        memory_used_mib=(0, 0),
        temperature_celsius=(40, 40),
        power_watts=(60, 60),
        pcie_replays=(7, replays),
    )


async def test_a_trend_is_told_read_with_its_node_and_over_after_a_restart(
    gateway: Gateway, kafka: str, database: Database, topic_prefix: str
) -> None:
    settings = Settings(
        kafka_bootstrap=kafka,
        database_url=database.url("monitoring"),
        topic_prefix=topic_prefix,
        log_level="error",
    )
    node = Node(
        name="n1", flavor="h100", product="H100", cpu_milli=1, memory_mib=1 << 18, gpus=GPUS
    )
    inventory = (topics.NODE_FACTS, nodes.NodeInventoryReported(node=node, generation=1))

    async def publish(source: str, *facts: Any) -> None:
        await publish_facts(gateway.settings, facts, source=source, at_ms=START_MS)

    async def shown() -> tuple[list[list[dict[str, Any]]], list[str]]:
        one = (await gateway.call("GET", "/v1/nodes/n1")).body
        devices = [device["trends"] for device in one.get("devices", ())]
        return devices, one.get("trend_messages", [])

    async def is_found() -> bool:
        return bool((await shown())[1])

    async def is_over() -> bool:
        return await shown() == ([[], []], [])

    async with running_projection(gateway.settings):
        await publish("t1", inventory)
        await until(is_over)
        async with running_handler(settings, InItsTime()):
            await publish("t2", *(report(minute, 20 * minute) for minute in range(20)))
            await until(is_found)
        ((), (found,)), (message,) = await shown()
        listed = (await gateway.call("GET", "/v1/nodes")).body["items"][0]["trend_messages"]
        assert (found["trend"], found["limit"], found["message"]) == ("replay", 100, message)
        assert message.startswith("GPU 1 of node n1: its PCIe link repeated ")
        assert listed == [message]
        assert START_MS - 5 * MINUTE_MS <= found["since_ms"] < START_MS + 20 * MINUTE_MS
        assert (await gateway.call("GET", "/v1/nodes/n1")).body["unhealthy_gpus"] == []

        async with running_handler(settings, InItsTime()):
            await publish("t3", *(report(minute, 400) for minute in range(20, 140)))
            await until(is_over)

    rows = database.execute("SELECT count(*) FROM gateway.device_trend WHERE NOT is_open")
    assert rows.strip() == "1"
    of_usage = "SELECT count(*) FROM monitoring.inbox WHERE topic = 'usage.facts.v1'"
    assert database.execute(of_usage).strip() == "0"
