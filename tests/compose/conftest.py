"""The stack that the tests of docker-compose.yml share, and a team in it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from deploy.local import compose
from deploy.local.compose_servers import LOOPBACK
from muster import Client
from muster.errors import MusterError
from shared.simulator.fleet.description import NODES_DEFAULT
from tests.compose.stack import Stack, eventually

ADDRESS = f"http://{LOOPBACK}:{compose.HTTP_PORT}"
TEAM, FLAVOR = "vision", "h100"
PRODUCT = "NVIDIA-H100-80GB-HBM3"
AMOUNTS = {"gpu_milli": 64_000, "cpu_milli": 10**6, "memory_mib": 10**7}
START_SECONDS = 120


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The file as it is, up and healthy; gone at the end, whatever happened."""
    stack = Stack()
    assert [] == stack.left(), "a project muster is up already: docker compose down --volumes"
    try:
        stack.up()
        yield stack
    except BaseException:
        print(stack.logs())
        raise
    finally:
        stack.down()


@pytest.fixture(scope="session")
def client(stack: Stack) -> Iterator[Client]:
    """The published key at the published address."""
    with Client(ADDRESS, compose.KEY) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Team:
    """A team with quota for eight nodes of eight GPUs."""

    client: Client
    kafka_user: dict[str, Any]

    def state(self, workload_id: str) -> str:
        """The state of a workload; "" while nothing is known of it."""
        try:
            return str(self.client.get(workload_id)["state"])
        except MusterError:
            return ""

    def runs(self, workload_id: str) -> float:
        """Wait until a workload runs or has run; the seconds it took."""
        return eventually(
            lambda: self.state(workload_id) in {"running", "succeeded"},
            seconds=START_SECONDS,
            what=f"{workload_id} to run",
        )


@pytest.fixture(scope="session")
def team(client: Client) -> Team:
    """Made through the published door, once the whole fleet is known there."""
    eventually(lambda: fleet_is_known(client), seconds=START_SECONDS, what="the fleet")
    apply(f"flavors/{FLAVOR}", {"products": [PRODUCT]})
    made = apply(f"teams/{TEAM}", {"default_queue": TEAM})
    flavors = [{"flavor": FLAVOR, "nominal": AMOUNTS}]
    apply(f"queues/{TEAM}", {"team": TEAM, "flavors": flavors})
    return Team(client, made["kafka_user"])


def fleet_is_known(client: Client) -> bool:
    """Whether the gateway has read of the fleet's last node: of a part it knows no names yet."""
    return len(client.listing("nodes")) == NODES_DEFAULT


def apply(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Make a document of the organisation so; the answer."""
    headers = {"Authorization": f"Bearer {compose.KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{ADDRESS}/v1/{path}", json.dumps(body).encode(), headers, method="PATCH"
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            answer: dict[str, Any] = json.load(reply)
    except urllib.error.HTTPError as error:
        pytest.fail(f"PATCH {path}: {error.code} {error.read().decode()}")
    return answer


def gang(name: str) -> dict[str, Any]:
    """Two pods of eight GPUs that run for ten seconds."""
    return {
        "name": name,
        "kind": "training",
        "pod_sets": [{"name": "worker", "count": 2, "gpu": {"count": 8}}],
        "gpu_choice": {"products": [PRODUCT]},
        "expected_duration_seconds": 10,
    }
