"""A gateway for tests: a real HTTP server in a thread, with the answers a test gives it."""

import asyncio
import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Answer:
    """What to say to one request."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    text: str | None = None


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class FakeGateway:
    """Answers each (method, path) from its list; the last answer is given again and again."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = defaultdict(list)
        self.seen: list[Seen] = []
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None

    def on(self, route: str, *answers: Answer | Any) -> None:
        """`route` is "GET /v1/nodes"; a plain value is the body of a 200."""
        self.answers[route] += [one if isinstance(one, Answer) else Answer(one) for one in answers]

    def requests(self, route: str) -> list[Seen]:
        return [one for one in self.seen if f"{one.method} {one.path}" == route]

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"http://{host}:{port}"

    async def _stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(text) if text else None,
            )
        )
        answers = self.answers.get(f"{request.method} {request.path}")
        if not answers:
            answer = problem(404, f"{request.method} {request.path} does not exist")
        else:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        body = answer.text if answer.text is not None else json.dumps(answer.body)
        return web.Response(
            text=body, status=answer.status, headers=answer.headers, content_type=answer.kind
        )


def problem(status: int, detail: str, *, retry_after: str = "", errors: Any = ()) -> Answer:
    document = {"type": "urn:x", "title": "No", "status": status, "detail": detail}
    headers = {"Retry-After": retry_after} if retry_after else {}
    return Answer(
        {**document, "errors": list(errors)}, status, headers, "application/problem+json"
    )


def stream(*events: tuple[int, dict[str, Any]]) -> Answer:
    """A finished event stream."""
    text = ": hello\n\n" + "".join(f"id: {i}\ndata: {json.dumps(e)}\n\n" for i, e in events)
    return Answer(kind="text/event-stream", text=text)
