"""Topics as the settings want them, on a real broker."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from shared.adapters.kafka.topics import create_topics
from shared.events.topics import DEAD_LETTER_SUFFIX, TOPICS, WORKLOAD_FACTS
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, TopicCopies


def _create(kafka: str, prefix: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "MUSTER_KAFKA_BOOTSTRAP": kafka,
        "MUSTER_TOPIC_PREFIX": prefix,
        **settings,
    }
    command = [sys.executable, "-m", "shared.adapters.kafka.topics", "create"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _config(kafka: str, topic: str) -> dict[str, str]:
    client = AdminClient({"bootstrap.servers": kafka})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = client.describe_configs([resource]).values()
    return {name: entry.value for name, entry in future.result(10).items()}


def test_every_topic_tells_how_many_brokers_must_have_a_record(
    kafka: str, topic_prefix: str
) -> None:
    again = [_create(kafka, topic_prefix).returncode for _ in range(2)]

    assert [0, 0] == again
    for suffix in ("", DEAD_LETTER_SUFFIX):
        config = _config(kafka, WORKLOAD_FACTS.on_broker(topic_prefix) + suffix)
        assert "1" == config["min.insync.replicas"]
        assert "LogAppendTime" == config["message.timestamp.type"]


async def test_as_many_brokers_are_asked_for_as_the_settings_say(
    kafka: str, topic_prefix: str
) -> None:
    access = KafkaAccess(bootstrap=kafka)

    with pytest.raises(Transient, match=r"error 38 .*[Rr]eplication factor"):
        await create_topics(access, topic_prefix, TOPICS, copies=TopicCopies(3, 2))


def test_more_brokers_than_there_are_is_one_line(kafka: str, topic_prefix: str) -> None:
    done = _create(kafka, topic_prefix, MUSTER_TOPIC_REPLICATION="3")

    assert 1 == done.returncode
    assert done.stderr.startswith("topic ")
    assert 1 == done.stderr.count("\n"), done.stderr


def test_more_acknowledgements_than_copies_are_refused_before_the_broker_is_asked(
    topic_prefix: str,
) -> None:
    done = _create("127.0.0.1:9", topic_prefix, MUSTER_TOPIC_MIN_INSYNC_REPLICAS="2")

    assert 1 == done.returncode
    assert "must be at most topic_replication, which is 1" in done.stderr
    assert 1 == done.stderr.count("\n"), done.stderr
