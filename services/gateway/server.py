"""The one way in: every request is authenticated, authorised, bounded and decoded here.

The dispatcher is made from the table of routes; a route without a handler, or a handler without
a route, stops the process at start. Whatever goes wrong is answered as a problem document.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from services.gateway import (
    bodies,
    commands,
    fleet_reads,
    kafka_routes,
    key_routes,
    node_commands,
    open_routes,
    organisation_routes,
    preemption_reads,
    queue_reads,
    streams,
    submissions,
    why,
    workload_reads,
)
from services.gateway.authorisation import Action, Role, Subject
from services.gateway.door import Call, Door, problem_answer
from services.gateway.metrics import REQUEST_SECONDS, REQUESTS
from services.gateway.problems import Problem, invalid, not_found, too_many, unavailable
from services.gateway.routes import COMMANDS, NODE_COMMANDS, ROUTES, Route
from shared.core.decision import FieldError
from shared.ports.errors import MusterError

Handler = Callable[[Door, Call], Awaitable[web.StreamResponse]]
READ_SECONDS: Final = 10.0
IN_FLIGHT_MAX: Final = 5_000
DOOR: Final = web.AppKey("door", Door)
_LOCAL: Final = Subject(name="loopback", team="", role=Role.OPERATOR)
_ANYBODY: Final = Subject(name="anybody", team="", role=Role.VIEWER)

HANDLERS: Final[dict[str, Handler]] = {
    "healthz": open_routes.healthz,
    "readyz": open_routes.readyz,
    "openapi": open_routes.openapi,
    "metrics": open_routes.metrics,
    "submit": submissions.submit,
    "submit_batch": submissions.submit_batch,
    "list_workloads": workload_reads.list_workloads,
    "get_workload": workload_reads.get_workload,
    "why": why.why,
    "list_preemptions": preemption_reads.list_preemptions,
    "workload_events": streams.workload_events,
    "events": streams.events,
    **{f"command_{verb}": commands.command for verb in COMMANDS},
    **{f"bulk_{verb}": commands.bulk for verb in COMMANDS},
    "list_nodes": fleet_reads.list_nodes,
    "get_node": fleet_reads.get_node,
    **{f"node_{verb}": node_commands.command for verb in NODE_COMMANDS},
    "list_queues": queue_reads.list_queues,
    "get_queues": queue_reads.get_queue,
    **{
        f"{verb}_{name}": handler
        for name in ("teams", "cohorts", "flavors", "priority_classes")
        for verb, handler in (
            ("list", organisation_routes.list_documents),
            ("get", organisation_routes.get_document),
            ("put", organisation_routes.put_document),
        )
    },
    "put_queues": organisation_routes.put_document,
    "list_keys": key_routes.list_keys,
    "create_key": key_routes.create_key,
    "revoke_key": key_routes.revoke_key,
    "create_kafka_password": kafka_routes.create_password,
}


def application(door: Door) -> web.Application:
    """All routes of the table, behind the one middleware."""
    app = web.Application(middlewares=[_problems], client_max_size=bodies.BATCH_BYTES_MAX)
    app[DOOR] = door
    for route in ROUTES:
        app.router.add_route(route.method, route.path, Endpoint(door, route).serve)
    return app


class Endpoint:
    """One route: authenticate, authorise, read, decode, handle."""

    def __init__(self, door: Door, route: Route) -> None:
        self._door = door
        self._route = route
        self._handler = HANDLERS[route.name]
        self._decoder = msgspec.json.Decoder(route.request) if route.request else None
        self._in_flight = 0
        self._seconds = REQUEST_SECONDS.labels(route.name)
        self._counters: dict[int, Any] = {}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, problems too; what else goes wrong is the middleware's."""
        started = self._door.clock.monotonic_seconds()
        self._in_flight += 1
        try:
            if self._in_flight > IN_FLIGHT_MAX:
                raise too_many("too many requests are in flight")
            response = await self._answer(request)
        except Problem as problem:
            response = problem_answer(problem)
        finally:
            self._in_flight -= 1
        self._count(response, self._door.clock.monotonic_seconds() - started)
        return response

    def _count(self, response: web.StreamResponse, seconds: float) -> None:
        counter = self._counters.get(response.status)
        if counter is None:
            counter = REQUESTS.labels(self._route.name, str(response.status))
            self._counters[response.status] = counter
        counter.inc()
        if isinstance(response, web.Response):
            self._seconds.observe(seconds)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        route = self._route
        call = Call(request=request, route=route, subject=_ANYBODY)
        if "%" in request.raw_path:
            _check_address(request)
        if route.action is not None:
            call.subject, call.text = await authenticated(self._door, request, route.action)
            call.require(None)
        if self._decoder is not None:
            body = await read(request, route.body_bytes_max)
            if not body and route.body_optional:
                body = b"{}"
            call.body = bodies.decode(body, self._decoder)
        return await self._handler(self._door, call)


def _check_address(request: web.Request) -> None:
    """400 for what no name can hold and no database could be asked for."""
    for name, text in (*request.match_info.items(), *request.query.items()):
        if not text.isprintable() or not name.isprintable():
            rule = "must be printable characters"
            raise invalid([FieldError(field=ascii(name)[1:-1], value=ascii(text), rule=rule)])


async def authenticated(
    door: Door, request: web.Request, action: Action | None
) -> tuple[Subject, str]:
    """Who calls, by which key.

    Raises:
        Problem: 401 without a valid key; 503 when nobody can be authenticated now.
    """
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if not text:
        if action is Action.READ_METRICS and _is_loopback(request.remote):
            return _LOCAL, ""
        raise _unknown_caller("send Authorization: Bearer <key>")
    if not hmac.compare_digest(scheme.lower().encode(), b"bearer"):
        raise _unknown_caller("the scheme must be Bearer")
    try:
        subject = await door.keys.authenticate(text.strip())
    except MusterError as error:
        raise unavailable("keys cannot be checked now") from error
    if subject is None:
        raise _unknown_caller("the key is unknown, expired or revoked")
    return subject, text.strip()


def _unknown_caller(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})


def _is_loopback(remote: str | None) -> bool:
    try:
        return ipaddress.ip_address(remote or "").is_loopback
    except ValueError:
        return False


async def read(request: web.Request, bytes_max: int) -> bytes:
    """The body, at most `bytes_max` and at most `READ_SECONDS` long.

    Raises:
        Problem: 413, 415 or 408.
    """
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "content-encoding", "the body must not be encoded", closes=True)
    if (request.content_length or 0) > bytes_max:
        raise _too_large(bytes_max)
    if request.content.is_eof():  # all of it is here already: no time-out is needed
        body = await _read_bounded(request, bytes_max)
    else:
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await _read_bounded(request, bytes_max)
        except TimeoutError as error:
            detail = f"the body took over {READ_SECONDS:.0f} s"
            raise Problem(408, "too-slow", detail, closes=True) from error
    if body and request.content_type != "application/json":
        raise Problem(415, "content-type", f"{request.content_type[:100]} is not JSON")
    return body


async def _read_bounded(request: web.Request, bytes_max: int) -> bytes:
    chunks, size = [], 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(bytes_max)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(bytes_max: int) -> Problem:
    detail = f"the body must be at most {bytes_max} bytes"
    return Problem(413, "too-large", detail, closes=True)


@web.middleware
async def _problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer every failure as a problem document."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem_answer(problem)
    except web.HTTPException as error:
        return await _unrouted(request, error)
    except (MusterError, TimeoutError) as error:
        request.app[DOOR].log.warning("unavailable", path=request.path, error=str(error))
        return problem_answer(unavailable("try the same again in a moment"))
    except (ConnectionResetError, HttpProcessingError):
        raise  # the client has left, or talks no HTTP: nobody to answer
    except Exception as error:
        door = request.app[DOOR]
        door.log.exception("failed", path=request.path, error=type(error).__name__)
        return problem_answer(Problem(500, "failed", "see the log of the gateway"))


async def _unrouted(request: web.Request, error: web.HTTPException) -> web.StreamResponse:
    """404 and 405 only for callers with a key: nobody else learns what exists."""
    try:
        await authenticated(request.app[DOOR], request, None)
    except Problem as problem:
        return problem_answer(problem)
    if isinstance(error, web.HTTPMethodNotAllowed):
        headers = {"Allow": ", ".join(sorted(error.allowed_methods))}
        detail = f"{request.method} is not one of {headers['Allow']}"
        return problem_answer(Problem(405, "method", detail, headers=headers))
    if error.status == web.HTTPNotFound.status_code:
        return problem_answer(not_found(request.path[:200]))
    return problem_answer(Problem(error.status, "failed", error.reason))


def check_table() -> None:
    """Every route has a handler and the other way round."""
    names = [route.name for route in ROUTES]
    missing: set[Any] = set(names) ^ set(HANDLERS)
    assert not missing, f"routes and handlers differ: {sorted(missing)}"
    assert len(names) == len(set(names)), "two routes have one name"
