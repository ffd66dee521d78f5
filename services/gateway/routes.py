"""The table of routes: what exists, what it does, who may, what comes in and what goes out.

The dispatcher, the authorisation of the middleware, docs/openapi.json and the test matrix of
roles are all made from it. `handler` names a function of the module after the colon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from services.gateway import views, why_views
from services.gateway.authorisation import Action
from services.gateway.bodies import BATCH_BYTES_MAX, BODY_BYTES_MAX
from services.gateway.documents import COLLECTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter or header; all are optional text with a bound."""

    name: str
    text: str
    place: str = "query"
    kind: str = "string"
    length_max: int = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row. `name` picks the handler; `action` None is open to everybody."""

    method: str
    path: str
    name: str
    summary: str
    action: Action | None
    request: Any = None
    answers: tuple[tuple[int, Any], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body_bytes_max: int = BODY_BYTES_MAX
    body_optional: bool = False


LIMIT: Final = Parameter(
    name="limit", kind="integer", text="Items of a page, 1 to 1000; 100 if not said."
)
CURSOR: Final = Parameter(name="cursor", text="`next_cursor` of the page before.")
TEAM: Final = Parameter(name="team", text="Only of this team.")
FOR_TEAM: Final = Parameter(
    name="team", text="Only for operators: the team to submit for; others submit for their own."
)
AFTER: Final = Parameter(name="after", kind="integer", text="Only events behind this id.")
LAST_EVENT_ID: Final = Parameter(
    name="Last-Event-ID", place="header", text="As `after`, from a broken stream."
)
IDEMPOTENCY_KEY: Final = Parameter(
    name="Idempotency-Key",
    place="header",
    length_max=200,
    text="The same key gives the same workload, however often; 1 to 200 printable characters.",
)
SINCE: Final = Parameter(
    name="since", kind="integer", text="Only from this time on, Unix milliseconds."
)
AT: Final = Parameter(
    name="at", kind="integer", text="A moment in the past, Unix milliseconds: why it was so then."
)
DRY_RUN: Final = Parameter(
    name="dryRun", kind="boolean", text="Only say what would become of it; change nothing."
)
IF_MATCH: Final = Parameter(
    name="If-Match", place="header", text="ETag of the version that is meant to be replaced."
)
IF_NONE_MATCH: Final = Parameter(
    name="If-None-Match", place="header", text="`*`: only create, never replace."
)
_FILTERS: Final = (
    TEAM,
    Parameter(name="queue", text="Only in this queue."),
    Parameter(name="state", text="Only in these states, comma-separated."),
    Parameter(name="kind", text="Only of this kind."),
    Parameter(name="name", text="Only with exactly this name."),
    Parameter(
        name="label",
        text="`key=value` or `key`; comma-separated ones must all hold.",
        length_max=2048,
    ),
    LIMIT,
    CURSOR,
)
COMMANDS: Final[dict[str, tuple[Action, Any]]] = {
    "cancel": (Action.CONTROL_WORKLOAD, views.EmptyRequest),
    "hold": (Action.CONTROL_WORKLOAD, views.EmptyRequest),
    "release": (Action.CONTROL_WORKLOAD, views.EmptyRequest),
    "reprioritise": (Action.CONTROL_WORKLOAD, views.ReprioritiseRequest),
    "resize": (Action.CONTROL_WORKLOAD, views.ResizeRequest),
    "evict": (Action.EVICT_WORKLOAD, views.EvictRequest),
}
NODE_COMMANDS: Final = {
    "cordon": "Start nothing more on a node.",
    "drain": "Start nothing more on a node, and evict with grace what runs there.",
    "uncordon": "Let a node take work again.",
}
_STATUS: Final = {"type": "object"}


def _routes() -> Iterator[Route]:
    yield from _open_routes()
    yield from _submission_routes()
    yield from _workload_routes()
    yield from _command_routes()
    yield from _fleet_routes()
    yield from _organisation_routes()
    yield from _key_routes()


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
        summary="Submit a workload.",
        action=Action.SUBMIT_WORKLOAD,
        request=views.SpecRequest,
        answers=((202, views.Accepted), (200, views.DryRun)),
        parameters=(IDEMPOTENCY_KEY, DRY_RUN, FOR_TEAM),
    )
    yield Route(
        method="POST",
        path="/v1/workloads:batch",
        name="submit_batch",
        summary="Submit up to 1,000 workloads at once.",
        action=Action.SUBMIT_WORKLOAD,
        request=views.BatchRequest,
        answers=((202, views.BatchAccepted),),
        parameters=(FOR_TEAM,),
        body_bytes_max=BATCH_BYTES_MAX,
    )


def _workload_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/workloads",
        name="list_workloads",
        summary="List workloads, the newest first.",
        action=Action.READ_WORKLOAD,
        answers=((200, views.WorkloadPage),),
        parameters=_FILTERS,
    )
    yield Route(
        method="GET",
        path="/v1/workloads/{id}",
        name="get_workload",
        summary="Read one workload.",
        action=Action.READ_WORKLOAD,
        answers=((200, views.WorkloadView),),
    )
    yield Route(
        method="GET",
        path="/v1/workloads/{id}/why",
        name="why",
        summary="Why a workload stands where it stands.",
        action=Action.READ_WORKLOAD,
        answers=((200, why_views.Why),),
        parameters=(AT,),
    )
    yield Route(
        method="GET",
        path="/v1/preemptions",
        name="list_preemptions",
        summary="List preemptions, the newest first.",
        action=Action.READ_WORKLOAD,
        answers=((200, why_views.PreemptionPage),),
        parameters=(TEAM, SINCE, LIMIT, CURSOR),
    )
    for path, name in (("/v1/workloads/{id}/events", "workload_events"), ("/v1/events", "events")):
        yield Route(
            method="GET",
            path=path,
            name=name,
            summary="Recorded events; a stream for `Accept: text/event-stream`.",
            action=Action.READ_WORKLOAD,
            answers=((200, views.EventPage),),
            parameters=(AFTER, LAST_EVENT_ID, LIMIT, TEAM),
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
            answers=((202, views.Commanded),),
            body_optional=verb not in ("reprioritise", "resize"),
        )
        yield Route(
            method="POST",
            path=f"/v1/workloads:{verb}",
            name=f"bulk_{verb}",
            summary=f"{verb.capitalize()} up to 1,000 workloads of a team.",
            action=action,
            request=views.Selection,
            answers=((202, views.BulkCommanded),),
        )


def _fleet_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/nodes",
        name="list_nodes",
        summary="List nodes by name, with what is used of them.",
        action=Action.READ_FLEET,
        answers=((200, views.NodePage),),
        parameters=(
            Parameter(name="flavor", text="Only of this flavor."),
            Parameter(name="pool", text="Only of this pool."),
            LIMIT,
            CURSOR,
        ),
    )
    yield Route(
        method="GET",
        path="/v1/nodes/{name}",
        name="get_node",
        summary="Read one node with its devices.",
        action=Action.READ_FLEET,
        answers=((200, views.NodeView),),
    )
    for verb, summary in NODE_COMMANDS.items():
        yield Route(
            method="POST",
            path="/v1/nodes/{name}/" + verb,
            name=f"node_{verb}",
            summary=summary,
            action=Action.CONTROL_FLEET,
            request=views.NodeRequest,
            answers=((202, views.NodeCommanded),),
            body_optional=True,
        )


def _organisation_routes() -> Iterator[Route]:
    for collection in COLLECTIONS:
        of_teams = collection.path in ("teams", "queues")
        read = Action.READ_TEAM if of_teams else Action.READ_CATALOGUE
        is_queue = collection.path == "queues"
        one: Any = views.QueueView if is_queue else collection.view
        page: Any = views.QueuePage if is_queue else page_of(collection.view)
        names = collection.path.replace("-", "_")
        yield Route(
            method="GET",
            path=f"/v1/{collection.path}",
            name=f"list_{names}",
            summary=f"List {collection.path}.",
            action=read,
            answers=((200, page),),
            parameters=(TEAM,) if of_teams else (),
        )
        yield Route(
            method="GET",
            path=f"/v1/{collection.path}/{{name}}",
            name=f"get_{names}",
            summary=f"Read one of {collection.path}.",
            action=read,
            answers=((200, one),),
        )
        yield Route(
            method="PUT",
            path=f"/v1/{collection.path}/{{name}}",
            name=f"put_{names}",
            summary=f"Make one of {collection.path} so; the same again changes nothing.",
            action=Action.APPLY_ORGANISATION,
            request=collection.request,
            answers=((200, collection.view), (201, collection.created)),
            parameters=(IF_MATCH, IF_NONE_MATCH),
        )


def page_of(view: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """All documents of a collection."""
    return msgspec.defstruct(
        f"{view.__name__}Page",
        [("items", tuple[view, ...]), ("next_cursor", str, "")],  # type: ignore[valid-type]  # built at run time
        kw_only=True,
        frozen=True,
        namespace={"__doc__": "All that the caller may see."},
    )


def _key_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/teams/{name}/keys",
        name="list_keys",
        summary="List the API keys of a team, without their secrets.",
        action=Action.MANAGE_KEYS,
        answers=((200, views.KeyPage),),
    )
    yield Route(
        method="POST",
        path="/v1/teams/{name}/keys",
        name="create_key",
        summary="Make an API key; its secret is shown this once.",
        action=Action.MANAGE_KEYS,
        request=views.KeyRequest,
        answers=((201, views.NewKeyView),),
    )
    yield Route(
        method="DELETE",
        path="/v1/teams/{name}/keys/{prefix}",
        name="revoke_key",
        summary="Make a key useless, everywhere within five seconds.",
        action=Action.MANAGE_KEYS,
        answers=((204, None),),
    )
    yield Route(
        method="POST",
        path="/v1/teams/{name}/kafka-password",
        name="create_kafka_password",
        summary="Give the team's Kafka user a new password; it is shown this once.",
        action=Action.MANAGE_KEYS,
        request=views.EmptyRequest,
        answers=((201, views.KafkaUserView),),
        body_optional=True,
    )


ROUTES: Final = tuple(_routes())
