"""The table of routes: what exists, what it does, permitted roles, what comes in and goes out.

The dispatcher, the authorisation of the middleware, docs/openapi.json and the test matrix of
roles are all made from it. `handler` names a function of the module after the colon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from services.gateway.api.organisation_routes import organisation_routes
from services.gateway.fleet import views as fleet_views
from services.gateway.http.authorisation import Action
from services.gateway.http.bodies import BATCH_BYTES_MAX
from services.gateway.http.route import (
    AFTER,
    AT,
    BEFORE,
    CURSOR,
    DRY_RUN,
    EVENTS_SINCE,
    FILTERS,
    FOLLOW,
    FOR_TEAM,
    IDEMPOTENCY_KEY,
    LAST_EVENT_ID,
    LIMIT,
    NEWEST,
    PREVIOUS,
    RANK,
    SINCE,
    SINCE_SECONDS,
    TAIL,
    TEAM,
    Parameter,
    Route,
)
from services.gateway.submissions import submission_views
from services.gateway.usage import (
    rightsize_reads,
    rightsize_views,
    usage_reads,
    usage_views,
    week_reads,
    week_views,
)
from services.gateway.why import eta_views, why_views
from services.gateway.workloads import command_views, workload_views
from shared.events.submission_faults import further_rules, further_rules_of_batch

COMMANDS: Final[dict[str, tuple[Action, Any]]] = {
    "cancel": (Action.CONTROL_WORKLOAD, command_views.EmptyRequest),
    "hold": (Action.CONTROL_WORKLOAD, command_views.EmptyRequest),
    "release": (Action.CONTROL_WORKLOAD, command_views.EmptyRequest),
    "reprioritise": (Action.CONTROL_WORKLOAD, command_views.ReprioritiseRequest),
    "resize": (Action.CONTROL_WORKLOAD, command_views.ResizeRequest),
    "evict": (Action.EVICT_WORKLOAD, command_views.EvictRequest),
}
NODE_COMMANDS: Final[dict[str, tuple[str, Any]]] = {
    "cordon": ("Start nothing more on a node.", command_views.NodeRequest),
    "drain": (
        "Start nothing more on a node, and evict with grace what runs there.",
        command_views.NodeRequest,
    ),
    "uncordon": ("Let a node take work again.", command_views.NodeRequest),
    "fence": (
        "Say that the machine of a lost node is off: its pods count as gone.",
        command_views.NodeRequest,
    ),
    "restore": (
        "Vouch for one GPU of a node: it takes work again.",
        command_views.RestoreRequest,
    ),
}


def _routes() -> Iterator[Route]:
    yield from _open_routes()
    yield from _submission_routes()
    yield from _workload_routes()
    yield from _history_routes()
    yield from _pod_routes()
    yield from _command_routes()
    yield from _fleet_routes()
    yield from organisation_routes()


def _open_routes() -> Iterator[Route]:
    for path, name, summary in (
        ("/healthz", "healthz", "Whether the process lives."),
        ("/readyz", "readyz", "Whether requests can be accepted now."),
        ("/openapi.json", "openapi", "This document."),
    ):
        yield Route(method="GET", path=path, name=name, summary=summary, action=None)
    yield Route(
        method="GET",
        path="/metrics",
        name="metrics",
        summary="Prometheus metrics; for operators, or from the machine itself.",
        action=Action.READ_METRICS,
    )


def _submission_routes() -> Iterator[Route]:
    yield Route(
        method="POST",
        path="/v1/workloads",
        name="submit",
        tokens=5,
        summary="Submit a workload.",
        action=Action.SUBMIT_WORKLOAD,
        request=submission_views.SpecRequest,
        further=further_rules,
        answers=((202, submission_views.Accepted), (200, submission_views.DryRun)),
        parameters=(IDEMPOTENCY_KEY, DRY_RUN, FOR_TEAM),
    )
    yield Route(
        method="POST",
        path="/v1/workloads:batch",
        name="submit_batch",
        summary="Submit up to 1,000 workloads at once.",
        action=Action.SUBMIT_WORKLOAD,
        request=submission_views.BatchRequest,
        further=further_rules_of_batch,
        answers=((202, submission_views.BatchAccepted),),
        parameters=(FOR_TEAM,),
        body_bytes_max=BATCH_BYTES_MAX,
    )


def _workload_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/workloads",
        name="list_workloads",
        tokens=2,
        summary="List workloads, the newest first.",
        action=Action.READ_WORKLOAD,
        answers=((200, workload_views.WorkloadPage),),
        parameters=FILTERS,
    )
    yield Route(
        method="GET",
        path="/v1/workloads/{id}",
        name="get_workload",
        summary="Read one workload.",
        action=Action.READ_WORKLOAD,
        answers=((200, workload_views.WorkloadView),),
    )
    yield Route(
        method="GET",
        path="/v1/workloads/{id}/why",
        name="why",
        tokens=5,
        summary="Why a workload stands where it stands.",
        action=Action.READ_WORKLOAD,
        answers=((200, why_views.Why),),
        parameters=(AT,),
    )
    yield Route(
        method="GET",
        path="/v1/workloads/{id}/eta",
        name="eta",
        tokens=5,
        summary="When a workload is likely to start and to end.",
        action=Action.READ_WORKLOAD,
        answers=((200, eta_views.Eta),),
    )


def _history_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/preemptions",
        name="list_preemptions",
        summary="List preemptions, the newest first.",
        action=Action.READ_WORKLOAD,
        answers=((200, why_views.PreemptionPage),),
        parameters=(TEAM, SINCE, LIMIT, CURSOR),
    )
    yield from _usage_routes()
    for path, name in (("/v1/workloads/{id}/events", "workload_events"), ("/v1/events", "events")):
        yield Route(
            method="GET",
            path=path,
            name=name,
            summary="Recorded events; a stream for `Accept: text/event-stream`.",
            streams=True,
            action=Action.READ_WORKLOAD,
            answers=((200, workload_views.EventPage),),
            parameters=(AFTER, BEFORE, NEWEST, EVENTS_SINCE, LAST_EVENT_ID, LIMIT, TEAM),
        )


def _usage_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/usage",
        name="get_usage",
        tokens=20,
        summary="Sum up GPU-hours of some days: held, used, unused, unmeasured, and their cost.",
        action=Action.READ_TEAM,
        answers=((200, usage_views.UsageReport),),
        parameters=(
            usage_reads.BY,
            usage_reads.LABEL,
            usage_reads.DAY_SINCE,
            usage_reads.DAY_UNTIL,
            TEAM,
            LIMIT,
        ),
    )
    yield Route(
        method="GET",
        path="/v1/usage/charges",
        name="list_charges",
        summary="List what each workload held of a flavor in each day, at each price.",
        action=Action.READ_TEAM,
        answers=((200, usage_views.UsageChargePage),),
        parameters=(usage_reads.DAY_SINCE, usage_reads.DAY_UNTIL, TEAM, LIMIT, CURSOR),
    )
    yield Route(
        method="GET",
        path="/v1/rightsize",
        name="get_rightsize",
        tokens=20,
        summary="Name work that would have done with less, with the evidence and the saving.",
        action=Action.READ_TEAM,
        answers=((200, rightsize_views.RightsizeReport),),
        parameters=(rightsize_reads.SINCE_WEEKS, TEAM, LIMIT),
    )
    yield Route(
        method="GET",
        path="/v1/report",
        name="get_week",
        tokens=20,
        summary="A week of teams: GPU-hours, money, waits, evictions, failures and savings.",
        action=Action.READ_TEAM,
        answers=((200, week_views.WeekReport),),
        parameters=(week_reads.OF_WEEK, TEAM),
    )


def _pod_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/workloads/{id}/logs",
        name="logs",
        summary="What a pod of a workload has written, passed on as it comes.",
        action=Action.READ_WORKLOAD,
        text="Standard output and error of the container, as they were written.",
        parameters=(RANK, FOLLOW, PREVIOUS, TAIL, SINCE_SECONDS),
    )
    yield Route(
        method="POST",
        path="/v1/workloads/{id}/exec",
        name="exec",
        summary="Run a command in a pod of a workload; it is noted in the audit first.",
        action=Action.EXEC_WORKLOAD,
        request=command_views.ExecRequest,
        text="JSON by lines: `stdout` or `stderr` with a piece of output in base64, and last "
        "`exit_code`, or `error` where the command could not run. Without that end it was cut.",
        text_type="application/x-ndjson",
    )


def _command_routes() -> Iterator[Route]:
    for verb, (action, request) in COMMANDS.items():
        yield Route(
            method="POST",
            path="/v1/workloads/{id}/" + verb,
            name=f"command_{verb}",
            summary=f"{verb.capitalize()} one workload.",
            action=action,
            request=request,
            answers=((202, command_views.Commanded),),
            body_optional=verb not in ("reprioritise", "resize"),
        )
        yield Route(
            method="POST",
            path=f"/v1/workloads:{verb}",
            name=f"bulk_{verb}",
            summary=f"{verb.capitalize()} up to 1,000 workloads of a team.",
            action=action,
            request=command_views.Selection,
            answers=((202, command_views.BulkCommanded),),
        )


def _fleet_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/nodes",
        name="list_nodes",
        summary="List nodes by name, with what is used of them.",
        action=Action.READ_FLEET,
        answers=((200, fleet_views.NodePage),),
        parameters=(
            Parameter(name="flavor", text="Only of this flavor."),
            Parameter(name="pool", text="Only of this pool."),
            LIMIT,
            CURSOR,
        ),
    )
    yield Route(
        method="GET",
        path="/v1/nodes:summary",
        name="summarise_nodes",
        tokens=20,
        summary="Sum up the nodes by flavor, with the largest gang that fits at each level.",
        action=Action.READ_FLEET,
        answers=((200, fleet_views.FleetSummary),),
        parameters=(Parameter(name="flavor", text="Only of this flavor."),),
    )
    yield Route(
        method="GET",
        path="/v1/nodes/{name}",
        name="get_node",
        summary="Read one node with its devices, and which of the caller's workloads hold them.",
        action=Action.READ_FLEET,
        answers=((200, fleet_views.NodeView),),
    )
    for verb, (summary, request) in NODE_COMMANDS.items():
        yield Route(
            method="POST",
            path="/v1/nodes/{name}/" + verb,
            name=f"node_{verb}",
            summary=summary,
            action=Action.CONTROL_FLEET,
            request=request,
            answers=((202, command_views.NodeCommanded),),
            body_optional=verb != "restore",
        )


ROUTES: Final = tuple(_routes())
