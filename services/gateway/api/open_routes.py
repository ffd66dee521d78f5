"""Health, metrics and the API's own description."""

from __future__ import annotations

import asyncio

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.gateway.api.openapi import document_bytes
from services.gateway.app.door import JSON_HEADERS, Call, Door
from services.gateway.http.metrics import STREAMS, WAITING


async def healthz(door: Door, call: Call) -> web.Response:  # noqa: ARG001
    """The process lives."""
    return web.Response(text="ok\n")


async def readyz(door: Door, call: Call) -> web.Response:  # noqa: ARG001
    """The lease is held, so what comes in can be made durable."""
    if door.committer.ready and door.prepared and not door.closing:
        return web.Response(text="ready\n")
    return web.Response(status=503, text="no\n", headers={"Retry-After": "1"})


async def metrics(door: Door, call: Call) -> web.Response:  # noqa: ARG001
    """Prometheus' text format; made in a thread, because it may take 50 ms."""
    WAITING.set(door.committer.waiting)
    STREAMS.set(door.streams.total())
    body = await asyncio.to_thread(generate_latest)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def openapi(door: Door, call: Call) -> web.Response:  # noqa: ARG001
    """docs/openapi.json."""
    return web.Response(body=document_bytes(), headers=JSON_HEADERS)
