"""API keys of a team: make (shown once), list (without secrets), revoke."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.submission_rows import cause_of
from services.gateway.documents.key_views import KeyPage, KeyView, NewKeyView, WhoAmI
from services.gateway.documents.keys import NewKey, digest_of, mint
from services.gateway.http.authorisation import Role, may_grant
from services.gateway.http.problems import forbidden, not_found
from shared.events.workloads import CancelWorkload
from shared.ports.store import Write
from shared.runtime.handler import Change

INSERT: Final = (
    "INSERT INTO gateway.api_key (prefix, digest, team, role, label, created_by, created_at_ms,"
    " expires_at_ms) VALUES ({0}::text, {1}::bytea, {2}::text, {3}::text, {4}::text, {5}::text,"
    " {6}::bigint, {7}::bigint) ON CONFLICT (prefix) DO NOTHING RETURNING 1"
)
REVOKE: Final = (
    "UPDATE gateway.api_key SET revoked_at_ms = {0}::bigint WHERE prefix = {1}::text"
    " AND team = {2}::text AND revoked_at_ms IS NULL RETURNING 1"
)


async def whoami(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The caller's own key, without its secret."""
    subject = call.subject
    rows = await gateway.reader.fetch(
        "SELECT expires_at_ms FROM gateway.api_key WHERE prefix = $1", subject.name
    )
    return answer(
        WhoAmI(
            team=subject.team,
            role=subject.role,
            key_prefix=subject.name,
            key_label=subject.label,
            expires_at_ms=rows[0]["expires_at_ms"] if rows else None,
            version=version("muster-gpu"),
        )
    )


async def list_keys(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """All keys of the team, the revoked ones too."""
    team = await _team(gateway, call)
    rows = await gateway.reader.fetch(
        "SELECT prefix, team, role, label, created_by, created_at_ms, expires_at_ms,"
        " revoked_at_ms FROM gateway.api_key WHERE team = $1 ORDER BY created_at_ms, prefix",
        team,
    )
    items = tuple(KeyView(**{**row, "role": Role(row["role"])}) for row in rows)
    return answer(KeyPage(items=items, next_cursor=""))


async def create_key(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """A new key, never stronger than the one that makes it."""
    team = await _team(gateway, call)
    role: Role = call.body.role
    if not may_grant(call.subject, role):
        raise forbidden(f"a key of role {call.subject.role} cannot make one of role {role}")
    key = mint(gateway.random_bytes)
    lifetime = call.body.expires_in_seconds
    now_ms = gateway.clock.now_ms()
    expires_at_ms = now_ms + lifetime * 1000 if lifetime else None
    await gateway.commit(
        insert_order(gateway, key, team, role, call.body.label, call.subject.name, expires_at_ms)
    )
    gateway.keys.forget(key.prefix)
    view = NewKeyView(
        key=key.text,
        prefix=key.prefix,
        team=team,
        role=role,
        label=call.body.label,
        expires_at_ms=expires_at_ms,
    )
    location = f"/v1/teams/{team}/keys/{key.prefix}"
    return answer(view, 201, {"Location": location, "Cache-Control": "no-store"})


async def revoke_key(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Make a key useless."""
    team = await _team(gateway, call)
    prefix = call.part("prefix")
    rows = await gateway.reader.fetch(
        "SELECT role, revoked_at_ms FROM gateway.api_key WHERE prefix = $1 AND team = $2",
        prefix,
        team,
    )
    if not rows:
        raise not_found(f"key {prefix}")
    if not may_grant(call.subject, Role(rows[0]["role"])):
        raise forbidden("a key is revoked by one that is at least as strong")
    if rows[0]["revoked_at_ms"] is None:
        now_ms = gateway.clock.now_ms()
        write = Write(REVOKE, (now_ms, prefix, team))
        change = _change(prefix, "valid", "revoked", call.subject.name, now_ms)
        await gateway.commit(Order(writes=[write], changes=[change]))
    gateway.keys.forget(prefix)
    return web.Response(status=204)


async def _team(gateway: GatewayContext, call: RequestContext) -> str:
    name = call.part("name")
    call.require(name)
    if name not in (await gateway.organisation.refresh()).teams:
        raise not_found(f"team {name}")
    return name


def insert_order(  # noqa: PLR0917  # a key is just this wide
    gateway: GatewayContext,
    key: NewKey,
    team: str,
    role: Role,
    label: str,
    actor: str,
    expires_at_ms: int | None = None,
) -> Order:
    """What makes a new key valid."""
    now_ms = gateway.clock.now_ms()
    pepper = gateway.settings.key_pepper.get_secret_value().encode()
    digest = digest_of(key.text, pepper)
    arguments = (
        key.prefix,
        digest,
        team,
        role.value,
        label,
        actor,
        now_ms,
        expires_at_ms,
    )
    change = _change(key.prefix, "", f"valid as {role} of team {team!r}", actor, now_ms)
    return Order(writes=[Write(INSERT, arguments)], changes=[change])


def _change(prefix: str, before: str, after: str, actor: str, at_ms: int) -> Change:
    subject = f"key/{prefix}"
    # No message travels for a key; the cause only gives the audit row its id.
    carrier = CancelWorkload(workload_id=subject, team="")
    return Change(
        subject=subject,
        version=1,
        before=before,
        after=after,
        cause=cause_of(carrier, subject, after, at_ms),
        actor=actor,
        kind="key",
    )
