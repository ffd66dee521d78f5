"""/healthz, /readyz and /metrics of a service, on MUSTER_HTTP_PORT."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

NO_PATHS: Final[Mapping[str, Callable[[], str]]] = MappingProxyType({})


def health_app(
    ready: Callable[[], bool],
    why_not: Callable[[], str] = str,
    more_metrics: Callable[[], str] = str,
    more_paths: Mapping[str, Callable[[], str]] = NO_PATHS,
) -> web.Application:
    """The application; `ready` says whether the service processes messages now.

    `why_not`: what a person must know of while it does not; "" where there is nothing to do.
    `more_metrics`: families, as text, that the client library cannot write. `more_paths`: the same
    on paths of their own, each written in a thread.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ready\n")
        return web.Response(status=503, text=f"{why_not() or 'no'}\n")

    async def metrics(_: web.Request) -> web.Response:
        body = more_metrics().encode() + await asyncio.to_thread(generate_latest)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def on_path(write: Callable[[], str]) -> Handler:
        async def answer(_: web.Request) -> web.Response:
            body = (await asyncio.to_thread(write)).encode()
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

        return answer

    app = web.Application()
    app.add_routes([web.get(path, on_path(write)) for path, write in more_paths.items()])
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Start `app`; the caller cleans the runner up."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
