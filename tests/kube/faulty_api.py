"""A proxy before an API server that refuses, loses answers, cuts watches or is not there.

The binder is given its kubeconfig. An answer that is lost is that of a request which the server
has carried out: the connection is broken off in its place.
"""

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

REASONS: Final = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
BODY_BYTES_MAX: Final = 64 << 20
AWAY: Final = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of the requests, watches excepted: `lost` answers, `refused` with `status`."""

    lost: float = 0.0
    refused: float = 0.0
    status: int = 500


class FaultyApi:
    """Passes requests on, as `faults`, `away` and `cut` say; `done` counts what it did to them."""

    def __init__(self, kubeconfig: Path, seed: int) -> None:
        found = yaml.safe_load(kubeconfig.read_text())
        self._document = found
        self._upstream = found["clusters"][0]["cluster"]["server"]
        authority = found["clusters"][0]["cluster"].get("certificate-authority")
        self._context = ssl.create_default_context(cafile=authority)
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._random = random.Random(seed)
        self._watches: list[web.Request] = []
        self._session: Any = None
        self.faults = Faults()
        self.away = False
        self.done: Counter[str] = Counter()

    def cut(self) -> int:
        """Break all watches off; how many there were."""
        cut = list(self._watches)
        for request in cut:
            _break_off(request)
        self.done["watch"] += len(cut)
        return len(cut)

    @asynccontextmanager
    async def serving(self, kubeconfig: Path) -> AsyncIterator[None]:
        """Serve, with a kubeconfig written there by which it is reached."""
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        clusters = [{"name": "muster", "cluster": {"server": server}}]
        kubeconfig.write_text(yaml.safe_dump({**self._document, "clusters": clusters}))
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector)
        try:
            yield
        finally:
            await self._session.close()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.away:
            return self._lose(request, "away")
        watches, dice = "watch" in request.query, self._random.random()
        if not watches and dice < self.faults.refused:
            self.done[str(self.faults.status)] += 1
            return _refusal(self.faults.status)
        try:
            async with self._session.request(
                request.method,
                URL(f"{self._upstream}{request.raw_path}", encoded=True),
                data=await request.read() or None,
                headers=_passed_on(request),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            ) as answer:
                if watches:
                    return await self._stream(request, answer)
                body = await answer.read()
        except AWAY:
            return self._lose(request, "upstream away")
        if self._random.random() < self.faults.lost or self.away:
            return self._lose(request, "lost")
        headers = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Pass a watch on; while the server is away its events are lost, and nothing says so."""
        response = web.StreamResponse(status=answer.status)
        response.content_type = "application/json"
        await response.prepare(request)
        self._watches.append(request)
        try:
            async for piece in answer.content.iter_any():
                if self.away:
                    self.done["frozen"] += 1
                    await asyncio.Event().wait()  # until whoever waits for it gives up
                await response.write(piece)
        except AWAY:
            _break_off(request)
        finally:
            self._watches.remove(request)
        return response

    def _lose(self, request: web.Request, why: str) -> web.Response:
        self.done[why] += 1
        _break_off(request)
        return web.Response(status=500)


def _break_off(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _passed_on(request: web.Request) -> dict[str, str]:
    names = ("Authorization", "Accept", "Content-Type")
    return {name: request.headers[name] for name in names if name in request.headers}


def _refusal(status: int) -> web.Response:
    body = {"kind": "Status", "code": status, "reason": REASONS[status], "message": "by the proxy"}
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.json_response(body, status=status, headers=headers)
