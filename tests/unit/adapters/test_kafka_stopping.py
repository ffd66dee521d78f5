"""A client of Kafka is stopped: by no error of its own, and not for longer than two seconds."""

import asyncio
import time

import pytest
from aiokafka.errors import KafkaConnectionError

from shared.adapters.kafka.client import STOP_SECONDS, stop


class ClientThatRaises:
    """As aiokafka does where one of its own tasks is cancelled, or the broker is away."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def stop(self) -> None:
        raise self._error


class ClientThatHangs:
    def __init__(self) -> None:
        self.cancelled = False

    async def stop(self) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KafkaConnectionError(), OSError()])
async def test_an_error_of_a_client_does_not_end_its_caller(error: BaseException):
    stopping = asyncio.create_task(stop(ClientThatRaises(error)))

    await asyncio.wait([stopping])

    assert not stopping.cancelled()
    assert stopping.exception() is None


async def test_a_client_that_hangs_is_left_after_two_seconds():
    client, started = ClientThatHangs(), time.monotonic()

    await stop(client)

    assert client.cancelled
    assert STOP_SECONDS - 0.1 < time.monotonic() - started < STOP_SECONDS + 5


async def test_a_caller_that_is_cancelled_stops_at_once():
    stopping = asyncio.create_task(stop(ClientThatHangs()))
    await asyncio.sleep(0)

    stopping.cancel()

    with pytest.raises(asyncio.CancelledError):
        await stopping
