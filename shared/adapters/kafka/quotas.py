"""Quotas of users on the broker: bytes written and read per second, and share of its threads.

Neither aiokafka nor librdkafka has the request that sets them (AlterClientQuotas, KIP-546), so its
two messages are defined here, by the tables of the protocol's guide, and sent over a connection of
aiokafka. Any broker takes it, and hands it to the controller. Setting what is set is no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import DescribeClientQuotasRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String

from shared.adapters.kafka.client import login
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, UserQuota

CALL_SECONDS: Final = 10.0
_USER: Final = "user"
_EXACT: Final = 0
"""Match type of a filter: the entity of this very name."""
_DO_IT: Final = False
"""Validate only."""


NO_QUOTA: Final = UserQuota()


async def set_quotas(access: KafkaAccess, quotas: Mapping[str, UserQuota]) -> None:
    """Give each user exactly its quota, in one request.

    Raises:
        Transient: the broker cannot be reached, or refuses.
    """
    if not quotas:
        return
    entries = [
        (
            [(_USER, user)],
            [(name, value, not value) for name, value in _values(quota).items()],
        )
        for user, quota in quotas.items()
    ]
    reply = await _ask(access, _AlterClientQuotasRequest(entries))
    for code, why, entity in reply.entries:
        if code:
            raise Transient(f"quota of {entity[0][1]}: {for_code(code).__name__} {why or ''}")


async def quota_of(access: KafkaAccess, user: str) -> UserQuota:
    """What the broker keeps of a user; raises Transient."""
    reply = await _ask(access, DescribeClientQuotasRequest([(_USER, _EXACT, user)], strict=True))
    if reply.error_code:
        why = reply.error_message or ""
        raise Transient(f"quota of {user}: {for_code(reply.error_code).__name__} {why}")
    values = {name: int(value) for _, found in reply.entries or () for name, value in found}
    return UserQuota(
        write_bytes_per_second=values.get("producer_byte_rate", 0),
        read_bytes_per_second=values.get("consumer_byte_rate", 0),
        request_percent=values.get("request_percentage", 0),
    )


def _values(quota: UserQuota) -> dict[str, float]:
    """By the broker's own names."""
    return {
        "producer_byte_rate": float(quota.write_bytes_per_second),
        "consumer_byte_rate": float(quota.read_bytes_per_second),
        "request_percentage": float(quota.request_percent),
    }


async def _ask(access: KafkaAccess, request: Any) -> Any:  # noqa: ANN401  # aiokafka is untyped
    """The answer of any broker of the address."""
    host, _, port = access.bootstrap.split(",")[0].rpartition(":")
    try:
        async with asyncio.timeout(CALL_SECONDS):
            connection: AIOKafkaConnection = await create_conn(host, int(port), **login(access))
            try:
                return await connection.send(request)
            finally:
                connection.close()
    except (KafkaError, TimeoutError, OSError) as error:
        who = f"{access.user or 'nobody'} at {access.bootstrap}"
        raise Transient(f"quotas of Kafka as {who}: {type(error).__name__} {error}") from error


class _AlterClientQuotasResponse(Response):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 49
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "entries",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                (
                    "entity",
                    Array(("entity_type", String("utf-8")), ("entity_name", String("utf-8"))),
                ),
            ),
        ),
    )


class _AlterClientQuotasStruct(RequestStruct):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 49
    API_VERSION = 0
    RESPONSE_TYPE = _AlterClientQuotasResponse
    SCHEMA = Schema(
        (
            "entries",
            Array(
                (
                    "entity",
                    Array(("entity_type", String("utf-8")), ("entity_name", String("utf-8"))),
                ),
                (
                    "ops",
                    Array(("key", String("utf-8")), ("value", Float64), ("remove", Boolean)),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


class _AlterClientQuotasRequest(Request[_AlterClientQuotasStruct]):  # type: ignore[misc]  # aiokafka is untyped
    API_KEY = 49

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def build(
        self, request_struct_class: type[_AlterClientQuotasStruct]
    ) -> _AlterClientQuotasStruct:
        return request_struct_class(self._entries, _DO_IT)
