"""The HTTP API of the simulated cluster, and its door for faults.

POST /v1/operations                 a JSON list of operations -> a list of results, in order
GET  /v1/pods                       lines: {"resource_version": N}, then lists of pods
GET  /v1/watch?resource_version=N   lines: lists of events after N; [] is a heartbeat; as in
                                    Kubernetes, an event ERROR with code 410 says: list again
GET  /v1/faults, PUT /v1/faults     probabilities (simulator.faults)
PUT  /v1/namespaces/{name}/quota    ?pods=N: no more than N pods that have not ended
POST /v1/pods/{name}/fail           ?reason=
POST /v1/pods/{name}/let-go         take its finalizers away
POST /v1/nodes/{name}/{action}      fail (its pods end badly) | silent (nothing is heard of it;
                                    deleted pods stay) | fence (its pods go) | down (both) | up
GET  /healthz, /readyz
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from aiohttp import web

from shared.ports.cluster import PodOperation
from shared.simulator.cluster.engine import Engine, Overloaded
from shared.simulator.faults import Dice, Faults
from shared.simulator.pods import Pods

BODY_BYTES_MAX: Final = 32 << 20
EVENTS_PER_LINE: Final = 1_000
PODS_PER_LINE: Final = 500
SLOW_WATCHER_SECONDS: Final = 10.0
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
EXPIRED: Final = b'[{"type":"ERROR","code":410,"message":"too old resource version"}]\n'
NODE_ACTIONS: Final[Mapping[str, Callable[[Pods, str, int], int | None]]] = {
    "silent": lambda pods, node, _: pods.node_silent(node),
    "fence": lambda pods, node, _: pods.fence_node(node),
    "down": lambda pods, node, _: pods.node_down(node),
    "up": lambda pods, node, now_ms: pods.node_up(node, now_ms),
}


class Routes:
    """Handlers around one engine."""

    def __init__(self, engine: Engine, heartbeat_seconds: float) -> None:
        self._engine = engine
        self._heartbeat_seconds = heartbeat_seconds
        self._operations = msgspec.json.Decoder(list[PodOperation])
        self._encode = msgspec.json.Encoder().encode

    def application(self) -> web.Application:
        """The application with all routes."""
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.add_routes(
            [
                web.post("/v1/operations", self.operations),
                web.get("/v1/pods", self.pods),
                web.get("/v1/watch", self.watch),
                web.get("/v1/faults", self.faults),
                web.put("/v1/faults", self.set_faults),
                web.post("/v1/pods/{name}/fail", self.fail_pod),
                web.post("/v1/pods/{name}/let-go", self.let_go),
                web.put("/v1/namespaces/{name}/quota", self.set_quota),
                web.post("/v1/nodes/{name}/{action:[a-z]+}", self.change_node),
                web.get("/healthz", self.health),
                web.get("/readyz", self.health),
            ]
        )
        return application

    async def operations(self, request: web.Request) -> web.Response:
        """Try a batch."""
        try:
            operations = self._operations.decode(await request.read())
        except msgspec.DecodeError as error:
            return web.Response(status=400, text=str(error))
        try:
            results = await self._engine.apply(operations)
        except Overloaded:
            return web.Response(status=429, text="too many operations wait")
        return web.Response(body=self._encode(results), content_type=JSON)

    async def pods(self, request: web.Request) -> web.StreamResponse:
        """All pods, in lines, so that neither side builds one huge document."""
        pods, version = await self._engine.list_pods()
        response = web.StreamResponse(headers={"Content-Type": LINES})
        await response.prepare(request)
        await response.write(self._encode({"resource_version": version}) + b"\n")
        for start in range(0, len(pods), PODS_PER_LINE):
            await response.write(self._encode(pods[start : start + PODS_PER_LINE]) + b"\n")
        await response.write_eof()
        return response

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Events after a version until the watcher leaves, lags too far, or a fault breaks it."""
        try:
            version = int(request.query.get("resource_version", ""))
        except ValueError:
            return web.Response(status=400, text="resource_version: must be an integer")
        response = web.StreamResponse(headers={"Content-Type": LINES})
        await response.prepare(request)
        await self._stream(response, request, version)
        return response

    async def _stream(
        self, response: web.StreamResponse, request: web.Request, version: int
    ) -> None:
        engine = self._engine
        while True:
            events = await engine.events(version, EVENTS_PER_LINE, self._heartbeat_seconds)
            if request.transport is None:
                return
            line = b"[%b]\n" % b",".join(events) if events is not None else EXPIRED
            try:
                async with asyncio.timeout(SLOW_WATCHER_SECONDS):
                    await response.write(line)
            except (TimeoutError, ConnectionError):
                _abort(request)
                return
            if events is None:
                return
            version += len(events)
            if engine.dice.watch_dropped():
                _abort(request)
                return

    async def faults(self, request: web.Request) -> web.Response:
        """The probabilities in force."""
        del request
        return web.Response(body=self._encode(self._engine.dice.faults), content_type=JSON)

    async def set_faults(self, request: web.Request) -> web.Response:
        """Replace the probabilities; what is left out becomes 0."""
        try:
            faults = msgspec.json.decode(await request.read(), type=Faults)
        except msgspec.DecodeError as error:
            return web.Response(status=400, text=str(error))
        self._engine.dice.faults = faults
        return await self.faults(request)

    async def fail_pod(self, request: web.Request) -> web.Response:
        """End one pod badly; 404 when there is none that could."""
        name, reason = request.match_info["name"], request.query.get("reason", "Error")
        failed = await self._engine.change(lambda pods, _: pods.fail_pod(name, reason))
        return web.json_response({"failed": int(bool(failed))}, status=200 if failed else 404)

    async def let_go(self, request: web.Request) -> web.Response:
        """Take away the finalizers of one pod; 404 when it has none."""
        name = request.match_info["name"]
        done = await self._engine.change(lambda pods, _: pods.let_go(name))
        return web.json_response({"let_go": int(bool(done))}, status=200 if done else 404)

    async def set_quota(self, request: web.Request) -> web.Response:
        """The most pods of a namespace; it holds until the process ends."""
        name = request.match_info["name"]
        try:
            most = int(request.query.get("pods", ""))
        except ValueError:
            return web.Response(status=400, text="pods: must be an integer")
        await self._engine.change(lambda pods, _: pods.quotas.update({name: most}))
        return web.json_response({"pods": most})

    async def change_node(self, request: web.Request) -> web.Response:
        """Fail a node's pods, or change what is heard of it."""
        name, action = request.match_info["name"], request.match_info["action"]
        reason = request.query.get("reason", "NodeFailed")
        if action == "fail":
            pods = await self._engine.change(lambda pods, _: pods.fail_node(name, reason))
        elif action in NODE_ACTIONS:
            act = NODE_ACTIONS[action]
            pods = await self._engine.change(lambda pods, now_ms: act(pods, name, now_ms))
        else:
            known = ", ".join(("fail", *NODE_ACTIONS))
            return web.Response(status=404, text=f"{action}: must be one of {known}")
        return web.json_response({"pods": pods or 0})

    async def health(self, request: web.Request) -> web.Response:
        """Whether the process answers, and how many pods it holds."""
        del request
        return web.json_response(
            {"pods": self._engine.pods, "version": self._engine.window.version}
        )


def seeded_dice(faults: Faults, seed: int, starts: int) -> Dice:
    """Dice of one start of the process: the same run again draws the same."""
    return Dice(faults, f"{seed}/{starts}")


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
