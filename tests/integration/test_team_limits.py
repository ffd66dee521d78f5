"""What a team may take of the broker: quotas of its user, sizes of its topics."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient, ConfigResource

from deploy.local.kafka import LocalKafka
from services.gateway.organisation import team_limits
from shared.adapters.kafka.admin_client import Administration, settings_of
from shared.adapters.kafka.administration import admit_team, make_grants_so
from shared.adapters.kafka.client import options
from shared.adapters.kafka.quotas import NO_QUOTA, quota_of, set_quotas
from shared.adapters.kafka.topic_sizes import limit_topics
from shared.adapters.kafka.topics import create_topics
from shared.events.grants import grants, principal_of_team
from shared.events.topics import DEAD_LETTER_SUFFIX, team_results, team_submissions
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, UserQuota
from tests.fixtures.servers import Database
from tests.support.gateway import Gateway, running_gateway, until
from tests.support.kafka_access import team_access

QUOTA = UserQuota(write_bytes_per_second=40_000, read_bytes_per_second=900_000, request_percent=30)
MIB = 1 << 20
CHOSEN = {
    "team_write_bytes_per_second": QUOTA.write_bytes_per_second,
    "team_read_bytes_per_second": QUOTA.read_bytes_per_second,
    "team_request_percent": QUOTA.request_percent,
    "team_topic_bytes_max": 256 * MIB,
}


@contextlib.asynccontextmanager
async def gateway_of(
    broker: LocalKafka, database: Database, prefix: str, **chosen: Any
) -> AsyncIterator[Gateway]:
    own, teams = broker.access("gateway"), broker.access("teams")
    async with running_gateway(
        own.bootstrap,
        database.url("gateway"),
        prefix,
        administrator=broker.administrator,
        kafka_security_protocol=own.protocol,
        kafka_user=own.user,
        kafka_password=own.password,
        kafka_admin_user=teams.user,
        kafka_admin_password=teams.password,
        **chosen,
    ) as running:
        yield running


@pytest.fixture
async def prefix(secured_kafka: LocalKafka, topic_prefix: str) -> str:
    """That of a broker with the rules of the table."""
    await make_grants_so(secured_kafka.administrator, grants(topic_prefix))
    return topic_prefix


def configs(access: KafkaAccess, name: str) -> dict[str, str]:
    """What the broker says of a topic."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, name)
    client = AdminClient(settings_of(access))
    (answer,) = client.describe_configs([asked]).values()
    return {one.name: one.value for one in answer.result(10).values()}


def sizes(broker: LocalKafka, prefix: str, team: str) -> list[tuple[int, int]]:
    """`retention.bytes` and `segment.bytes` of all topics of a team."""
    names = [one.on_broker(prefix) for one in (team_submissions(team), team_results(team))]
    found = [
        configs(broker.administrator, name)
        for name in [*names, *(name + DEAD_LETTER_SUFFIX for name in names)]
    ]
    return [(int(one["retention.bytes"]), int(one["segment.bytes"])) for one in found]


async def quota_becomes(broker: LocalKafka, user: str, wanted: UserQuota) -> None:
    """Wait until the broker keeps it."""

    async def is_so() -> bool:
        return wanted == await quota_of(broker.administrator, user)

    await until(is_so)


async def topics_become_small(broker: LocalKafka, prefix: str) -> None:
    """Wait until all topics of the team are limited."""

    async def are_small() -> bool:
        found = await asyncio.to_thread(sizes, broker, prefix, "red")
        return found == [(256 * MIB, 32 * MIB)] * 4

    await until(are_small)


async def test_a_new_team_is_limited_and_one_that_is_gone_is_not(
    secured_kafka: LocalKafka, database: Database, prefix: str
):
    user = principal_of_team("red", prefix)
    async with gateway_of(secured_kafka, database, prefix, **CHOSEN) as gateway:
        await gateway.call("PATCH", "/v1/teams/red", {})

        await quota_becomes(secured_kafka, user, QUOTA)
        assert [(256 * MIB, 32 * MIB)] * 4 == sizes(secured_kafka, prefix, "red")
        assert NO_QUOTA == await quota_of(secured_kafka.administrator, f"{user}-else")

        await gateway.call("PATCH", "/v1/teams/red", {"kafka": False})
        await quota_becomes(secured_kafka, user, NO_QUOTA)


async def test_teams_of_before_are_limited_at_the_start_of_a_gateway(
    secured_kafka: LocalKafka,
    database: Database,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
):
    user = principal_of_team("red", prefix)
    free = dict.fromkeys(CHOSEN, 0)
    async with gateway_of(secured_kafka, database, prefix, **free) as gateway:
        await gateway.call("PATCH", "/v1/teams/red", {})
        await gateway.call("PATCH", "/v1/teams/blue", {"kafka": False})
    assert NO_QUOTA == await quota_of(secured_kafka.administrator, user)
    assert {-1} == {most for most, _ in sizes(secured_kafka, prefix, "red")}

    monkeypatch.setattr(team_limits, "AGAIN_SECONDS", 0.2)
    async with gateway_of(secured_kafka, database, prefix, **CHOSEN):
        await quota_becomes(secured_kafka, user, QUOTA)
        await topics_become_small(secured_kafka, prefix)
        await set_quotas(secured_kafka.administrator, {user: NO_QUOTA})
        await quota_becomes(secured_kafka, user, QUOTA)
    none = principal_of_team("blue", prefix)
    assert NO_QUOTA == await quota_of(secured_kafka.administrator, none)
    hours = configs(secured_kafka.administrator, team_submissions("red").on_broker(prefix))
    assert str(96 * 3_600_000) == hours["retention.ms"]  # nothing else has changed


async def test_a_team_that_writes_too_much_waits(
    secured_kafka: LocalKafka, database: Database, prefix: str
):
    async with gateway_of(secured_kafka, database, prefix, **CHOSEN) as gateway:
        made = await gateway.call("PATCH", "/v1/teams/red", {})
        access = team_access(secured_kafka, made.body["kafka_user"])
        await quota_becomes(secured_kafka, access.user, QUOTA)
        topic = team_submissions("red").on_broker(prefix)

        async with AIOKafkaProducer(**options(access), acks="all") as producer:
            started = time.monotonic()
            for _ in range(8):  # of 100 kB, where 40 kB a second are allowed
                await producer.send_and_wait(topic, b"x" * 100_000, partition=0)

        assert time.monotonic() - started > 2.0


async def test_a_login_without_the_right_is_told_so(secured_kafka: LocalKafka, prefix: str):
    gateway, user = secured_kafka.access("gateway"), principal_of_team("red", prefix)
    topics = (team_submissions("red"), team_results("red"))
    await create_topics(secured_kafka.access("teams"), prefix, topics)
    await admit_team(secured_kafka.access("teams"), "red", prefix)

    with pytest.raises(Transient, match="ClusterAuthorizationFailed"):
        await set_quotas(gateway, {user: QUOTA})
    with pytest.raises(Transient, match="TOPIC_AUTHORIZATION_FAILED"):
        await limit_topics(gateway, prefix, topics, MIB)
    with pytest.raises(Transient, match="UNKNOWN_TOPIC_OR_PART"):
        await limit_topics(secured_kafka.access("teams"), prefix, [team_results("none")], MIB)


async def test_a_broker_that_is_away_is_told_of_in_time():
    nowhere = KafkaAccess(bootstrap="127.0.0.1:1")

    with pytest.raises(Transient, match=r"nobody at 127\.0\.0\.1:1"):
        await set_quotas(nowhere, {"x": QUOTA})


async def test_a_gateway_makes_topics_and_rules_of_teams_again(
    secured_kafka: LocalKafka,
    database: Database,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(team_limits, "TOPICS_SECONDS", 0.2)
    user = principal_of_team("red", prefix)
    names = [
        one.on_broker(prefix) + suffix
        for one in (team_submissions("red"), team_results("red"))
        for suffix in ("", DEAD_LETTER_SUFFIX)
    ]
    administrator = AdminClient(settings_of(secured_kafka.administrator))
    async with gateway_of(secured_kafka, database, prefix, **CHOSEN) as gateway:
        await gateway.call("PATCH", "/v1/teams/red", {})
        rules = Administration(secured_kafka.administrator)
        before = rules.found(principal=f"User:{user}")
        for deleted in administrator.delete_topics(names).values():
            deleted.result(10)
        rules.delete(before)

        async def are_there() -> bool:
            found = await asyncio.to_thread(administrator.list_topics, timeout=5)
            there = set(names) <= set(found.topics)
            return there and rules.found(principal=f"User:{user}") == before

        await until(are_there)
        await topics_become_small(secured_kafka, prefix)
