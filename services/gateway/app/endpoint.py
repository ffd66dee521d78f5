"""One route at work: every request is authenticated, authorised, bounded and decoded here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.authentication import authenticated
from services.gateway.app.context import GatewayContext, RequestContext, problem_answer
from services.gateway.http import bodies
from services.gateway.http.authorisation import Role, Subject
from services.gateway.http.metrics import REQUEST_SECONDS, REQUESTS
from services.gateway.http.problems import Problem, too_many
from services.gateway.http.read_cost import read_cost
from services.gateway.http.route import Route
from services.gateway.protocol import Parameters, check_address

Handler = Callable[[GatewayContext, RequestContext], Awaitable[web.StreamResponse]]
IN_FLIGHT_MAX: Final = 5_000
_ANYBODY: Final = Subject(name="anybody", team="", role=Role.VIEWER)


class Endpoint:
    """One route: authenticate, authorise, read, decode, handle."""

    def __init__(self, gateway: GatewayContext, route: Route, handler: Handler) -> None:
        self._gateway = gateway
        self._route = route
        self._handler = handler
        self._decoder = msgspec.json.Decoder(route.request) if route.request else None
        self._parameters = Parameters(route)
        self._in_flight = 0
        self._seconds = REQUEST_SECONDS.labels(route.name)
        self._counters: dict[int, Any] = {}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, problems too; what else goes wrong is the middleware's."""
        started = self._gateway.clock.monotonic_seconds()
        self._in_flight += 1
        try:
            if self._in_flight > IN_FLIGHT_MAX:
                raise too_many("too many requests are in flight")
            response = await self._answer(request)
        except Problem as problem:
            response = problem_answer(problem)
        finally:
            self._in_flight -= 1
        self._count(response, self._gateway.clock.monotonic_seconds() - started)
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
        call = RequestContext(request=request, route=route, subject=_ANYBODY)
        check_address(request)
        if route.action is not None:
            call.subject, call.text = await authenticated(self._gateway, request, route.action)
            call.require(None)
        self._parameters.check(request)
        if self._decoder is not None:
            body = await bodies.read(request, route.body_bytes_max, route.content_types)
            if not body and route.body_optional:
                body = b"{}"
            if route.free_form:
                call.body = bodies.decode_object(body)
            else:
                call.body = bodies.decode(body, self._decoder, route.further)
        accept = request.headers.get("Accept", "")
        cost = read_cost(route, request.method, request.query, accept)
        if cost is None:
            return await self._handler(self._gateway, call)
        async with self._gateway.reads.turn(call.subject, cost):
            return await self._handler(self._gateway, call)
