"""Logs from a real API server: a pod's lines arrive as they are written, and nobody else's."""

import asyncio
import itertools
import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from services.gateway.http.authorisation import Role, Subject
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.pod_logs import KubernetesPodLogs
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient
from shared.ports.pod_logs import LogRequest, LogsMissing, NoLogs
from tests.contract.cluster_worlds import a_pod, bind, create, running
from tests.kube.kube_world import KubeWorld, on_kubernetes
from tests.support.bare_gateway import Parts, served

SECONDS = 60
BYTES_MAX = 1 << 20
_numbers = itertools.count(1)


@dataclass
class Reading:
    """A cluster with pods of one Muster, and the reader of their logs."""

    world: KubeWorld
    logs: KubernetesPodLogs
    instance: str


@pytest.fixture
async def reading(kube):
    instance = f"logs-{os.getpid()}-{next(_numbers)}"
    async with on_kubernetes(kube, instance) as world:
        config = str(kube.kubeconfig("gateway"))
        logs = KubernetesPodLogs(KubernetesSettings(config=config, instance=instance))
        try:
            yield Reading(world, logs, instance)
        finally:
            await logs.close()


def write(kube, *lines):
    """Have every container write so, in the format of the container runtime interface."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with (kube.folder / "pods.log").open("a") as file:
        file.writelines(f"{moment} stdout F {line}\n" for line in lines)


def wanted(**fields):
    defaults: dict[str, Any] = {"workload_id": "w1", "attempt": 1, "bytes_max": BYTES_MAX}
    return LogRequest(**(defaults | fields))


async def read(reading, **fields):
    async with reading.logs.read(wanted(**fields)) as pieces:
        return b"".join([piece async for piece in pieces]).decode()


async def test_what_a_pod_has_written_is_read_and_its_end_alone(reading, kube):
    await running(reading.world)
    write(kube, "epoch 1", "epoch 2 é", "epoch 3")

    assert (await read(reading)).endswith("epoch 1\nepoch 2 é\nepoch 3\n")
    assert "epoch 2 é\nepoch 3\n" == await read(reading, tail_lines=2)
    assert "epoch 3\n" in await read(reading, since_seconds=600)


async def test_no_more_bytes_come_than_are_wanted(reading, kube):
    await running(reading.world)
    write(kube, "x" * 200)

    assert 100 == len(await read(reading, tail_lines=1, bytes_max=100))


@pytest.mark.parametrize("other", [{"rank": 1}, {"attempt": 2}, {"workload_id": "w2"}])
async def test_of_a_pod_that_is_not_there_it_is_told_what_to_do(reading, other):
    await running(reading.world)

    with pytest.raises(NoLogs, match="deleted when an attempt ends") as raised:
        await read(reading, **other)
    assert LogsMissing.GONE is raised.value.missing


async def test_a_pod_of_another_muster_is_not_there(reading, kube):
    await running(reading.world)
    settings = KubernetesSettings(config=str(kube.kubeconfig("gateway")), instance="another")
    others = KubernetesPodLogs(settings)

    try:
        with pytest.raises(NoLogs):
            async with others.read(wanted()):
                pass
    finally:
        await others.close()


async def test_a_container_that_has_not_started_is_told_from_one_that_is_gone(reading):
    await reading.world.one(create(a_pod()))

    with pytest.raises(NoLogs) as raised:
        await read(reading)
    assert LogsMissing.NOT_STARTED is raised.value.missing


async def test_a_server_that_cannot_be_reached_is_transient(kube, tmp_path):
    nobody = tmp_path / "kubeconfig"
    text = kube.kubeconfig("gateway").read_text()
    server = text.partition("https://127.0.0.1:")[2].split()[0].strip("\"',")
    nobody.write_text(text.replace(server, "1"))
    logs = KubernetesPodLogs(KubernetesSettings(config=str(nobody)))

    with pytest.raises(Transient):
        async with logs.read(wanted()):
            pass
    await logs.close()


class Team(Parts):
    """A viewer of team red, whose workload w1 runs."""

    state = "running"

    async def authenticate(self, text):  # type: ignore[explicit-override]  # new in Python 3.12
        return Subject(name="mk", team="red", role=Role.VIEWER)

    async def fetch(self, statement, *arguments):  # type: ignore[explicit-override]  # new in Python 3.12
        row = {"id": "w1", "team": "red", "state": self.state, "attempt": 1}
        return [row] if arguments == ("w1",) else []


async def test_lines_arrive_through_the_gateway_as_they_are_written_and_end_with_the_pod(
    reading, kube
):
    team, lines = Team(), []
    settings = SimpleNamespace(
        cell=0, streams_max=1, team_streams_max=1, logs_bytes_max=BYTES_MAX, logs_seconds_max=600
    )
    more: dict[str, Any] = {
        "pod_logs": reading.logs,
        "settings": settings,
        "streams": Counter(),
        "closing": False,
    }
    more["clock"] = SystemClock()
    headers = {"Authorization": "Bearer mk_x"}
    async with (
        asyncio.timeout(SECONDS),
        served(team, **more) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as http,
    ):
        await reading.world.one(create(a_pod()))
        async with http.get("/v1/workloads/w1/logs?follow=true&tail=0") as response:
            assert 200 == response.status  # before the container has started
            await bind_and_run(reading.world)
            marker = f"line of {reading.instance}"
            writing = asyncio.create_task(write_on(kube, marker))
            async for line in response.content:
                lines.append(line.decode().rstrip())
                if lines.count(marker) == 3:
                    writing.cancel()
                    team.state = "succeeded"
    assert lines.count(marker) >= 3


async def bind_and_run(world):
    pod = (await world.pods())["w1-1-0"]
    assert 201 == (await world.one(bind(pod, world.nodes[0]))).status
    await world.until("w1-1-0", lambda one: one.phase == "Running")


async def write_on(kube, line):
    """The same line twice a second, until it is cancelled."""
    while True:
        write(kube, line)
        await asyncio.sleep(0.5)
