"""Routes of teams, queues, cohorts, flavors and priority classes: read, and make it so.

A document is applied with its fact in one unit of work. Versions guard it: `If-Match` names the
version that is meant, and two writers at once are told apart by the database. The same content
again is no change, whatever the conditions say, because then what was asked for is so.

A team can begin at once: with it come its default queue, without quota until somebody gives it
one, its topics and a user on the broker, and a first key (design.md 1). All is one unit of work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Collection as Names
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.authorisation import Action, Role, Verdict, authorise
from services.gateway.committer import Order
from services.gateway.documents import (
    BY_KIND,
    BY_PATH,
    Collection,
    Organisation,
    applied_of,
    content,
    problems_of,
    says_the_same,
)
from services.gateway.door import Call, Door, answer, bad_parameter
from services.gateway.existing import check_names, missing
from services.gateway.kafka_routes import RETRY_SECONDS, first_password
from services.gateway.key_routes import insert_order
from services.gateway.key_views import KafkaUserView
from services.gateway.keys import NewKey, mint
from services.gateway.organising.merging import patched
from services.gateway.organising.products import reported_products
from services.gateway.organising.protection import check_protection
from services.gateway.problems import Problem, invalid, unavailable
from services.gateway.protocol import versions_named
from services.gateway.submission_rows import cause_of
from shared.events.organisation import QueueApplied
from shared.events.topics import ORGANISATION_FACTS
from shared.ports.errors import Stale, Transient
from shared.ports.store import Write
from shared.runtime.handler import Change, Emit

Revision = Callable[[Any], Any]
"""What becomes of a document as it is, or of None: its next version; raises Problem."""
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


def collection_of(call: Call) -> Collection:
    """The collection that the route is about."""
    return BY_PATH[call.route.path.split("/")[2]]


def team_of(document: Any) -> str | None:  # noqa: ANN401  # one of Applied
    """Whose the document is; None for what belongs to all."""
    kind = type(document).__name__
    if kind == "TeamApplied":
        return str(document.name)
    return str(document.team) if kind == "QueueApplied" else None


async def list_documents(door: Door, call: Call) -> web.Response:
    """All documents of a collection that the caller may see, by name."""
    collection = collection_of(call)
    team = call.team_filter() if collection.path == "teams" else None
    documents = (await door.organisation.current()).of(collection.kind)
    if team is not None and team not in documents:
        await check_names(door, call, team=team)
    items = [
        collection.view_of(documents[name])
        for name in sorted(documents)
        if team is None or team_of(documents[name]) == team
    ]
    return answer({"items": items, "next_cursor": ""})


async def get_document(door: Door, call: Call) -> web.Response:
    """One document with its ETag."""
    collection = collection_of(call)
    document = await document_of(door, call, collection)
    return answer(collection.view_of(document), 200, etag(document))


async def document_of(door: Door, call: Call, collection: Collection) -> Any:  # noqa: ANN401  # one of Applied
    """The document of the path, if the caller may see it; as new as the database."""
    name = call.part("name")
    documents = (await door.organisation.refresh()).of(collection.kind)
    readable = [
        one
        for one, document in documents.items()
        if authorise(call.subject, Action.READ_TEAM, team_of(document)) is Verdict.ALLOWED
    ]
    if name not in readable:
        raise missing(collection.kind, name, readable)
    document = documents[name]
    call.require(team_of(document), f"{collection.kind} {name}")
    return document


def etag(document: Any) -> dict[str, str]:  # noqa: ANN401  # one of Applied
    """The version as an ETag."""
    return {"ETag": f'"{document.version}"'}


async def put_document(door: Door, call: Call) -> web.Response:
    """Replace a document, or make it: 201 for a new one, 200 otherwise."""
    collection, name = collection_of(call), call.part("name")
    return await _make_so(
        door, call, collection, lambda _: applied_of(collection, name, call.body)
    )


async def patch_document(door: Door, call: Call) -> web.Response:
    """Merge fields into a document, or into the defaults: 201 for a new one, 200 otherwise."""
    collection, name = collection_of(call), call.part("name")
    return await _make_so(
        door, call, collection, lambda before: patched(collection, name, before, call.body)
    )


async def _make_so(
    door: Door, call: Call, collection: Collection, change: Revision
) -> web.Response:
    call.require(None, action=Action.APPLY_ORGANISATION)
    async with door.organising:
        return await _apply_change(door, call, collection, change)


async def _apply_change(
    door: Door, call: Call, collection: Collection, change: Revision
) -> web.Response:
    for _ in range(RACES_MAX):
        organisation = await door.organisation.refresh()
        before = organisation.of(collection.kind).get(call.part("name"))
        wanted = change(before)
        if before is not None and says_the_same(before, wanted):
            return answer(collection.view_of(before), 200, etag(before))
        _check_conditions(call, before)
        await check_protection(door, call, before, wanted)
        errors = problems_of(wanted, organisation, await _products(door, collection))
        if errors:
            raise invalid(errors)
        try:
            after, key = await _apply(door, collection, wanted, organisation, call.subject.name)
        except Stale:
            continue
        if before is not None:
            return answer(collection.view_of(after), 200, etag(after))
        has_kafka = collection.kind == "team" and after.kafka
        user = await first_password(door, after.name) if has_kafka else None
        return _created(collection, after, key, user)
    raise unavailable("others change documents all the time")


async def _products(door: Door, collection: Collection) -> Names[str]:
    """What nodes report, for those documents that name it."""
    if collection.kind != "flavor":
        return ()
    return await reported_products(door)


def _created(
    collection: Collection,
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


def _check_conditions(call: Call, before: Any) -> None:  # noqa: ANN401  # one of Applied
    wanted = call.request.headers.get("If-Match")
    if wanted is not None:
        tags = versions_named(wanted)
        current = f'"{before.version}"' if before else ""
        if before is None or (wanted.strip() != "*" and current not in tags):
            raise Problem(412, "changed", f"the document is at {current or 'no version'}")
    unwanted = call.request.headers.get("If-None-Match")
    if unwanted is not None and unwanted.strip() != "*":
        bad_parameter("If-None-Match", unwanted, "must be *")
    if unwanted is not None and before is not None:
        raise Problem(412, "exists", f'the document exists at "{before.version}"')


async def _apply(
    door: Door,
    collection: Collection,
    wanted: Any,  # noqa: ANN401  # one of Applied
    organisation: Organisation,
    actor: str,
) -> tuple[Any, NewKey | None]:
    """Commit the next version; a team gets what it needs to begin with in the same unit."""
    if collection.kind != "team":
        return await apply_document(door, collection, wanted, organisation, actor), None
    others: list[Order] = []
    key = None
    if wanted.default_queue not in organisation.queues:
        queue = QueueApplied(name=wanted.default_queue, version=0, team=wanted.name)
        others.append(_order(door, BY_KIND["queue"], queue, None, actor)[0])
    if wanted.name not in organisation.teams:
        key = mint(door.random_bytes)
        others.append(insert_order(door, key, wanted.name, Role.MEMBER, FIRST_KEY_LABEL, actor))
    after = await apply_document(door, collection, wanted, organisation, actor, others)
    if key is not None:
        door.keys.forget(key.prefix)
    return after, key


async def apply_document(  # noqa: PLR0917  # a document, and what goes with it
    door: Door,
    collection: Collection,
    wanted: Any,  # noqa: ANN401  # one of Applied
    organisation: Organisation,
    actor: str,
    others: Sequence[Order] = (),
) -> Any:  # noqa: ANN401  # the same
    """Commit the next version with its fact and `others`; a team's topics exist before it does.

    Raises:
        Stale: somebody else has changed it, or any other document.
    """
    before = organisation.of(collection.kind).get(wanted.name)
    if collection.kind == "team":
        await _prepare_broker(door, wanted, before)
    order, after = _order(door, collection, wanted, before, actor)
    orders = (order, *others)
    await door.commit(
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
    await door.organisation.refresh()
    return after


async def _prepare_broker(door: Door, wanted: Any, before: Any) -> None:  # noqa: ANN401  # TeamApplied
    """What the next version of a team needs on the broker, or may no longer have."""
    try:
        if wanted.kafka:
            await door.team_access.prepare(wanted.name)
        elif before is not None and before.kafka:
            await door.team_access.withdraw(wanted.name)
    except Transient as error:
        door.log.warning("the broker is not ready for a team", team=wanted.name, error=str(error))
        raise unavailable(
            "the broker could not be made ready for the team", RETRY_SECONDS
        ) from error


def _order(
    door: Door,
    collection: Collection,
    wanted: Any,  # noqa: ANN401  # one of Applied
    before: Any,  # noqa: ANN401  # the same or None
    actor: str,
) -> tuple[Order, Any]:
    """What makes the next version true, and that version."""
    after = msgspec.structs.replace(wanted, version=before.version + 1 if before else 1)
    at_ms = door.clock.now_ms()
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
