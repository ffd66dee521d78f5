"""The one way in: each route of the table has its handler, behind one middleware.

The dispatcher is made from the table of routes; a route without a handler, or a handler without
a route, stops the process at start. Whatever goes wrong is answered as a problem document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from services.gateway import fleet
from services.gateway.api import open_routes
from services.gateway.api.routes import COMMANDS, NODE_COMMANDS, ROUTES
from services.gateway.app.authentication import authenticated
from services.gateway.app.context import GatewayContext, problem_answer
from services.gateway.app.endpoint import Endpoint, Handler
from services.gateway.documents.documents import COLLECTIONS
from services.gateway.events import streams
from services.gateway.fleet import node_commands
from services.gateway.http import bodies
from services.gateway.http.problems import Problem, not_found, unavailable
from services.gateway.notifications import destinations
from services.gateway.organisation import (
    deleting,
    kafka_routes,
    key_routes,
    organisation_routes,
    whole,
)
from services.gateway.pods import exec as pods_exec
from services.gateway.pods import logs
from services.gateway.protocol import SERVER_NAME, compress, revalidated
from services.gateway.queues import cohort_reads, queue_reads
from services.gateway.submissions import submissions
from services.gateway.usage import charge_reads, rightsize_reads, usage_reads, week_reads
from services.gateway.why import eta, preemption_reads, why
from services.gateway.workloads import commands, workload_reads
from shared.ports.errors import MusterError

DOOR: Final = web.AppKey("door", GatewayContext)

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
    "eta": eta.eta,
    "logs": logs.logs,
    "exec": pods_exec.execute,
    "get_usage": usage_reads.get_usage,
    "list_charges": charge_reads.list_charges,
    "get_rightsize": rightsize_reads.get_rightsize,
    "get_week": week_reads.get_week,
    "list_preemptions": preemption_reads.list_preemptions,
    "workload_events": streams.workload_events,
    "events": streams.events,
    **{f"command_{verb}": commands.command for verb in COMMANDS},
    **{f"bulk_{verb}": commands.bulk for verb in COMMANDS},
    "list_nodes": fleet.list_nodes,
    "get_node": fleet.get_node,
    "summarise_nodes": fleet.summarise_nodes,
    **{f"node_{verb}": node_commands.command for verb in NODE_COMMANDS},
    "list_queues": queue_reads.list_queues,
    "get_queues": queue_reads.get_queue,
    **{
        f"{verb}_{name}": handler
        for name in ("teams", "flavors", "priority_classes", "notifications")
        for verb, handler in (
            ("list", organisation_routes.list_documents),
            ("get", organisation_routes.get_document),
        )
    },
    "list_cohorts": cohort_reads.list_cohorts,
    "get_cohorts": cohort_reads.get_cohort,
    **{
        f"{verb}_{collection.path.replace('-', '_')}": handler
        for collection in COLLECTIONS
        for verb, handler in (
            ("put", organisation_routes.put_document),
            ("patch", organisation_routes.patch_document),
            ("delete", deleting.delete_document),
        )
    },
    "list_destinations": destinations.list_destinations,
    "try_destination": destinations.try_destination,
    "get_organisation": whole.get_organisation,
    "rehearse_organisation": whole.dry_run,
    "whoami": key_routes.whoami,
    "list_keys": key_routes.list_keys,
    "create_key": key_routes.create_key,
    "revoke_key": key_routes.revoke_key,
    "create_kafka_password": kafka_routes.create_password,
}


def application(gateway: GatewayContext) -> web.Application:
    """All routes of the table, behind the one middleware."""
    app = web.Application(middlewares=[_finished], client_max_size=bodies.BATCH_BYTES_MAX)
    app[DOOR] = gateway
    app.on_response_prepare.append(_without_version)
    for route in ROUTES:
        endpoint = Endpoint(gateway, route, HANDLERS[route.name])
        app.router.add_route(route.method, route.path, endpoint.serve)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, endpoint.serve)
    return app


async def _without_version(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER_NAME


@web.middleware
async def _finished(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """The answer of a route, or of its failure, as the rules of HTTP want it."""
    response = revalidated(request, await _problems(request, handler))
    compress(request, response)
    return response


async def _problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer every failure as a problem document."""
    try:
        return await _routed(request, handler)
    except Problem as problem:
        return problem_answer(problem)
    except (MusterError, TimeoutError) as error:
        request.app[DOOR].log.warning("unavailable", path=request.path, error=str(error))
        return problem_answer(unavailable("try the same again in a moment"))
    except (ConnectionResetError, HttpProcessingError):
        raise  # the client has left, or talks no HTTP: no answer can be sent
    except Exception as error:
        gateway = request.app[DOOR]
        gateway.log.exception("failed", path=request.path, error=type(error).__name__)
        return problem_answer(Problem(500, "failed", "see the log of the gateway"))


async def _routed(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return await _unrouted(request, error)


async def _unrouted(request: web.Request, error: web.HTTPException) -> web.StreamResponse:
    """404 and 405 only for callers with a key: no other caller learns what exists."""
    await authenticated(request.app[DOOR], request, None)
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
