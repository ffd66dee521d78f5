"""Routes of teams, queues, cohorts, flavors and priority classes: read, and make it so.

A document is applied with its fact in one unit of work. Versions guard it: `If-Match` names the
version that is meant, and two writers at once are told apart by the database. The same content
again is no change, whatever the conditions say, because then what was asked for is so.

A team can begin at once: with it come its default queue, without quota until an operator gives it
one, its topics and a user on the broker, and a first key (ADR 20). All is one unit of work.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection as Names
from typing import Any

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import check_names, missing
from services.gateway.documents.document_rules import problems_of
from services.gateway.documents.documents import (
    BY_PATH,
    DocumentCollection,
    applied_of,
    says_the_same,
)
from services.gateway.documents.key_views import KafkaUserView
from services.gateway.documents.keys import NewKey
from services.gateway.http.authorisation import AccessVerdict, Action, authorise
from services.gateway.http.problems import invalid
from services.gateway.organisation.conditions import check_conditions
from services.gateway.organisation.kafka_routes import first_password
from services.gateway.organisation.merging import patched
from services.gateway.organisation.products import reported_products
from services.gateway.organisation.protection import check_protection
from services.gateway.organisation.writing import RACES_MAX, apply_wanted, busy
from shared.ports.errors import Stale

Revision = Callable[[Any], Any]
"""What becomes of a document as it is, or of None: its next version; raises Problem."""


def collection_of(call: RequestContext) -> DocumentCollection:
    """The collection that the route is about."""
    return BY_PATH[call.route.path.split("/")[2]]


def team_of(document: Any) -> str | None:  # noqa: ANN401  # one of Applied
    """The team that owns the document; None for what belongs to all."""
    kind = type(document).__name__
    if kind == "TeamApplied":
        return str(document.name)
    if kind == "NotificationApplied":
        return str(document.team) or None
    return str(document.team) if kind == "QueueApplied" else None


async def list_documents(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """All documents of a collection that the caller may see, by name."""
    collection = collection_of(call)
    of_teams = collection.path in {"teams", "notifications"}
    team = call.team_filter() if of_teams else None
    documents = (await gateway.organisation.current()).of(collection.kind)
    if collection.path == "teams" and team is not None and team not in documents:
        await check_names(gateway, call, team=team)
    items = [
        collection.view_of(documents[name])
        for name in sorted(documents)
        if team is None or team_of(documents[name]) == team
    ]
    return answer({"items": items, "next_cursor": ""})


async def get_document(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One document with its ETag."""
    collection = collection_of(call)
    document = await document_of(gateway, call, collection)
    return answer(collection.view_of(document), 200, etag(document))


async def document_of(
    gateway: GatewayContext, call: RequestContext, collection: DocumentCollection
) -> Any:  # noqa: ANN401  # one of Applied
    """The document of the path, if the caller may see it; as new as the database."""
    name = call.part("name")
    documents = (await gateway.organisation.refresh()).of(collection.kind)
    readable = [
        one
        for one, document in documents.items()
        if authorise(call.subject, Action.READ_TEAM, team_of(document)) is AccessVerdict.ALLOWED
    ]
    if name not in readable:
        raise missing(collection.kind, name, readable)
    document = documents[name]
    call.require(team_of(document), f"{collection.kind} {name}")
    return document


def etag(document: Any) -> dict[str, str]:  # noqa: ANN401  # one of Applied
    """The version as an ETag."""
    return {"ETag": f'"{document.version}"'}


async def put_document(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Replace a document, or make it: 201 for a new one, 200 otherwise."""
    collection, name = collection_of(call), call.part("name")
    return await _make_so(
        gateway, call, collection, lambda _: applied_of(collection, name, call.body)
    )


async def patch_document(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Merge fields into a document, or into the defaults: 201 for a new one, 200 otherwise."""
    collection, name = collection_of(call), call.part("name")
    return await _make_so(
        gateway, call, collection, lambda before: patched(collection, name, before, call.body)
    )


async def _make_so(
    gateway: GatewayContext, call: RequestContext, collection: DocumentCollection, change: Revision
) -> web.Response:
    call.require(None, action=Action.APPLY_ORGANISATION)
    async with gateway.organising:
        return await _apply_change(gateway, call, collection, change)


async def _apply_change(
    gateway: GatewayContext, call: RequestContext, collection: DocumentCollection, change: Revision
) -> web.Response:
    for _ in range(RACES_MAX):
        organisation = await gateway.organisation.refresh()
        before = organisation.of(collection.kind).get(call.part("name"))
        wanted = change(before)
        if before is not None and says_the_same(before, wanted):
            return answer(collection.view_of(before), 200, etag(before))
        check_conditions(call, before)
        await check_protection(gateway, call, before, wanted)
        errors = problems_of(
            wanted,
            organisation,
            await _products(gateway, collection),
            gateway.settings.networks,
        )
        if errors:
            raise invalid(errors)
        try:
            after, key = await apply_wanted(
                gateway, collection, wanted, organisation, call.subject.name
            )
        except Stale:
            continue
        if before is not None:
            return answer(collection.view_of(after), 200, etag(after))
        has_kafka = collection.kind == "team" and after.kafka
        user = await first_password(gateway, after.name) if has_kafka else None
        return _created(collection, after, key, user)
    raise busy()


async def _products(gateway: GatewayContext, collection: DocumentCollection) -> Names[str]:
    """What nodes report, for those documents that name it."""
    if collection.kind != "flavor":
        return ()
    return await reported_products(gateway)


def _created(
    collection: DocumentCollection,
    after: Any,  # noqa: ANN401  # one of Applied
    key: NewKey | None,
    user: KafkaUserView | None,
) -> web.Response:
    """201; a new team's first key and its Kafka password are shown this once."""
    view = msgspec.to_builtins(collection.view_of(after))
    headers = etag(after)
    if key is not None:
        view["key"] = key.text
        view["kafka_user"] = user
        headers["Cache-Control"] = "no-store"
    return answer(view, 201, headers)
