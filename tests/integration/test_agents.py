"""Node agents on a stand-in of NVML, a real broker, and monitoring that hears them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.kafka import KafkaSubscription
from shared.adapters.kafka.topics import create_topics
from shared.events.codec import decode
from shared.events.nodes import GpuHealthReported, HealthEventReported, NodeHeard, NodeSilent
from shared.events.topics import HEALTH_FACTS, NODE_FACTS, TOPICS, USAGE_FACTS, Topic
from shared.ports.kafka_access import KafkaAccess
from tests.fixtures.servers import Database
from tests.support.agents import AgentProcess, MonitoringProcess, until
from tests.support.lost_log import trim
from tests.support.nvml.boards import h100, t4

Start = Callable[..., AgentProcess]
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP{"
SEEN_SECONDS = 2
"""An agent reads its GPUs every second."""


@pytest.fixture
def start(kafka: str, topic_prefix: str, tmp_path: Path) -> Iterator[Start]:
    asyncio.run(create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, TOPICS))
    agents: list[AgentProcess] = []

    def begin(name: str, state: dict[str, object], **more: str) -> AgentProcess:
        agents.append(AgentProcess(kafka, topic_prefix, tmp_path / name, state, **more))
        return agents[-1]

    yield begin
    for one in agents:
        one.end()


@pytest.fixture
def monitoring(kafka: str, database: Database, topic_prefix: str) -> Iterator[MonitoringProcess]:
    one = MonitoringProcess(kafka, database, topic_prefix)
    yield one
    one.end(signal.SIGKILL)


def told(kafka: str, prefix: str, topic: Topic) -> list[Any]:
    """All payloads on the topic now."""

    async def read() -> list[Any]:
        subscription = KafkaSubscription(KafkaAccess(bootstrap=kafka), prefix)
        try:
            logs = await subscription.assign({(topic.name, 0): None})
            end = logs[topic.name, 0].end_offset
            found: list[Any] = []
            while len(found) < end:
                for raw in await subscription.poll(100, 1.0):
                    place = (raw.topic, raw.partition, raw.offset)
                    found.append(decode(*place, raw.headers, raw.value).event.payload)
            return found
        finally:
            await subscription.close()

    return asyncio.run(read())


def test_errors_changes_and_lost_devices_reach_the_log_and_the_metrics(
    kafka: str, topic_prefix: str, start: Start
) -> None:
    def facts() -> list[Any]:
        return told(kafka, topic_prefix, NODE_FACTS)

    agent = start("n1", h100())
    until(lambda: len(agent.metric(TEMPERATURE)) == 8, "eight GPUs are exposed")

    agent.stand_in.happen(3, 8, 79)
    seconds = until(lambda: bool(agent.metric("muster_gpu_xid_total{")), "the XID is counted")
    assert seconds < SEEN_SECONDS
    agent.stand_in.write(gpu__0__temperature=91)
    seconds = until(lambda: 91 in agent.metric(TEMPERATURE).values(), "the heat is exposed")
    assert seconds < SEEN_SECONDS
    agent.stand_in.write(gpu__5__lost=1)
    until(lambda: len(agent.metric(TEMPERATURE)) == 7, "the lost GPU has no values")
    until(lambda: any(isinstance(one, GpuHealthReported) for one in facts()), "its loss is told")

    events = [one for one in facts() if isinstance(one, HealthEventReported)]
    assert [(one.node, one.gpu, one.kind, one.code) for one in events if one.gpu >= 0] == [
        ("n1", 3, "xid", 79),
        ("n1", 5, "lost", 0),
    ]
    (health,) = [one for one in facts() if isinstance(one, GpuHealthReported)]
    assert (health.gpu, health.healthy) == (5, False)
    assert agent.end() == 0


def test_a_hung_driver_does_not_hang_the_agent(start: Start) -> None:
    agent = start("n1", h100(), MUSTER_NVML_DEADLINE_SECONDS="2")
    until(lambda: len(agent.metric(TEMPERATURE)) == 8, "eight GPUs are exposed")

    agent.stand_in.write(gpu__2__hang__nvmlDeviceGetFieldValues=1)

    until(lambda: len(agent.metric(TEMPERATURE)) == 7, "the neighbours are exposed")
    agent.stand_in.write(gpu__2__hang__nvmlDeviceGetFieldValues=None)
    until(lambda: len(agent.metric(TEMPERATURE)) == 8, "it is back by itself")


def test_a_stopped_agent_is_told_as_silent_and_nobody_is_while_monitoring_is_away(
    kafka: str,
    topic_prefix: str,
    database: Database,
    start: Start,
    monitoring: MonitoringProcess,
) -> None:
    def reports() -> list[Any]:
        return told(kafka, topic_prefix, USAGE_FACTS)

    agents = [start(f"n{one}", t4()) for one in (1, 2, 3)]
    monitoring.start()
    until(lambda: monitoring.metric("muster_nodes_silent") == {"muster_nodes_silent": 0}, "up")
    for one in agents:
        until(lambda one=one: bool(one.metric(TEMPERATURE)), "values")  # type: ignore[misc]
    until(lambda: {one.node for one in reports()} == {"n1", "n2", "n3"}, "all three report")
    end = len(reports())
    offset = (
        f"SELECT next_offset FROM monitoring.consumer_offset WHERE topic = '{USAGE_FACTS.name}'"
    )
    until(lambda: int(database.execute(offset) or 0) >= end, "they are heard")
    monitoring.end()
    agents[0].signal(signal.SIGSTOP)
    monitoring.start()

    until(lambda: monitoring.metric("muster_nodes_silent") == {"muster_nodes_silent": 1}, "s", 60)
    agents[0].signal(signal.SIGCONT)
    until(lambda: monitoring.metric("muster_nodes_silent") == {"muster_nodes_silent": 0}, "h")

    def facts() -> list[Any]:
        return told(kafka, topic_prefix, HEALTH_FACTS)

    until(lambda: len(facts()) == 2, "both are told")
    silent, heard = facts()
    assert (type(silent), type(heard)) == (NodeSilent, NodeHeard)
    assert (silent.node, heard.node) == ("n1", "n1")
    assert silent.silent_ms >= 30_000
    of_usage = f"SELECT count(*) FROM monitoring.inbox WHERE topic = '{USAGE_FACTS.name}'"
    assert database.execute(of_usage).strip() == "0"
    assert len(reports()) > 50


def test_reports_that_were_removed_unread_are_no_loss(
    kafka: str, topic_prefix: str, start: Start, monitoring: MonitoringProcess
) -> None:
    agent = start("n1", t4())
    used = "muster_gpu_utilization_ratio"
    monitoring.start()
    until(lambda: bool(monitoring.metric(used + "{")), "use is told")
    monitoring.end()
    read = len(told(kafka, topic_prefix, USAGE_FACTS))
    until(lambda: len(told(kafka, topic_prefix, USAGE_FACTS)) > read + 2, "more reports")
    access = KafkaAccess(bootstrap=kafka)
    asyncio.run(trim(access, topic_prefix, USAGE_FACTS, read + 2))

    monitoring.start()

    until(lambda: bool(monitoring.metric(used + "{")), "use is told again")
    assert monitoring.metric("muster_log_lost") == {}
    assert agent.end() == 0
