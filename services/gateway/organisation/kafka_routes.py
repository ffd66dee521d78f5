"""The Kafka user of a team: a new password, shown once."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.submission_rows import cause_of
from services.gateway.documents.key_views import KafkaUserView
from services.gateway.http.problems import Problem, not_found, unavailable
from shared.events.workloads import CancelWorkload
from shared.ports.errors import Transient
from shared.runtime.handler import Change

RETRY_SECONDS: Final = 5


async def create_password(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """A new password for the team's user; the one before is worth nothing from then on."""
    name = call.part("name")
    call.require(name)
    team = (await gateway.organisation.refresh()).teams.get(name)
    if team is None:
        raise not_found(f"team {name}")
    if not team.kafka:
        raise Problem(409, "no-kafka", f"team {name} does not submit by Kafka (kafka: false)")
    if not gateway.team_access.keeps_users:
        detail = "this gateway keeps no users of Kafka (MUSTER_KAFKA_ADMIN_USER)"
        raise Problem(409, "no-kafka-users", detail)
    await gateway.commit(_noted(gateway, name, call.subject.name))
    try:
        await gateway.team_access.prepare(name)
        view = await gateway.team_access.new_password(name)
    except Transient as error:
        gateway.log.warning("no Kafka password", team=name, error=str(error))
        raise unavailable("the broker could not be told", RETRY_SECONDS) from error
    return answer(view, 201, {"Cache-Control": "no-store"})


async def first_password(gateway: GatewayContext, team: str) -> KafkaUserView | None:
    """That of a new team; None where the broker keeps no users, or could not be told."""
    if not gateway.team_access.keeps_users:
        return None
    try:
        return await gateway.team_access.new_password(team)
    except Transient as error:
        gateway.log.warning("a new team has no Kafka password yet", team=team, error=str(error))
        return None


def _noted(gateway: GatewayContext, team: str, actor: str) -> Order:
    """The audit row; that it was asked for is noted before it is so."""
    now_ms = gateway.clock.now_ms()
    subject = f"kafka-user/{team}"
    carrier = CancelWorkload(workload_id=subject, team="")
    change = Change(
        subject=subject,
        version=1,
        before="",
        after="new password",
        cause=cause_of(carrier, subject, "new password", now_ms),
        actor=actor,
        kind="kafka-user",
    )
    return Order(changes=[change])
