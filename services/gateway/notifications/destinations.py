"""Reads how destinations stand, and asks the notifications service for a test."""

from __future__ import annotations

from typing import Final

import msgspec
from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import missing
from services.gateway.app.submission_rows import cause_of
from services.gateway.http.authorisation import Action
from services.gateway.notifications.views import (
    DestinationPage,
    DestinationTried,
    DestinationView,
)
from shared.events.notifications import DestinationTold, TryDestination
from shared.events.organisation import NotificationApplied
from shared.events.topics import NOTIFICATION_COMMANDS
from shared.runtime.handler import Change, Emit

_SELECT: Final = "SELECT name, body FROM gateway.destination"
_decoder: Final = msgspec.json.Decoder(DestinationTold)


async def list_destinations(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Those of documents that the caller may see, by name."""
    team = call.team_filter()
    documents = (await gateway.organisation.current()).notifications
    told = {
        row["name"]: _decoder.decode(row["body"]) for row in await gateway.reader.fetch(_SELECT)
    }
    items = tuple(
        _view(documents[name], told.get(name))
        for name in sorted(documents)
        if team is None or documents[name].team == team
    )
    return answer(DestinationPage(items=items))


def _view(document: NotificationApplied, told: DestinationTold | None) -> DestinationView:
    if told is None:
        return DestinationView(name=document.name, team=document.team, state="new")
    failing = "failing" if told.failing_since_ms else "ok"
    return DestinationView(
        name=document.name,
        team=document.team,
        state="dead" if told.dead else failing,
        at_ms=told.at_ms,
        waiting=told.waiting,
        dropped=told.dropped,
        delivered_at_ms=told.delivered_at_ms,
        failing_since_ms=told.failing_since_ms,
        problem=told.problem,
    )


async def try_destination(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Ask for a test; 404 for a document that is not there."""
    call.require(None, action=Action.APPLY_ORGANISATION)
    name = call.part("name")
    documents = (await gateway.organisation.refresh()).notifications
    if name not in documents:
        raise missing("notification", name, list(documents))
    now_ms = gateway.clock.now_ms()
    command = TryDestination(name=name, actor=call.subject.name, by=call.subject.described)
    cause = cause_of(command, name, "test" + gateway.random_bytes(10).hex(), now_ms)
    change = Change(
        subject=f"notification/{name}",
        version=0,
        before="",
        after="test",
        cause=cause,
        actor=call.subject.name,
        kind="notification",
    )
    emit = Emit(payload=command, topic=NOTIFICATION_COMMANDS, subject=name, cause=cause)
    await gateway.commit(Order(emits=[emit], changes=[change]))
    return answer(DestinationTried(name=name, at_ms=now_ms), 202)
