"""/healthz, /readyz and /metrics of a service, on MUSTER_HTTP_PORT."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


def health_app(
    ready: Callable[[], bool],
    why_not: Callable[[], str] = str,
    more_metrics: Callable[[], str] = str,
) -> web.Application:
    """The application; `ready` says whether the service processes messages now.

    `why_not`: what a person must know of while it does not; "" where there is nothing to do.
    `more_metrics`: families, as text, that the client library cannot write.
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

    app = web.Application()
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
