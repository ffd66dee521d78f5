"""Which connections stay open: the rules, and what a client sees of them on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from services.gateway.http import connections as rules
from services.gateway.http.connections import (
    HEAD_SECONDS,
    UNREAD_SECONDS,
    Closed,
    ConnectionLimits,
    Connections,
    networks_of,
)
from services.gateway.http.metrics import CONNECTIONS_CLOSED
from services.gateway.protocol import open_connections
from services.gateway.settings import GatewaySettings
from tests.support.bare_gateway import Parts, served

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
FOUR = ConnectionLimits(most=4, of_peer=2)


def opened(*addresses: str, limits: ConnectionLimits = FOUR) -> Connections[int]:
    """Connections 0, 1, ... of these addresses, each opened a second after the one before."""
    known: Connections[int] = Connections(limits)
    for number, address in enumerate(addresses):
        assert known.refusal(address) is None
        known.opened(number, address, float(number))
    return known


def test_one_peer_has_its_share_and_no_more():
    known = opened("10.0.0.1", "10.0.0.1")

    assert Closed.PEER_SHARE is known.refusal("10.0.0.1")
    assert known.refusal("10.0.0.2") is None
    known.closed(0)
    assert known.refusal("10.0.0.1") is None


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("2001:db8::1", "2001:db8::ffff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::2"),
        ("no address", "no address"),
    ],
)
def test_what_one_host_can_send_from_is_one_peer(one: str, another: str):
    assert FOUR.peer_of(one) == FOUR.peer_of(another)


def test_a_shared_address_is_limited_by_the_number_of_all_alone():
    limits = ConnectionLimits(most=4, of_peer=2, shared=networks_of("127.0.0.0/8, 10.1.0.0/16"))

    known = opened("127.0.0.1", "127.0.0.1", "127.0.0.1", "10.1.2.3", limits=limits)

    for number in range(4):
        known.request_came(number)
    assert Closed.FULL is known.refusal("127.0.0.1")


def test_the_longest_without_a_request_in_hand_is_closed_for_a_new_one():
    known = opened("a", "b", "c", "d")

    known.request_came(0)  # it was the first, and is in hand
    known.request_came(1)
    known.request_ended(1, 9.0)  # idle, though later than 2 began to wait
    assert known.surplus() == 2
    known.closed(2)
    assert known.surplus() is None  # there is room
    known.opened(4, "e", 10.0)
    known.request_came(3)
    known.request_came(4)
    assert known.surplus() == 1


def test_where_all_have_a_request_in_hand_the_new_one_is_refused():
    known = opened("a", "b", "c", "d")

    for number in range(4):
        known.request_came(number)

    assert Closed.FULL is known.refusal("e")
    known.request_ended(2, 5.0)
    assert known.refusal("e") is None


def test_a_head_counts_from_its_first_byte_and_rest_does_not_count():
    known = opened("a", "b")
    known.request_came(0)
    known.request_ended(0, 1.0)

    assert [(1, Closed.SLOW_HEAD)] == list(known.overdue(1.0 + HEAD_SECONDS))
    known.closed(1)
    known.head_began(0, 100.0)
    known.head_began(0, 100.0 + HEAD_SECONDS / 2)  # a further byte gives no further time
    assert not list(known.overdue(99.9 + HEAD_SECONDS))
    assert [(0, Closed.SLOW_HEAD)] == list(known.overdue(100.0 + HEAD_SECONDS))


def test_an_answer_that_is_not_taken_is_overdue():
    known = opened("a", "b")
    for number in (0, 1):
        known.request_came(number)
        known.unread(number, 5.0)
    known.taken(1)

    assert not list(known.overdue(4.9 + UNREAD_SECONDS))
    assert [(0, Closed.SLOW_READER)] == list(known.overdue(5.0 + UNREAD_SECONDS))


def test_what_is_told_of_a_closed_connection_is_forgotten():
    known = opened("a")
    known.closed(0)

    known.head_began(0, 1.0)
    known.request_ended(0, 1.0)
    known.unread(0, 1.0)
    known.closed(0)

    assert not list(known.overdue(1e9))
    assert 0 == len(known)


def settings(**chosen: Any) -> GatewaySettings:
    return GatewaySettings(kafka_bootstrap="x:1", database_url="postgresql://x", **chosen)


def test_three_quarters_of_the_descriptors_are_for_connections(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (20_000, 1 << 20))

    usual = settings().connection_limits
    chosen = settings(connections_max=100, peer_connections_percent=10).connection_limits

    assert (15_000, 3_750) == (usual.most, usual.of_peer)
    assert (100, 10) == (chosen.most, chosen.of_peer)
    assert "" == usual.peer_of("127.0.0.9") == usual.peer_of("::1")


def test_a_shared_peer_that_is_no_address_ends_the_process_at_its_start():
    with pytest.raises(ValueError, match="shared_peers"):
        settings(shared_peers="10.0.0.1,proxy.example")


class LoggedParts(Parts):
    """Parts that keep what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.warned: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.warned.append((event, fields))


Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[int], Awaitable[Socket]]


@pytest.fixture
async def stack(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncExitStack]:
    monkeypatch.setattr(open_connections, "SWEEP_SECONDS", 0.02)
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        yield stack


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens a connection to a port; all are closed at the end."""
    opened: list[Socket] = []

    async def one(port: int) -> Socket:
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        return opened[-1]

    yield one
    for _, writer in opened:
        writer.transport.abort()


async def ask(socket: Socket) -> int:
    reader, writer = socket
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(3)
    return int(head.split()[1])


def closed(reason: Closed) -> float:
    return float(CONNECTIONS_CLOSED.labels(reason.value)._value.get())


async def test_sockets_that_send_nothing_keep_no_client_out(
    stack: AsyncExitStack, connect: Connect
):
    parts, before = LoggedParts(), closed(Closed.IDLE)
    port = await stack.enter_async_context(served(parts, ConnectionLimits(most=20, of_peer=99)))
    silent = [await connect(port) for _ in range(60)]

    answered = [await ask(await connect(port)) for _ in range(30)]

    assert [200] * 30 == answered
    assert b"" == await silent[0][0].read()
    assert 70 == closed(Closed.IDLE) - before
    while not parts.warned:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    ((event, counts),) = parts.warned  # one line for many
    assert "connections closed" == event
    assert counts["open"] <= 20
    assert 0 < counts["idle"] <= 70


async def test_a_peer_beyond_its_share_is_told_so(stack: AsyncExitStack, connect: Connect):
    port = await stack.enter_async_context(
        served(LoggedParts(), ConnectionLimits(most=20, of_peer=3))
    )
    held = [await connect(port) for _ in range(3)]

    reader, _ = await connect(port)
    told = await reader.read()

    assert told.startswith(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\n")
    assert b"your address has 3 open connections" in told
    assert [200] * 3 == [await ask(one) for one in held]
    held[0][1].close()
    await held[0][1].wait_closed()
    await asyncio.sleep(0.1)
    assert 200 == await ask(await connect(port))


async def test_a_head_that_is_not_complete_in_time_ends_the_connection(
    stack: AsyncExitStack, connect: Connect, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rules, "HEAD_SECONDS", 0.1)
    port = await stack.enter_async_context(served(LoggedParts()))
    slow, resting = await connect(port), await connect(port)
    assert 200 == await ask(resting)

    slow[1].write(REQUEST[:20])
    told = await slow[0].read()

    assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"must be complete in 10 s" in told
    assert 200 == await ask(resting)  # the time between requests is another one


async def test_where_all_have_a_request_in_hand_a_client_is_told_to_come_back(
    stack: AsyncExitStack, connect: Connect
):
    asked, going_on = asyncio.Event(), asyncio.Event()

    async def current() -> None:
        asked.set()
        await going_on.wait()

    hanging = SimpleNamespace(current=current, refresh=current)
    limits = ConnectionLimits(most=1, of_peer=9)
    port = await stack.enter_async_context(served(LoggedParts(), limits, organisation=hanging))
    first = await connect(port)
    first[1].write(REQUEST.replace(b"/healthz", b"/v1/flavors").replace(b"x\r\n", KEY_LINE))
    await asked.wait()

    told = await (await connect(port))[0].read()

    assert told.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"all 1 connections have a request in hand" in told
    going_on.set()
    assert b"HTTP/1.1 " == await first[0].readexactly(9)


KEY_LINE = b"x\r\nAuthorization: Bearer " + b"a" * 43 + b"\r\n"


async def test_a_client_that_takes_no_answer_is_cut(
    stack: AsyncExitStack, connect: Connect, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rules, "UNREAD_SECONDS", 0.1)
    before = closed(Closed.SLOW_READER)
    port = await stack.enter_async_context(served(LoggedParts()))
    reader, writer = await connect(port)
    reader._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's own

    many = REQUEST.replace(b"/healthz", b"/openapi.json") * 100
    writer.write(many)

    while closed(Closed.SLOW_READER) == before:
        await asyncio.sleep(0.02)
