"""What every aiokafka client begins with: address, login, and the reason when it is refused."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any, Final, Protocol

from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
)

from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess

MECHANISM: Final = "SCRAM-SHA-512"
REQUEST_TIMEOUT_MS: Final = 20_000
START_SECONDS: Final = 10.0
STOP_SECONDS: Final = 2.0
ASK_SECONDS: Final = 3.0
WHERE_LOST: Final = "where the broker has lost its data: muster-ops recover kafka"


class Client(Protocol):
    """A producer, a consumer or an admin client."""

    async def start(self) -> None:
        """Connect."""


def options(access: KafkaAccess) -> dict[str, Any]:
    """Keyword arguments of every client of aiokafka."""
    return {"bootstrap_servers": access.bootstrap, **login(access)}


def login(access: KafkaAccess) -> dict[str, Any]:
    """Options that name the user that connects, and how."""
    found: dict[str, Any] = {"security_protocol": access.protocol.value}
    if access.protocol.has_user:
        found["sasl_mechanism"] = MECHANISM
        found["sasl_plain_username"] = access.user
        found["sasl_plain_password"] = access.password.get_secret_value()
    if access.protocol.is_encrypted:
        found["ssl_context"] = ssl.create_default_context(cafile=access.ca_file or None)
    return found


async def start(client: Client, access: KafkaAccess) -> None:
    """Connect within `START_SECONDS`; a client that could not is left for the caller to stop.

    Raises:
        Transient: with the broker's reason, where it gives one.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            await client.start()
    except KafkaConnectionError as error:
        raise Transient(f"{error}{await refusal(access)}") from error
    except (KafkaError, TimeoutError, OSError) as error:
        raise Transient(f"Kafka at {access.bootstrap}: {type(error).__name__} {error}") from error


async def refusal(access: KafkaAccess) -> str:
    """Why the broker takes no connection of this user, or "".

    aiokafka tells that to its log alone.
    """
    error = await _connection_error(access)
    if error is not None:
        hint = f"; {WHERE_LOST}" if _is_of_user(error) else ""
        return f" as {access.user or 'nobody'}: {str(error) or type(error).__name__}{hint}"
    return "" if access.user else ": it refuses connections without a user (MUSTER_KAFKA_USER)"


async def does_not_know(access: KafkaAccess) -> bool:
    """Whether a broker answers that it does not know this user with this password."""
    error = await _connection_error(access)
    return error is not None and _is_of_user(error)


async def _connection_error(access: KafkaAccess) -> Exception | None:
    host, _, port = access.bootstrap.split(",")[0].rpartition(":")
    try:
        async with asyncio.timeout(ASK_SECONDS):
            connection = await create_conn(host, int(port), **login(access))
    except (KafkaError, TimeoutError, OSError) as error:
        return error
    connection.close()
    return None


def _is_of_user(error: Exception) -> bool:
    return isinstance(error, (AuthenticationFailedError, SaslAuthenticationFailed))


async def stop(client: Any) -> None:  # noqa: ANN401  # aiokafka is untyped
    """Stop within two seconds; a dead broker must not hold up a shutdown.

    A consumer of aiokafka raises the cancellation of its own fetches (`Fetcher.close`), which
    would end the caller as if it were cancelled.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await asyncio.gather(client.stop(), return_exceptions=True)
