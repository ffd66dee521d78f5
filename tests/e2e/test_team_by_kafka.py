"""A team comes in by Kafka with nothing but what the API told it, on a whole secured system."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from deploy.local.services import KAFKA_ROLES
from deploy.local.system import LocalSystem
from operations.replay.submitting import headers_of
from shared.adapters.kafka.client import options
from tests.support.kafka_access import team_access
from tests.support.system import Stage, launch

SECONDS_MAX = 10.0
SPEC = {"name": "train", "kind": "training", "pod_sets": [{"gpu": {"count": 1}}]}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    system = launch(tmp_path_factory.mktemp("team") / "system", leave_out=("fleet", "monitoring"))
    yield system
    system.discard()


async def submit(system: LocalSystem, user: dict[str, Any], key: str) -> dict[str, Any]:
    """Write one submission as the team, and wait for the answer as a member of its group."""
    access = team_access(system.kafka, user)
    value = json.dumps({"spec": SPEC, "door": "kafka"}).encode()
    async with AIOKafkaProducer(**options(access), acks="all") as producer:
        await producer.send_and_wait(user["submissions_topic"], value, headers=headers_of(key))
    consumer = AIOKafkaConsumer(
        user["results_topic"],
        **options(access),
        group_id=user["consumer_group"],
        auto_offset_reset="earliest",
    )
    async with asyncio.timeout(SECONDS_MAX), consumer:
        answer: dict[str, Any] = json.loads((await consumer.getone()).value)
        return answer


async def test_a_new_team_submits_within_seconds(system: LocalSystem):
    stage = Stage(system)
    await stage.connect()
    await stage.organise()

    started = time.monotonic()
    async with stage.api.patch("/v1/teams/red", json={}) as reply:
        user = (await reply.json())["kafka_user"]
    answer = await submit(system, user, "first")
    seconds = time.monotonic() - started

    await stage.disconnect()
    print(f"the team's first answer came {seconds:.2f} s after it was asked for: {answer}")
    assert answer["workload_id"]
    assert seconds < SECONDS_MAX
    texts = secrets_of(system) | {user["password"]}
    assert [] == [(path.name, text) for path in logs(system) for text in leaks(path, texts)]


def secrets_of(system: LocalSystem) -> set[str]:
    found = system.kafka.passwords(KAFKA_ROLES).values()
    passwords = {one.get_secret_value() for one in found}
    return passwords | {system.kafka.administrator.password.get_secret_value()}


def logs(system: LocalSystem) -> list[Path]:
    found = [*(system.folder / "logs").glob("*.log"), system.folder / "kafka" / "kafka.log"]
    assert len(found) > 5
    return found


def leaks(path: Path, secrets: set[str]) -> list[str]:
    text = path.read_text(errors="replace")
    return [secret for secret in secrets if secret in text]
