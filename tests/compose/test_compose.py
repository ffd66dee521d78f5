"""docker-compose.yml runs as it is: work comes in by both doors, and goes on after crashes.

The tests follow one stack through its life, in the order in which they stand here.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from pydantic import SecretStr

from deploy.local import compose
from deploy.local.compose_servers import KAFKA_PORT, LOOPBACK
from deploy.local.services import GATEWAY, KAFKA, POSTGRES, SERVICES
from operations.replay.submitting import headers_of
from shared.adapters.kafka.client import options
from shared.events.envelope import workload_id
from shared.ports.kafka_access import KafkaAccess, SecurityProtocol
from tests.compose.conftest import TEAM, Team, gang
from tests.compose.stack import Stack, eventually

pytestmark = pytest.mark.compose
RESTART_SECONDS = 120


def test_what_is_said_to_be_up_is_healthy(stack: Stack):
    everything = [KAFKA, POSTGRES, *(row.name for row in SERVICES)]

    assert [] == [name for name in everything if not stack.healthy(name)]


def test_ports_are_published_on_the_loopback_alone(stack: Stack):
    published = {
        (name, inside, bound["HostIp"], bound["HostPort"])
        for name, one in stack.containers().items()
        for inside, bindings in one["NetworkSettings"]["Ports"].items()
        for bound in bindings or []
    }

    assert {
        (GATEWAY, "8080/tcp", LOOPBACK, "8080"),
        (KAFKA, "9094/tcp", LOOPBACK, "9092"),
    } == published


def test_a_gang_submitted_over_http_runs(team: Team):
    accepted = team.client.submit(gang("by-http"), team=TEAM)

    print(f"a gang over HTTP ran after {team.runs(accepted['id']):.1f} s")


def test_a_gang_submitted_over_kafka_from_the_host_runs(team: Team):
    asyncio.run(submit_by_kafka(team.kafka_user, "by-kafka"))

    print(f"a gang over Kafka ran after {team.runs(workload_id(TEAM, 'by-kafka')):.1f} s")


async def submit_by_kafka(user: dict[str, Any], key: str) -> None:
    """Write a gang to the team's topic as a client outside of the network of containers."""
    access = KafkaAccess(
        bootstrap=f"{LOOPBACK}:{KAFKA_PORT}",
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        user=user["user"],
        password=SecretStr(user["password"]),
    )
    value = json.dumps({"spec": gang(key), "door": "kafka"}).encode()
    async with AIOKafkaProducer(**options(access), acks="all") as producer:
        await producer.send_and_wait(user["submissions_topic"], value, headers=headers_of(key))


def test_both_commands_are_in_the_image(stack: Stack, team: Team):
    listed = stack.compose("exec", "-T", GATEWAY, "muster", "queue", "-t", TEAM, "--all")
    checked = stack.compose("run", "--rm", "-T", "operations", "muster-ops", "check")

    assert "by-http" in listed
    assert "records of the log read" in checked


def test_modules_in_the_image_are_compiled(stack: Stack):
    script = (
        "import importlib.util as u, pathlib as p;"
        "print(p.Path(u.cache_from_source(u.find_spec('services.gateway').origin)).exists())"
    )

    assert "True" == stack.compose("exec", "-T", GATEWAY, "python", "-c", script)


def test_work_goes_on_after_broker_and_database_crash(stack: Stack, team: Team):
    stack.crash(KAFKA)
    stack.crash(POSTGRES)
    seconds = eventually(
        lambda: all(map(stack.came_back, (KAFKA, POSTGRES))) and stack.healthy(GATEWAY),
        seconds=RESTART_SECONDS,
        what="broker and database to be started again by the engine, and the gateway healthy",
    )
    accepted = team.client.submit(gang("after-the-crash"), team=TEAM)

    print(f"healthy {seconds:.1f} s after both were killed")
    print(f"the next gang ran {team.runs(accepted['id']):.1f} s later")


def test_nothing_is_left_when_it_is_down(stack: Stack):
    stack.down()

    assert [] == stack.left()
    with socket.socket() as probe:
        assert 0 != probe.connect_ex((LOOPBACK, compose.HTTP_PORT))
