"""Routes of the organisation: its documents, destinations of notifications, keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from services.gateway.documents import key_views, organisation_views
from services.gateway.documents.documents import COLLECTIONS
from services.gateway.http.authorisation import Action
from services.gateway.http.bodies import BATCH_BYTES_MAX
from services.gateway.http.route import FORCE, IF_MATCH, IF_NONE_MATCH, MERGE_PATCH, TEAM, Route
from services.gateway.notifications import views as notification_views
from services.gateway.queues import queue_views
from services.gateway.workloads import command_views


def organisation_routes() -> Iterator[Route]:
    """All of them, in the order of the description."""
    yield from _document_routes()
    yield from _whole_organisation_routes()
    yield from _notification_routes()
    yield from _key_routes()


_READ: Final[dict[str, tuple[Any, Any]]] = {
    "queues": (queue_views.QueueView, queue_views.QueuePage),
    "cohorts": (queue_views.CohortStanding, queue_views.CohortPage),
}
"""What is read with its use; other documents are read as they were applied."""


def _document_routes() -> Iterator[Route]:
    for collection in COLLECTIONS:
        of_teams = collection.path in ("teams", "queues", "notifications")
        read = Action.READ_TEAM if of_teams else Action.READ_CATALOGUE
        one, page = _READ.get(collection.path) or (collection.view, page_of(collection.view))
        names = collection.path.replace("-", "_")
        guarded = collection.path == "priority-classes"
        conditions = (IF_MATCH, IF_NONE_MATCH, *((FORCE,) if guarded else ()))
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
            summary=f"Replace one of {collection.path}, or make it; needs every field.",
            action=Action.APPLY_ORGANISATION,
            request=collection.request,
            answers=((200, collection.view), (201, collection.created)),
            parameters=conditions,
        )
        yield Route(
            method="PATCH",
            path=f"/v1/{collection.path}/{{name}}",
            name=f"patch_{names}",
            summary=f"Change some fields of one of {collection.path}, or make it.",
            action=Action.APPLY_ORGANISATION,
            request=collection.patch,
            answers=((200, collection.view), (201, collection.created)),
            parameters=conditions,
            content_types=MERGE_PATCH,
            free_form=True,
        )
        yield Route(
            method="DELETE",
            path=f"/v1/{collection.path}/{{name}}",
            name=f"delete_{names}",
            summary=f"Delete one of {collection.path} that nothing uses; again changes nothing.",
            action=Action.APPLY_ORGANISATION,
            answers=((204, None),),
            parameters=(IF_MATCH,),
        )


def _whole_organisation_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/organisation",
        name="get_organisation",
        tokens=10,
        summary="Read all documents of the organisation as they were applied, of one moment.",
        action=Action.APPLY_ORGANISATION,
        answers=((200, organisation_views.OrganisationView),),
    )
    yield Route(
        method="POST",
        path="/v1/organisation:dry-run",
        name="rehearse_organisation",
        tokens=20,
        rehearses=True,
        summary="Say what would become of documents if they were applied; change nothing.",
        action=Action.APPLY_ORGANISATION,
        request=organisation_views.RehearsalRequest,
        answers=((200, organisation_views.Rehearsal),),
        parameters=(FORCE,),
        body_bytes_max=BATCH_BYTES_MAX,
        free_form=True,
    )


def _notification_routes() -> Iterator[Route]:
    yield Route(
        method="GET",
        path="/v1/destinations",
        name="list_destinations",
        summary="List destinations of notifications: what waits, and what went wrong.",
        action=Action.READ_TEAM,
        answers=((200, notification_views.DestinationPage),),
        parameters=(TEAM,),
    )
    yield Route(
        method="POST",
        path="/v1/notifications/{name}/test",
        name="try_destination",
        summary="Send a test to a destination at once.",
        action=Action.APPLY_ORGANISATION,
        request=command_views.EmptyRequest,
        answers=((202, notification_views.DestinationTried),),
        body_optional=True,
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
        path="/v1/whoami",
        name="whoami",
        summary="Whom the key makes of its caller, and which version answers.",
        action=Action.READ_TEAM,
        answers=((200, key_views.WhoAmI),),
    )
    yield Route(
        method="GET",
        path="/v1/teams/{name}/keys",
        name="list_keys",
        summary="List the API keys of a team, without their secrets.",
        action=Action.MANAGE_KEYS,
        answers=((200, key_views.KeyPage),),
    )
    yield Route(
        method="POST",
        path="/v1/teams/{name}/keys",
        name="create_key",
        summary="Make an API key; its secret is shown this once.",
        action=Action.MANAGE_KEYS,
        request=key_views.KeyRequest,
        answers=((201, key_views.NewKeyView),),
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
        request=command_views.EmptyRequest,
        answers=((201, key_views.KafkaUserView),),
        body_optional=True,
    )
