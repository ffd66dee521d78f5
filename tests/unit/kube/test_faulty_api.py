"""The proxy of the kill test on Kubernetes does to requests what it says it does."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.kube.faulty_api import Faults, FaultyApi

AWAY = (aiohttp.ClientError, OSError)
DOCUMENT = {
    "current-context": "c",
    "users": [{"name": "u", "user": {"token": "abc"}}],
    "contexts": [{"name": "c", "context": {"cluster": "muster", "user": "u"}}],
}


@asynccontextmanager
async def an_api():
    """An API server that answers 201 with what it was sent; a watch tells `next` until `end`."""
    asked: list[tuple[str, str, str | None]] = []
    events: asyncio.Queue[str] = asyncio.Queue()

    async def handle(request):
        asked.append((request.method, request.raw_path, request.headers.get("Authorization")))
        if "watch" not in request.query:
            answer = web.Response(status=201, body=await request.read())
            answer.enable_compression()
            return answer
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await events.get()) != "end":
            await response.write(event.encode())
        return response

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield SimpleNamespace(port=runner.addresses[0][1], asked=asked, events=events)
    await runner.cleanup()


@pytest.fixture
async def proxied(tmp_path):
    async with an_api() as api:
        config = tmp_path / "upstream"
        clusters = [{"name": "muster", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}]
        config.write_text(yaml.safe_dump({**DOCUMENT, "clusters": clusters}))
        proxy, mine = FaultyApi(config, seed=1), tmp_path / "mine"
        async with proxy.serving(mine):
            found = yaml.safe_load(mine.read_text())
            assert {**found, "clusters": 0} == {**DOCUMENT, "clusters": 0}
            headers = {"Authorization": "Bearer abc"}
            server = found["clusters"][0]["cluster"]["server"]
            async with aiohttp.ClientSession(server, headers=headers) as http:
                yield SimpleNamespace(api=api, proxy=proxy, http=http)


async def post(proxied):
    """The status and body of an answer; None when it never came."""
    try:
        async with proxied.http.post("/api/x?a=b%26c", data=b"body") as answer:
            return answer.status, await answer.read()
    except AWAY:
        return None


async def test_requests_are_passed_on_as_they_are(proxied):
    assert await post(proxied) == (201, b"body")
    assert proxied.api.asked == [("POST", "/api/x?a=b%26c", "Bearer abc")]


async def test_a_lost_answer_is_that_of_a_request_that_was_carried_out(proxied):
    proxied.proxy.faults = Faults(lost=1.0)

    assert await post(proxied) is None
    assert (len(proxied.api.asked), dict(proxied.proxy.done)) == (1, {"lost": 1})


@pytest.mark.parametrize("status", [409, 429, 500])
async def test_what_is_refused_is_not_carried_out(proxied, status):
    proxied.proxy.faults = Faults(refused=1.0, status=status)

    answer = await post(proxied)

    assert answer is not None
    assert (answer[0], proxied.api.asked) == (status, [])
    assert dict(proxied.proxy.done) == {str(status): 1}


async def test_a_share_of_the_requests_meets_a_fault(proxied):
    proxied.proxy.faults = Faults(refused=0.2)

    statuses = [(await post(proxied) or (0,))[0] for _ in range(100)]

    assert 5 < statuses.count(500) < 40


async def test_nothing_answers_while_it_is_away_and_a_watch_falls_silent(proxied):
    async with proxied.http.get("/api/x?watch=true") as watch:
        proxied.api.events.put_nowait("one")
        before = await watch.content.readany()
        proxied.proxy.away = True
        proxied.api.events.put_nowait("two")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await watch.content.readany()

        assert (before, await post(proxied)) == (b"one", None)
        assert [method for method, *_ in proxied.api.asked] == ["GET"]


async def test_watches_are_cut_and_come_again(proxied):
    async with proxied.http.get("/api/x?watch=true") as watch:
        proxied.api.events.put_nowait("one")
        await watch.content.readany()
        cut = proxied.proxy.cut()
        with pytest.raises(AWAY):
            await watch.content.readany()
    proxied.api.events.put_nowait("end")

    assert (cut, proxied.proxy.done["watch"]) == (1, 1)
    assert (await post(proxied) or (0,))[0] == 201
