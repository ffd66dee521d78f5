"""The id of a topic: another one after the topic was deleted and made again.

aiokafka asks for metadata in a version without ids, so the request is written out here, and goes
over the connection of the consumer that reads the topic.
Source: KIP-516 (topic ids); Kafka protocol, Metadata, version 10 (brokers from 2.8 on).
"""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import NodeNotReadyError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

_METADATA: Final = 3
_VERSION: Final = 10
_NO_ID: Final = bytes(16)


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka is untyped
    """16 bytes as they are."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class _Answer(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = _METADATA
    API_VERSION = _VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync_replicas", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _Question(RequestStruct):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = _METADATA
    API_VERSION = _VERSION
    RESPONSE_TYPE = _Answer
    FLEXIBLE_VERSION = True
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicRequest(Request[_Question]):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = _METADATA

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, request_struct_class: type[_Question]) -> _Question:
        return request_struct_class([(_NO_ID, self._name, {})], False, False, False, {})  # noqa: FBT003  # fields of the protocol, by position


async def topic_id(consumer: AIOKafkaConsumer, name: str) -> str:
    """Id of the topic `name`, as kafka-topics tells it; "" by a broker that gives none.

    Raises:
        KafkaError: there is no such topic, it may not be described, or no broker answers.
    """
    answer = await _ask(consumer._client, _TopicRequest(name))  # noqa: SLF001  # its connections
    error_code, _, found, *_ = answer.topics[0]
    if error_code:
        raise for_code(error_code)(name)
    return "" if found == _NO_ID else base64.urlsafe_b64encode(found).decode().rstrip("=")


async def _ask(client: Any, request: _TopicRequest) -> Any:  # noqa: ANN401  # aiokafka is untyped
    """The answer of the first broker that can be reached."""
    for broker in client.cluster.brokers():
        try:
            return await client.send(broker.nodeId, request)
        except NodeNotReadyError:
            continue
    raise NodeNotReadyError("no broker can be reached")
