"""GET /v1/workloads/{id}/logs: who may read, what is passed on, and how it ends."""

import asyncio
import contextlib
from collections import Counter
from types import SimpleNamespace

import aiohttp
import pytest

from services.gateway.app import open_stream
from services.gateway.http.authorisation import Role, Subject
from services.gateway.pods import logs
from shared.adapters.no_pod_logs import NoPodLogs
from shared.ports.errors import Transient
from shared.ports.pod_logs import LogRequest, LogsMissing, NoLogs
from tests.support.bare_gateway import Parts, served

ID = "w" + "a" * 26
SETTINGS = SimpleNamespace(
    cell=0, streams_max=4, team_streams_max=2, logs_bytes_max=1_000, logs_seconds_max=60
)


class World(Parts):
    """A gateway of one workload of team red, and what its pod has written."""

    def __init__(self) -> None:
        super().__init__()
        self.team, self.state, self.attempt = "red", "running", 3
        self.subject = Subject(name="mk", team="red", role=Role.VIEWER)
        self.asked: list[LogRequest] = []
        self.missing: list[NoLogs] = []
        self.written: list[bytes] = []
        self.stays = False
        self.streaming = asyncio.Event()
        """Set once what is written has been passed on."""
        self.error: Exception | None = None
        self.warned: list[str] = []
        self.streams: Counter[str] = Counter()

    async def authenticate(self, text):  # type: ignore[explicit-override]  # new in Python 3.12
        return self.subject

    async def fetch(self, statement, *arguments):  # type: ignore[explicit-override]  # new in Python 3.12
        row = {"id": ID, "team": self.team, "state": self.state, "attempt": self.attempt}
        return [row] if arguments == (ID,) else []

    def warning(self, event, **fields):
        self.warned.append(fields["error"])

    @contextlib.asynccontextmanager
    async def read(self, request):
        self.asked.append(request)
        if self.missing:
            raise self.missing.pop(0)
        yield self._pieces()

    async def _pieces(self):
        for piece in self.written:
            yield piece
        self.streaming.set()
        if self.error is not None:
            raise self.error
        while self.stays:
            await asyncio.sleep(0.01)


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(logs, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(open_stream, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(logs, "START_POLL_SECONDS", 0.01)
    monkeypatch.setattr(logs, "LAST_SECONDS", 0.0)
    return World()


async def _get(world, query="", *, workload_id=ID, settings=SETTINGS, **parts):
    """Status, and the body as text or JSON."""
    more = {"pod_logs": world, "streams": world.streams, "settings": settings, "closing": False}
    headers = {"Authorization": "Bearer mk_x"}
    async with served(world, **more | parts) as port, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{port}/v1/workloads/{workload_id}/logs{query}"
        async with http.get(url, headers=headers) as response:
            if "json" in response.headers["Content-Type"]:
                return response.status, await response.json()
            return response.status, await response.text()


async def test_what_was_written_is_passed_on_as_it_is(world):
    world.written = [b"epoch 1\n", "é".encode()[:1], "é".encode()[1:], b"\n"]

    assert (200, "epoch 1\né\n") == await _get(world)
    (asked,) = world.asked
    assert LogRequest(workload_id=ID, attempt=3, bytes_max=1_000) == asked
    assert 0 == world.streams.total()


async def test_each_wish_reaches_the_cluster(world):
    await _get(world, "?rank=7&tail=0&sinceSeconds=600&previous=true")

    wanted = LogRequest(
        workload_id=ID, attempt=2, rank=7, tail_lines=0, since_seconds=600, bytes_max=1_000
    )
    assert [wanted] == world.asked


@pytest.mark.parametrize("query", ["?rank=-1", "?rank=65536", "?sinceSeconds=0", "?follow=yes"])
async def test_a_parameter_out_of_its_range_is_refused_by_name(world, query):
    status, body = await _get(world, query)

    assert 400 == status
    assert query[1:].partition("=")[0] == body["errors"][0]["field"]
    assert [] == world.asked


async def test_a_workload_of_another_team_does_not_exist(world):
    world.team = "blue"

    status, body = await _get(world)

    assert (404, f"workload {ID} does not exist") == (status, body["detail"])
    assert [] == world.asked


async def test_a_cluster_without_logs_says_so_and_what_to_do(world):
    status, body = await _get(world, "?follow=true", pod_logs=NoPodLogs())

    assert (409, "urn:muster:problem:logs-not-kept") == (status, body["type"])
    assert f"`muster events {ID}` tells what happened" in body["detail"]


async def test_who_follows_waits_for_the_start_of_the_container(world):
    waiting = NoLogs(LogsMissing.NOT_STARTED, "waiting to start: ContainerCreating")
    world.missing, world.written = [waiting] * 3, [b"begun\n"]

    assert (200, "begun\n") == await _get(world, "?follow=true")
    assert 4 == len(world.asked)


async def test_who_does_not_follow_is_told_that_it_has_not_started(world):
    world.missing = [NoLogs(LogsMissing.NOT_STARTED, "waiting to start: ContainerCreating")]

    status, body = await _get(world)

    assert (409, "waiting to start: ContainerCreating") == (status, body["detail"])


async def test_of_one_that_waits_the_way_to_its_reason_is_told(world):
    world.state, world.missing = "queued", [NoLogs(LogsMissing.GONE, "no pod")]

    status, body = await _get(world, "?follow=true")

    assert 409 == status
    assert f"it is queued and has no pods; `muster why {ID}` says why" == body["detail"]


async def test_a_stream_ends_with_its_workload_though_its_container_does_not(world):
    world.written, world.stays = [b"last\n"], True

    async def end():
        await world.streaming.wait()
        world.state = "succeeded"

    ending = asyncio.create_task(end())
    async with asyncio.timeout(20):
        assert (200, "last\n") == await _get(world, "?follow=true")
    await ending


@pytest.mark.parametrize("query", ["", "?follow=true"])
async def test_no_more_is_passed_on_than_the_bound(world, query):
    world.written = [b"x" * 600] * 3

    if query:  # there is more: it is cut, so that the reader can go on
        with pytest.raises(aiohttp.ClientPayloadError):
            await _get(world, query)
    else:
        assert (200, "x" * 1_000) == await _get(world, query)


async def test_a_revoked_key_cuts_it(world):
    world.stays = True

    async def revoke():
        await world.streaming.wait()
        world.subject = Subject(name="mk", team="blue", role=Role.VIEWER)

    revoking = asyncio.create_task(revoke())
    with pytest.raises(aiohttp.ClientPayloadError):
        await _get(world, "?follow=true")
    await revoking


async def test_the_time_of_one_request_is_bounded(world):
    world.stays = True
    settings = SimpleNamespace(**{**vars(SETTINGS), "logs_seconds_max": 0.2})

    with pytest.raises(aiohttp.ClientPayloadError):
        await _get(world, "?follow=true", settings=settings)


async def test_a_cluster_that_breaks_off_cuts_it(world):
    world.written, world.error = [b"one\n"], Transient("logs broke off")

    with pytest.raises(aiohttp.ClientPayloadError):
        await _get(world)
    assert ["logs broke off"] == world.warned


async def test_a_team_has_so_many_streams_and_no_more(world):
    world.streams["red"] = 2

    status, body = await _get(world)

    assert 429 == status
    assert "team red has 2" in body["detail"]
    assert [] == world.asked
