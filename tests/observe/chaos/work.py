"""Faults of work: GPUs that nobody uses or that are in pieces, a queue that stands, a leak."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from shared.adapters.kafka.admin_client import Administration
from shared.adapters.kafka.client import options
from shared.core.model.nouns import Gpu, Node, WorkloadKind
from shared.events.envelope import workload_id
from shared.events.grants import FLEET
from shared.events.nodes import GpuUsageReported
from shared.events.topics import USAGE_FACTS
from tests.observe import live
from tests.observe.chaos.faults import Scene, raises
from tests.support.system import TEAM, now_ms
from tests.support.work import record

LEAKY: Final = "leaky"
"""A node of its own flavor, whose agent is played here."""
SERVING: Final = "agent-b"
"""A node with an agent on the stand-in of NVML, of its own flavor, too."""
QUEUES: Final = {TEAM: "default", "small": "default", LEAKY: LEAKY, SERVING: SERVING}
HOURS: Final = 7
"""Half an hour to be warm, and six that are judged."""
MINUTES_BETWEEN: Final = 2
MIB_PER_HOUR: Final = 2_000
GPU_MEMORY_MIB: Final = 81_559
FULL_MIB: Final = 14_000
"""Of the 15 GiB of a T4."""


async def fill(scene: Scene, turn: int) -> str:
    """Hold half of the fleet and use it: what is free is less than the alert wants; its id."""
    filler = await live.submit(scene.stage, f"filler-{turn}", gpus=4, pods=3)
    await scene.stage.reaches(filler, "running", 60)
    return filler


@raises("GpuIdleWhileHeld", "TeamUseLow", "GangsCannotFit", alone=True)
async def idle(scene: Scene) -> AsyncIterator[None]:
    """The work of a team stops to compute, and other work leaves its GPUs in pieces."""
    filler = await live.submit(scene.stage, "idle", gpus=1, use=0)
    await scene.stage.command(workload_id(TEAM, "filler-0"), "cancel")
    await scene.stage.reaches(filler, "running", 60)
    yield
    await scene.stage.command(filler, "cancel")
    await fill(scene, 1)


@raises("BudgetAt80", "BudgetSpent")
async def spent_budget(scene: Scene) -> AsyncIterator[None]:
    """A team may spend nothing in this month; it is told, and its work goes on."""
    await scene.stage.put(f"teams/{TEAM}", {"budget": {"gpu_hours_per_month": 0}})
    yield
    await scene.stage.put(f"teams/{TEAM}", {"budget": live.BUDGET})


@raises("QueueStarved")
async def held_queue(scene: Scene) -> AsyncIterator[None]:
    """What is first in a queue that is held waits although GPUs are free."""
    await scene.stage.put("queues/small", {"held": True})
    waits = await live.submit(scene.stage, "starved", 1, queue="small")
    yield
    await scene.stage.command(waits, "cancel")
    await scene.stage.put("queues/small", {"held": None})


@raises("GpuMemoryLeak")
async def leak(scene: Scene) -> AsyncIterator[None]:
    """What a GPU has used within the last hours; its agent tells of them as if they had been."""
    grows = await _on_own_node(scene, LEAKY, WorkloadKind.TRAINING)
    async with _times_of_writers(scene):
        await _tell_past(scene)
        yield
    await scene.stage.command(grows, "cancel")


@raises("ServingMemoryLow")
async def full_memory(scene: Scene) -> AsyncIterator[None]:
    """What serves fills the memory of its GPU."""
    serves = await _on_own_node(scene, SERVING, WorkloadKind.INFERENCE)
    board = scene.live.agents[SERVING].stand_in
    before = board.state["gpu.0.used_mib"]
    board.set({"gpu.0.used_mib": FULL_MIB})
    yield
    board.set({"gpu.0.used_mib": before})
    await scene.stage.command(serves, "cancel")


async def _on_own_node(scene: Scene, name: str, kind: WorkloadKind) -> str:
    """Work that runs on a node with one GPU, both of the flavor of this name; its id."""
    gpus = (Gpu(index=0, uuid=f"GPU-{name}", memory_mib=GPU_MEMORY_MIB),)
    node = Node(name=name, flavor=name, product="", cpu_milli=8_000, memory_mib=8_192, gpus=gpus)
    await scene.stage.nodes([node])
    work = await live.submit(scene.stage, f"on-{name}", 1, queue=name, kind=kind)
    await scene.stage.reaches(work, "running", 60)
    return work


@asynccontextmanager
async def _times_of_writers(scene: Scene) -> AsyncIterator[None]:
    """Records of use have the times that their writers say, not those of the broker's clock."""
    administration = Administration(scene.live.system.kafka.administrator)
    topic = USAGE_FACTS.on_broker("muster")
    for value in ("CreateTime", "LogAppendTime"):
        entry = ConfigEntry(
            "message.timestamp.type", value, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        administration.configure([resource])
        if value == "CreateTime":
            yield


async def _tell_past(scene: Scene) -> None:
    producer = AIOKafkaProducer(**options(scene.live.system.kafka.access(FLEET)))
    await producer.start()
    try:
        for number, (at_ms, fact) in enumerate(_past(now_ms())):
            row = record(fact, USAGE_FACTS, LEAKY, f"leaky-{number}", at_ms, number)
            await producer.send_and_wait(
                USAGE_FACTS.on_broker("muster"),
                row.value,
                key=LEAKY.encode(),
                partition=0,
                timestamp_ms=at_ms,
                headers=row.headers,
            )
    finally:
        await producer.stop()


def _past(until_ms: int) -> Iterator[tuple[int, GpuUsageReported]]:
    """Reports of the hours before."""
    for minutes in range(HOURS * 60, -1, -MINUTES_BETWEEN):
        at_ms = until_ms - minutes * 60_000
        used_mib = 10_000 + MIB_PER_HOUR * (HOURS * 60 - minutes) // 60
        readings: dict[str, Any] = {
            "utilization_percent": (90,),
            "memory_used_mib": (used_mib,),
            "temperature_celsius": (60,),
            "power_watts": (500,),
        }
        yield at_ms, GpuUsageReported(node=LEAKY, at_ms=at_ms, **readings)
