"""Health, metrics and the API's own description."""

from __future__ import annotations

import asyncio

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.gateway.api.openapi import document_bytes
from services.gateway.app.context import JSON_HEADERS, GatewayContext, RequestContext
from services.gateway.http.metrics import STREAMS, WAITING


async def healthz(gateway: GatewayContext, call: RequestContext) -> web.Response:  # noqa: ARG001
    """The process lives."""
    return web.Response(text="ok\n")


async def readyz(gateway: GatewayContext, call: RequestContext) -> web.Response:  # noqa: ARG001
    """The lease is held, so what comes in can be made durable."""
    if gateway.committer.ready and gateway.prepared and not gateway.closing:
        return web.Response(text="ready\n")
    why = gateway.committer.why_not_ready or "no"
    return web.Response(status=503, text=f"{why}\n", headers={"Retry-After": "1"})


async def metrics(gateway: GatewayContext, call: RequestContext) -> web.Response:  # noqa: ARG001
    """Prometheus' text format; made in a thread, because it may take 50 ms."""
    WAITING.set(gateway.committer.waiting)
    STREAMS.set(gateway.streams.total())
    body = await asyncio.to_thread(generate_latest)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def openapi(gateway: GatewayContext, call: RequestContext) -> web.Response:  # noqa: ARG001
    """docs/openapi.json."""
    return web.Response(body=document_bytes(), headers=JSON_HEADERS)
