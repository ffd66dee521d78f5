"""Commits the next version of a document with its fact, and what a new team needs with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext
from services.gateway.app.submission_rows import cause_of
from services.gateway.documents.documents import BY_KIND, DocumentCollection, Organisation, content
from services.gateway.documents.keys import NewKey, mint
from services.gateway.http.authorisation import Role
from services.gateway.http.problems import Problem, unavailable
from services.gateway.organisation.kafka_routes import RETRY_SECONDS
from services.gateway.organisation.key_routes import insert_order
from shared.events.organisation import QueueApplied
from shared.events.topics import ORGANISATION_FACTS
from shared.ports.errors import Transient
from shared.ports.store import Write
from shared.runtime.handler import Change, Emit

RACES_MAX: Final = 20
FIRST_KEY_LABEL: Final = "first"
APPLY: Final = (
    "INSERT INTO gateway.document AS d (kind, name, version, body, actor, at_ms, epoch)"
    " VALUES ({0}::text, {1}::text, {2}::bigint, {3}::text, {4}::text, {5}::bigint, {epoch})"
    " ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, body = excluded.body,"
    " actor = excluded.actor, at_ms = excluded.at_ms, epoch = excluded.epoch"
    " WHERE d.version = excluded.version - 1 RETURNING 1"
)
WHOLE: Final = (
    "UPDATE gateway.organisation SET version = version + 1, epoch = {epoch}"
    " WHERE version = {0}::bigint RETURNING 1"
)
"""Documents were checked against each other: of two writers at once one looks again."""


async def apply_wanted(
    gateway: GatewayContext,
    collection: DocumentCollection,
    wanted: Any,  # noqa: ANN401  # one of Applied
    organisation: Organisation,
    actor: str,
) -> tuple[Any, NewKey | None]:
    """Commit the next version; a team gets what it needs to begin with in the same unit."""
    if collection.kind != "team":
        return await apply_document(gateway, collection, wanted, organisation, actor), None
    others: list[Order] = []
    key = None
    if wanted.default_queue not in organisation.queues:
        queue = QueueApplied(name=wanted.default_queue, version=0, team=wanted.name)
        others.append(_order(gateway, organisation, BY_KIND["queue"], queue, actor)[0])
    if wanted.name not in organisation.teams:
        key = mint(gateway.random_bytes)
        others.append(insert_order(gateway, key, wanted.name, Role.MEMBER, FIRST_KEY_LABEL, actor))
    after = await apply_document(gateway, collection, wanted, organisation, actor, others)
    if key is not None:
        gateway.keys.forget(key.prefix)
    return after, key


async def apply_document(  # noqa: PLR0917  # a document, and what goes with it
    gateway: GatewayContext,
    collection: DocumentCollection,
    wanted: Any,  # noqa: ANN401  # one of Applied
    organisation: Organisation,
    actor: str,
    others: Sequence[Order] = (),
) -> Any:  # noqa: ANN401  # the same
    """Commit the next version with its fact and `others`; a team's topics exist before it does.

    Raises:
        Stale: another writer has changed it, or any other document.
    """
    before = organisation.of(collection.kind).get(wanted.name)
    if collection.kind == "team":
        await _prepare_broker(gateway, wanted, before)
    order, after = _order(gateway, organisation, collection, wanted, actor)
    orders = (order, *others)
    await gateway.commit(
        Order(
            emits=[emit for one in orders for emit in one.emits],
            writes=[
                Write(WHOLE, (organisation.version,), 1),
                *(write for one in orders for write in one.writes),
            ],
            changes=[change for one in orders for change in one.changes],
            alone=True,
        )
    )
    await gateway.organisation.refresh()
    return after


async def _prepare_broker(gateway: GatewayContext, wanted: Any, before: Any) -> None:  # noqa: ANN401  # TeamApplied
    """What the next version of a team needs on the broker, or may no longer have."""
    try:
        if wanted.kafka:
            await gateway.team_access.prepare(wanted.name)
        elif before is not None and before.kafka:
            await gateway.team_access.withdraw(wanted.name)
    except Transient as error:
        raise _broker_away(gateway, wanted.name, error) from error


async def withdraw_from_broker(gateway: GatewayContext, team: str) -> None:
    """Take the user of a team that is deleted, and its grants; 503 when the broker is away."""
    try:
        await gateway.team_access.withdraw(team)
    except Transient as error:
        raise _broker_away(gateway, team, error) from error


def _broker_away(gateway: GatewayContext, team: str, error: Transient) -> Problem:
    gateway.log.warning("the broker is not ready for a team", team=team, error=str(error))
    return unavailable("the broker could not be made ready for the team", RETRY_SECONDS)


def busy() -> Problem:
    """503: `RACES_MAX` times another writer was faster."""
    return unavailable("others change documents all the time")


def _order(
    gateway: GatewayContext,
    organisation: Organisation,
    collection: DocumentCollection,
    wanted: Any,  # noqa: ANN401  # one of Applied
    actor: str,
) -> tuple[Order, Any]:
    """What makes the next version true, and that version."""
    before = organisation.of(collection.kind).get(wanted.name)
    version = organisation.version_of(collection.kind, wanted.name) + 1
    after = msgspec.structs.replace(wanted, version=version)
    at_ms = gateway.clock.now_ms()
    subject = f"{collection.kind}/{wanted.name}"
    cause = cause_of(after, subject, f"{after.version}|{actor}", at_ms)
    text = content(after).decode()
    change = Change(
        subject=subject,
        version=after.version,
        before=content(before).decode() if before else "",
        after=text,
        cause=cause,
        actor=actor,
        kind="document",
    )
    arguments = (collection.kind, wanted.name, after.version, text, actor, at_ms)
    order = Order(
        emits=[Emit(payload=after, topic=ORGANISATION_FACTS, subject=wanted.name, cause=cause)],
        writes=[Write(APPLY, arguments, 1)],
        changes=[change],
    )
    return order, after
