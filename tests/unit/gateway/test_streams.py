"""An event stream: where it begins, that nothing is left out, and who is cut off."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import structlog
from aiohttp.test_utils import make_mocked_request

from services.gateway.app import open_stream
from services.gateway.app.context import RequestContext
from services.gateway.app.event_hub import QUEUE_EVENTS_MAX, EventHub, Listener
from services.gateway.events import streams
from services.gateway.http.authorisation import Role, Subject
from services.gateway.http.problems import Problem
from shared.adapters.memory import ManualClock
from shared.ports.errors import Transient

VIEWER = Subject(name="k1", team="red", role=Role.VIEWER)


def row(seq: int) -> dict[str, Any]:
    text = dict.fromkeys(("type", "state", "reason", "message", "pod_reason"), "")
    return {"seq": seq, "workload_id": "w1", "team": "red", "version": 1, "at_ms": 1, **text} | {
        "detail": "{}"
    }


class Reader:
    """Events of a table; `before_answer` happens between a look at the newest and its answer."""

    def __init__(self, newest: int) -> None:
        self.rows = [row(seq) for seq in range(1, newest + 1)]
        self.before_answer: Callable[[], Any] | None = None
        self.is_away = False

    def append(self, count: int) -> None:
        newest = len(self.rows)
        self.rows += [row(seq) for seq in range(newest + 1, newest + count + 1)]

    async def fetch(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        if self.is_away:
            raise Transient("the database is away")
        if "max(seq)" not in sql:
            return self.rows[arguments[0] : arguments[0] + arguments[1]]
        newest, told = len(self.rows), self.before_answer
        if told is not None:
            await told()
        return [{"seq": newest}]


class Response:
    """What was written; `on_write` happens after each write."""

    def __init__(self, on_write: Callable[[], Any]) -> None:
        self.text = ""
        self.ended = False
        self._on_write = on_write

    async def prepare(self, _: Any) -> None:
        """Nothing is sent."""

    async def write(self, data: bytes) -> None:
        self.text += data.decode()
        await self._on_write()

    async def write_eof(self) -> None:
        await self._on_write()
        self.ended = True

    @property
    def events(self) -> list[int]:
        return [json.loads(one[6:])["id"] for one in self._lines('data: {"id"')]

    def _lines(self, begin: str) -> list[str]:
        return [one for one in self.text.splitlines() if one.startswith(begin)]


class World:
    """A door with its hub polling, and streams through it."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.clock = ManualClock()
        self.revoked = False
        self.keys: dict[str, Subject] = {}
        self.hub = EventHub(reader, structlog.get_logger())
        self.gateway: Any = SimpleNamespace(
            hub=self.hub,
            reader=reader,
            clock=self.clock,
            keys=self,
            kubernetes=None,
            streams=Counter(),
            settings=SimpleNamespace(streams_max=9, team_streams_max=5),
            closing=False,
            log=structlog.get_logger(),
        )
        self.responses: list[Response] = []
        self.on_write: Callable[[], Any] = self.time_passes
        self.transport = Mock()

    async def time_passes(self) -> None:
        self.clock.advance(open_stream.CHECK_SECONDS)

    async def revoke(self) -> None:
        self.revoked = True
        await self.time_passes()

    async def lose_database(self) -> None:
        self.reader.is_away = True

    async def take_nothing_more(self) -> None:
        await asyncio.Event().wait()

    async def authenticate(self, text: str) -> Subject | None:
        return None if self.revoked else self.keys[text]

    def response(self, **_: Any) -> Response:
        self.responses.append(Response(self.on_write))
        return self.responses[-1]

    @asynccontextmanager
    async def stream(
        self, last_event_id: str = "", subject: Subject = VIEWER
    ) -> AsyncIterator[asyncio.Task[Any]]:
        headers = {"Accept": "text/event-stream"}
        headers |= {"Last-Event-ID": last_event_id} if last_event_id else {}
        request = make_mocked_request(
            "GET", "/v1/events", headers=headers, transport=self.transport
        )
        self.keys[subject.name] = subject
        call = RequestContext(request=request, route=None, subject=subject, text=subject.name)  # type: ignore[arg-type]
        open_ones = len(self.responses)
        task = asyncio.create_task(streams.events(self.gateway, call))
        try:
            await self.until(
                lambda: task.done() or (self.responses[open_ones:] and self.responses[-1].text)
            )
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, is_so: Callable[[], Any]) -> None:
        async with asyncio.timeout(5):
            while not is_so():
                await asyncio.sleep(0.001)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr("services.gateway.app.event_hub.POLL_SECONDS", 0.001)
    world = World(Reader(newest=3))
    monkeypatch.setattr("aiohttp.web.StreamResponse", world.response)
    task = asyncio.create_task(world.hub.run())
    yield world
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("last", "begin"), [("", 3), ("1", 1)])
async def test_a_stream_begins_with_the_id_that_it_goes_on_from(world, last, begin):
    async with world.stream(last):
        assert world.responses[0].text.startswith(f": muster\nid: {begin}\n\n")


async def test_a_reader_who_fell_behind_is_told_and_the_stream_ends(world, monkeypatch):
    monkeypatch.setattr(Listener, "take", took_nothing_for_long)

    async with world.stream() as task:
        await asyncio.wait_for(task, 5)

    assert world.responses[0].text.endswith('event: resync\ndata: {"after":3}\n\n')


async def took_nothing_for_long(self: Listener, wait_seconds: float) -> list[dict[str, Any]]:
    await asyncio.sleep(0)
    for seq in range(4, QUEUE_EVENTS_MAX + 5):
        self.offer(row(seq))
    return [row(QUEUE_EVENTS_MAX + 4)]


async def test_what_others_were_given_before_a_stream_was_listening_is_not_left_out(world):
    async with world.stream():  # keeps the hub polling

        async def others_are_told() -> None:
            world.reader.append(5)
            await world.until(lambda: world.responses[0].events[-1:] == [8])

        world.reader.before_answer = others_are_told
        async with world.stream("3"):
            world.reader.append(1)
            await world.until(lambda: 9 in world.responses[1].events)

    assert world.responses[1].events == [4, 5, 6, 7, 8, 9]


async def test_a_revoked_key_is_cut_while_it_catches_up(world):
    world.reader.append(streams.CATCH_UP_ROWS * 3)
    world.on_write = world.revoke

    async with world.stream("1") as task:
        await asyncio.wait_for(task, 5)

    (response,) = world.responses
    assert len(response.events) < streams.CATCH_UP_ROWS
    assert response.ended


async def test_a_stream_that_cannot_be_read_on_ends_in_good_order(world):
    world.reader.append(streams.CATCH_UP_ROWS * 3)
    world.on_write = world.lose_database

    async with world.stream("1") as task:
        await asyncio.wait_for(task, 5)

    assert world.responses[0].ended


async def test_a_reader_who_takes_nothing_is_cut(world, monkeypatch):
    monkeypatch.setattr(open_stream, "SEND_SECONDS", 0.01)
    world.reader.append(streams.CATCH_UP_ROWS * 3)
    world.on_write = world.take_nothing_more

    async with world.stream("1") as task:
        await asyncio.wait_for(task, 5)

    world.transport.abort.assert_called()
    assert not world.gateway.streams


async def test_no_team_takes_the_streams_of_the_others(world):
    other = Subject(name="k2", team="blue", role=Role.VIEWER)
    operator = Subject(name="k3", team="", role=Role.OPERATOR)

    async with AsyncExitStack() as opened:
        for _ in range(5):
            await opened.enter_async_context(world.stream())
        async with world.stream() as refused:
            with pytest.raises(Problem, match="team red has 5, which is the most") as raised:
                await asyncio.wait_for(refused, 5)
        for subject in (other, operator):
            assert not (await opened.enter_async_context(world.stream(subject=subject))).done()
        assert world.gateway.streams == {"red": 5, "blue": 1, "": 1}

    assert raised.value.status == 429
    assert not world.gateway.streams


async def test_all_streams_together_are_bounded(world):
    world.gateway.settings.streams_max = 1

    async with world.stream(), world.stream() as refused:
        with pytest.raises(Problem, match=r"too many open streams$"):
            await asyncio.wait_for(refused, 5)
