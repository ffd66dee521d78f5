"""Which kinds of objects are heard, as the source of native pods tells it."""

import asyncio

from aiohttp import web

from shared.adapters.kubernetes.native.source import KubernetesNativePods
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.native import NativeHeard, NativeInterrupted

SECONDS = 20
JOBSETS = "jobsets"


async def test_a_kind_without_objects_is_heard_again_after_a_watch_that_was_refused(
    server, config
):
    """As the API server refuses it in the first moments of a new definition."""
    refusals, news, came = ["storage is (re)initializing"], [], asyncio.Event()

    async def answer(request):
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
        if request.path.endswith(JOBSETS) and refusals:
            return web.json_response({"message": refusals.pop()}, status=429)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    def tell(one):
        if getattr(one, "kind", "") == JOBSETS:
            news.append(type(one))
            came.set()

    server.answer = answer
    source = KubernetesNativePods(KubernetesSettings(config=str(config)))
    task = asyncio.create_task(source.follow(tell))
    async with asyncio.timeout(SECONDS):
        while len(news) < 3:
            came.clear()
            await came.wait()
    task.cancel()
    await asyncio.wait([task])
    await source.close()

    assert [NativeHeard, NativeInterrupted, NativeHeard] == news
