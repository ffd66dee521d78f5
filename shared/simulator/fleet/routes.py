"""Failures on demand, and the list of nodes.

GET  /v1/nodes                                  names, flavors, whether ready, failed GPUs
POST /v1/nodes/{name}/down, /v1/nodes/{name}/up   ?reason=
POST /v1/nodes/{name}/gpus/{index}/fail, .../heal  ?reason=
POST /v1/nodes/{name}/gpus/{index}/tell  ?kind=xid&code=48  (kinds of core/health/events.py)
POST /v1/nodes/{name}/gpus/{index}/thermal, .../leak  until kind=returned is told of the GPU
POST /v1/nodes/{name}/silent           ?seconds=0  no use is reported; 0: until then, too
POST /v1/nodes/{name}/notice                       ?seconds=120&reason=
POST /v1/workloads/{id}/use                        ?percent=0  (100: as other work)
GET  /healthz, /readyz
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp
from aiohttp import web

from shared.core.health.events import DETAIL_CHARACTERS_MAX, HealthEventKind
from shared.ports.clock import Clock
from shared.simulator.disorders import Disorder
from shared.simulator.machine import Machine

SECONDS_DIGITS_MAX: Final = 6
PERCENT_MAX: Final = 100
USE_MAX: Final = 10_000
"""Workloads with remembered use."""
NodeChanged = Callable[[str, bool], Awaitable[None]]


class FleetRoutes:
    """Handlers around the machines; `node_changed` tells the cluster, `poke` the reporter.

    `use` is how much of their GPUs some workloads use, in per cent.
    """

    def __init__(
        self,
        machines: Mapping[str, Machine],
        *,
        clock: Clock,
        poke: Callable[[], None],
        ready: Callable[[], bool],
        node_changed: NodeChanged,
        use: dict[str, int] | None = None,
    ) -> None:
        self._use = {} if use is None else use
        self._machines = machines
        self._clock = clock
        self._poke = poke
        self._ready = ready
        self._node_changed = node_changed

    def application(self) -> web.Application:
        """The application with all routes."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self.healthz),
                web.get("/readyz", self.readyz),
                web.get("/v1/nodes", self.nodes),
                web.post("/v1/nodes/{name}/{action:down|up}", self.change_node),
                web.post("/v1/nodes/{name}/notice", self.notice),
                web.post("/v1/nodes/{name}/silent", self.silent),
                web.post("/v1/workloads/{id}/use", self.set_use),
                web.post(
                    "/v1/nodes/{name}/gpus/{index:[0-9]+}/{action:fail|heal}", self.change_gpu
                ),
                web.post("/v1/nodes/{name}/gpus/{index:[0-9]+}/tell", self.tell),
                web.post(
                    "/v1/nodes/{name}/gpus/{index:[0-9]+}/{action:thermal|leak}", self.disorder
                ),
            ]
        )
        return application

    async def healthz(self, request: web.Request) -> web.Response:
        """The process answers."""
        del request
        return web.json_response({"nodes": len(self._machines)})

    async def readyz(self, request: web.Request) -> web.Response:
        """Every node has been reported."""
        del request
        return web.Response(status=200 if self._ready() else 503)

    async def nodes(self, request: web.Request) -> web.Response:
        """All machines, in short."""
        del request
        nodes = [machine.inventory() for machine in self._machines.values()]
        return web.json_response(
            {
                "nodes": [
                    {
                        "name": node.name,
                        "flavor": node.flavor,
                        "ready": node.ready,
                        "gpus": len(node.gpus),
                        "failed_gpus": [gpu.index for gpu in node.gpus if not gpu.healthy],
                    }
                    for node in nodes
                ]
            }
        )

    async def change_node(self, request: web.Request) -> web.Response:
        """Take a node down or bring it back, first in the cluster; 502 when that fails.

        The cluster is told although the machine is so already: it outlives this process, which
        begins with every machine up.
        """
        machine = self._machine(request)
        ready = request.match_info["action"] == "up"
        reason = request.query.get("reason", "" if ready else "NodeDown")
        try:
            await self._node_changed(machine.name, ready)
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.Response(status=502, text=f"the cluster could not be told: {error}")
        changed = machine.set_ready(self._clock.now_ms(), ready=ready, reason=reason)
        self._poke()
        return web.json_response({"changed": changed})

    async def notice(self, request: web.Request) -> web.Response:
        """Announce that a node will be taken away, as a spot market does."""
        machine, seconds = self._machine(request), _seconds(request, "120")
        reason = request.query.get("reason", "spot")
        machine.notice(self._clock.now_ms(), seconds=seconds, reason=reason)
        self._poke()
        return web.json_response({"announced": True})

    async def silent(self, request: web.Request) -> web.Response:
        """No use is reported of a node for some seconds, or until a GPU of it is reset."""
        machine, seconds = self._machine(request), _seconds(request, "0")
        machine.mute(self._clock.now_ms(), seconds=seconds)
        return web.json_response({"silent": True})

    async def disorder(self, request: web.Request) -> web.Response:
        """Heat or a leak grows in a GPU."""
        machine = self._machine(request)
        index = int(request.match_info["index"])
        disorder = Disorder(request.match_info["action"])
        if not machine.disorder(index, self._clock.now_ms(), disorder):
            raise web.HTTPNotFound(text=f"{machine.name} has no GPU {index}")
        return web.json_response({"grows": True})

    async def change_gpu(self, request: web.Request) -> web.Response:
        """Fail or heal one GPU; what runs on it is placement's to move."""
        machine = self._machine(request)
        index = int(request.match_info["index"])
        if index >= len(machine.inventory().gpus):
            raise web.HTTPNotFound(text=f"{machine.name} has no GPU {index}")
        healthy = request.match_info["action"] == "heal"
        reason = request.query.get("reason", "" if healthy else "XID 79")
        changed = machine.set_gpu(index, self._clock.now_ms(), healthy=healthy, reason=reason)
        if changed:
            self._poke()
        return web.json_response({"changed": changed})

    async def tell(self, request: web.Request) -> web.Response:
        """The driver tells of a GPU; what follows is the ladder's."""
        machine = self._machine(request)
        index, kind = int(request.match_info["index"]), request.query.get("kind", "xid")
        if kind not in HealthEventKind.__members__.values():
            allowed = ", ".join(one.value for one in HealthEventKind)
            raise web.HTTPBadRequest(text=f"kind: {kind!r} is not one of {allowed}")
        code = request.query.get("code", "0")
        if not code.isdecimal() or len(code) > SECONDS_DIGITS_MAX:
            raise web.HTTPBadRequest(text=f"code: {code!r} is not a number from 0 to 999999")
        detail = request.query.get("detail", "")[:DETAIL_CHARACTERS_MAX]
        now_ms = self._clock.now_ms()
        if not machine.tell(index, now_ms, HealthEventKind(kind), code=int(code), detail=detail):
            raise web.HTTPNotFound(text=f"{machine.name} has no GPU {index}")
        self._poke()
        return web.json_response({"told": True})

    async def set_use(self, request: web.Request) -> web.Response:
        """Let a workload use so much of what it holds, from the next look at the cluster on."""
        text = request.query.get("percent", "0")
        if not text.isdecimal() or len(text) > SECONDS_DIGITS_MAX or int(text) > PERCENT_MAX:
            raise web.HTTPBadRequest(text=f"percent: {text!r} is not 0 to {PERCENT_MAX}")
        identifier = request.match_info["id"]
        self._use.pop(identifier, None)
        if int(text) < PERCENT_MAX:
            self._use[identifier] = int(text)
            if len(self._use) > USE_MAX:
                del self._use[next(iter(self._use))]
        return web.json_response({"percent": int(text)})

    def _machine(self, request: web.Request) -> Machine:
        name = request.match_info["name"]
        machine = self._machines.get(name)
        if machine is None:
            raise web.HTTPNotFound(text=f"no node {name}")
        return machine


def _seconds(request: web.Request, default: str) -> int:
    text = request.query.get("seconds", default)
    if not text.isdecimal() or len(text) > SECONDS_DIGITS_MAX:
        raise web.HTTPBadRequest(text=f"seconds: {text!r} is not a number of seconds")
    return int(text)
