"""DELETE of a document: refused while it is used, then a fact, and a version that stays (ADR 65).

The row stays without a body, so that a document that is made again goes on with the version after,
and no old fact is ever taken for a new one. A team takes its default queue, its keys and its
Kafka user with it. The same DELETE again is answered alike, whatever became of the first answer.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.app.submission_rows import cause_of
from services.gateway.documents.documents import (
    BY_KIND,
    Applied,
    DocumentCollection,
    Organisation,
    content,
)
from services.gateway.http.authorisation import Action
from services.gateway.http.problems import Problem, not_found
from services.gateway.organisation.conditions import check_conditions
from services.gateway.organisation.uses import WORK_OF, kind_of, title_of, uses_of
from services.gateway.organisation.writing import RACES_MAX, WHOLE, busy, withdraw_from_broker
from shared.core.model.decision import FieldError
from shared.events.organisation import DocumentDeleted, TeamApplied
from shared.events.topics import ORGANISATION_FACTS
from shared.ports.errors import Stale
from shared.ports.store import Write
from shared.runtime.handler import Change, Emit

SLUG: Final = "in-use"
_DELETE: Final = (
    "UPDATE gateway.document SET version = {2}::bigint, body = '', actor = {3}::text,"
    " at_ms = {4}::bigint, epoch = {epoch} WHERE kind = {0}::text AND name = {1}::text"
    " AND version = {2}::bigint - 1"
)
_UNLESS_USED: Final = " AND NOT EXISTS (SELECT 1 FROM gateway.workload w WHERE w.live AND "
_REVOKE_ALL: Final = (
    "UPDATE gateway.api_key SET revoked_at_ms = {0}::bigint WHERE team = {1}::text"
    " AND revoked_at_ms IS NULL RETURNING 1"
)


async def delete_document(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """204 once there is no such document; 409 with what uses it."""
    collection, name = collection_of_path(call.route.path), call.part("name")
    call.require(None, action=Action.APPLY_ORGANISATION)
    async with gateway.organising:
        for _ in range(RACES_MAX):
            organisation = await gateway.organisation.refresh()
            before = organisation.of(collection.kind).get(name)
            if before is None:
                return await _absent(gateway, organisation, collection, name)
            check_conditions(call, before)
            await _check_unused(gateway, organisation, before)
            try:
                await _delete(gateway, organisation, before, call.subject.name)
            except Stale:
                continue
            return await _absent(gateway, await gateway.organisation.refresh(), collection, name)
    raise busy()


async def _absent(
    gateway: GatewayContext, organisation: Organisation, collection: DocumentCollection, name: str
) -> web.Response:
    """It is deleted, and what it had on the broker is taken away, or it never was."""
    if (collection.kind, name) not in organisation.deleted:
        raise not_found(f"{collection.kind} {name}")
    if collection.kind == "team":
        await withdraw_from_broker(gateway, name)
    return web.Response(status=204)


async def _check_unused(
    gateway: GatewayContext, organisation: Organisation, before: Applied
) -> None:
    documents = _with_default_queue(organisation, before)
    uses = await uses_of(gateway, organisation, before)
    if uses:
        first = uses[0]
        more = f", and {len(uses) - 1} more" if len(uses) > 1 else ""
        what = f"{title_of(documents[0])} {before.name}"
        raise Problem(409, SLUG, f"{what} is used: {_told(first)}{more}", errors=uses)


def _told(use: FieldError) -> str:
    return f"{use.value} {use.rule}"


def _with_default_queue(organisation: Organisation, document: Applied) -> list[Applied]:
    """What goes with it: of a team its default queue, which nothing but its work can use."""
    if not isinstance(document, TeamApplied):
        return [document]
    queue = organisation.queues.get(document.default_queue)
    return [document] if queue is None else [document, queue]


async def _delete(
    gateway: GatewayContext, organisation: Organisation, before: Applied, actor: str
) -> None:
    """Commit the deletion with its facts.

    Raises:
        Stale: another writer was faster, or work uses it since it was looked at.
    """
    at_ms = gateway.clock.now_ms()
    deleted = _with_default_queue(organisation, before)
    orders = [_order(one, actor, at_ms) for one in deleted]
    writes = [Write(WHOLE, (organisation.version,), 1)]
    writes += [write for order in orders for write in order.writes]
    keys: list[str] = []
    if isinstance(before, TeamApplied):
        writes.append(Write(_REVOKE_ALL, (at_ms, before.name)))
        keys = await _keys(gateway, before.name)
    await gateway.commit(
        Order(
            emits=[emit for order in orders for emit in order.emits],
            writes=writes,
            changes=[change for order in orders for change in order.changes],
            alone=True,
        )
    )
    for prefix in keys:
        gateway.keys.forget(prefix)


async def _keys(gateway: GatewayContext, team: str) -> list[str]:
    rows = await gateway.reader.fetch("SELECT prefix FROM gateway.api_key WHERE team = $1", team)
    return [row["prefix"] for row in rows]


def _order(before: Applied, actor: str, at_ms: int) -> Order:
    kind, name, version = kind_of(before), before.name, before.version + 1
    fact = DocumentDeleted(kind=kind, name=name, version=version)
    subject = f"{kind}/{name}"
    cause = cause_of(fact, subject, f"{version}|{actor}", at_ms)
    change = Change(
        subject=subject,
        version=version,
        before=content(before).decode(),
        after="",
        cause=cause,
        actor=actor,
        kind="document",
    )
    guard = f"{_UNLESS_USED}{WORK_OF[kind].format('{1}')}) RETURNING 1"
    write = Write(_DELETE + guard, (kind, name, version, actor, at_ms), 1)
    emit = Emit(payload=fact, topic=ORGANISATION_FACTS, subject=name, cause=cause)
    return Order(emits=[emit], writes=[write], changes=[change])


def collection_of_path(path: str) -> DocumentCollection:
    """The collection that a route is about."""
    wanted = path.split("/")[2]
    return next(one for one in BY_KIND.values() if one.path == wanted)
