"""Tries what a user of a broker may do, by real clients."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from pydantic import SecretStr

from deploy.local.kafka import LocalKafka
from shared.adapters.kafka.client import options
from shared.events.topics import Topic
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow

SECONDS_MAX = 40.0


def wrong_password(access: KafkaAccess) -> KafkaAccess:
    """The same user with a password that is not his."""
    return replace(access, password=SecretStr("not this one"))


def team_access(broker: LocalKafka, user: dict[str, Any]) -> KafkaAccess:
    """The login in the gateway's answer about a team's user."""
    return replace(broker.administrator, user=user["user"], password=SecretStr(user["password"]))


async def may_write(access: KafkaAccess, names: list[str]) -> set[str]:
    """Those of the topics to which a record can be written."""
    allowed = set()
    async with asyncio.timeout(60), AIOKafkaProducer(**options(access), acks="all") as producer:
        for name in names:
            try:
                await producer.send_and_wait(name, b"{}", partition=0)
            except TopicAuthorizationFailedError:
                continue
            allowed.add(name)
    return allowed


async def may_read(access: KafkaAccess, names: list[str]) -> set[str]:
    """Those of the topics, each of which has a record, from which one can be read."""
    async with asyncio.timeout(60):
        return {name for name in names if await _reads(access, name)}


async def _reads(access: KafkaAccess, name: str) -> bool:
    consumer = AIOKafkaConsumer(**options(access), auto_offset_reset="earliest")
    async with consumer:
        place = TopicPartition(name, 0)
        if not consumer.partitions_for_topic(name) and name not in await consumer.topics():
            return False  # it may not even know of it
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                return bool((await consumer.getone()).value)
        except (TopicAuthorizationFailedError, KafkaTimeoutError):
            return False


async def may_join(access: KafkaAccess, name: str, group: str) -> bool:
    """Whether a topic can be read as a member of a consumer group."""
    consumer = AIOKafkaConsumer(
        name, **options(access), group_id=group, auto_offset_reset="earliest"
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await consumer.start()
            return bool((await consumer.getone()).value)
    except GroupAuthorizationFailedError:
        return False
    finally:
        await consumer.stop()


def a_row(topic: Topic) -> OutboxRow:
    """Something to publish."""
    return OutboxRow(
        seq=1, event_id="e1", topic=topic.name, partition=0, key="k", headers=[], value=b"{}"
    )
