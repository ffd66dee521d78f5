"""POST /v1/workloads: checks form and team, and answers when it is durable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext, answer, href_of
from services.gateway.app.submission_rows import KnownSubmission, ValidSubmission
from services.gateway.documents.documents import Organisation
from services.gateway.http.problems import (
    Problem,
    forbidden,
    invalid,
    not_found,
    too_many,
    too_many_pending,
)
from services.gateway.submissions.submission_views import Accepted, BatchAccepted, BatchAnswer
from services.gateway.submissions.what_if import classes_of, verdict
from shared.core.admission.admit import check_kind
from shared.core.admission.errors import ERRORS_MAX, Errors
from shared.core.admission.form import check_form
from shared.core.model.decision import FieldError
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.priority_classes import may_use, rule_of_use
from shared.core.model.value import replace
from shared.events.envelope import workload_id
from shared.events.fingerprint import body_hash
from shared.events.idempotency import KEY_RULE, is_key
from shared.events.organisation import TeamApplied

RANDOM_KEY_BYTES: Final = 16


async def submit(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One workload: 202 with its id, however often the same key is sent."""
    key = call.request.headers.get("Idempotency-Key")
    if key is not None and not is_key(key):
        value = repr(key)[:100]
        raise invalid([FieldError(field="Idempotency-Key", value=value, rule=KEY_RULE)])
    team = await _team(gateway, call)
    _limit(gateway, team.name, 1)
    spec = spec_of(call.body)
    if call.truth("dryRun"):
        return answer(await verdict(gateway, team.name, spec))
    _check(await _broken_rules(gateway, team, [(spec, "")]))
    one = _submission(gateway, call, team, spec, key)
    await _make_room(gateway, team, (one,))
    known = (await gateway.commit(Order(submissions=(one,))))[0]
    return _accepted(one, known, await _states(gateway, (known,)))


async def submit_batch(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Many workloads in one unit of work: all are accepted, or none."""
    items = call.body.items
    team = await _team(gateway, call)
    _limit(gateway, team.name, len(items))
    specs = [spec_of(item.spec) for item in items]
    prefixed = [(spec, f"items[{index}].spec.") for index, spec in enumerate(specs)]
    _check(await _broken_rules(gateway, team, prefixed))
    submissions = [
        _submission(gateway, call, team, spec, item.idempotency_key)
        for item, spec in zip(items, specs, strict=True)
    ]
    await _make_room(gateway, team, submissions)
    known = await gateway.commit(Order(submissions=submissions))
    states = await _states(gateway, known)
    items = tuple(
        _batch_answer(one, found, states) for one, found in zip(submissions, known, strict=True)
    )
    return answer(BatchAccepted(items=items), 202)


def spec_of(request: msgspec.Struct) -> WorkloadSpec:
    """The core's noun for what was sent."""
    return msgspec.convert(request, WorkloadSpec, from_attributes=True)


def _limit(gateway: GatewayContext, team: str, count: int) -> None:
    if not gateway.rate.take(team, gateway.clock.monotonic_seconds(), count):
        raise too_many(f"team {team} sends too many submissions")


async def _make_room(
    gateway: GatewayContext, team: TeamApplied, submissions: Sequence[ValidSubmission]
) -> None:
    """429 when the team would have more than it may; what was accepted before is told again."""
    count = len(submissions)
    alive = await gateway.backlog.take(team.name, count, team.max_pending)
    if alive is None:
        return
    replayed = [one.workload_id for one in submissions if one.may_exist]
    if len(replayed) < count or not await gateway.backlog.all_known(replayed):
        raise too_many_pending(team.name, alive, count, team.max_pending)


async def _team(gateway: GatewayContext, call: RequestContext) -> TeamApplied:
    """The caller's team; only an operator may name another one (`?team=`)."""
    name = call.query.get("team") or call.subject.team
    if not name:
        raise forbidden("this key belongs to no team; name one by ?team=")
    call.require(name)
    team = (await gateway.organisation.current()).teams.get(name)
    team = team or (await gateway.organisation.refresh()).teams.get(name)
    if team is None:
        raise not_found(f"team {name}")
    return team


def _check(errors: Sequence[FieldError]) -> None:
    if errors:
        raise invalid(errors[:ERRORS_MAX])


async def _broken_rules(
    gateway: GatewayContext, team: TeamApplied, specs: Sequence[tuple[WorkloadSpec, str]]
) -> list[FieldError]:
    """Broken rules of form, kind, queue and priority class; each submission with its prefix."""
    found = _rules_in(await gateway.organisation.current(), team, specs)
    if any(one.field.endswith(("queue", "priority_class")) for one in found):
        found = _rules_in(await gateway.organisation.refresh(), team, specs)
    return found


def _rules_in(
    organisation: Organisation, team: TeamApplied, specs: Sequence[tuple[WorkloadSpec, str]]
) -> list[FieldError]:
    return [
        replace(one, field=prefix + one.field) if prefix else one
        for spec, prefix in specs
        for one in _broken_rules_of(organisation, team, spec)
    ]


def _broken_rules_of(
    organisation: Organisation, team: TeamApplied, spec: WorkloadSpec
) -> list[FieldError]:
    errors = Errors()
    check_form(spec, errors)
    if not errors:
        check_kind(spec, errors)
    told = {one.field for one in errors}
    theirs = _not_theirs(organisation, team, spec)
    return [*errors, *(one for one in theirs if one.field not in told)]


def _submission(
    gateway: GatewayContext,
    call: RequestContext,
    team: TeamApplied,
    spec: WorkloadSpec,
    key: str | None,
) -> ValidSubmission:
    random_key = gateway.random_bytes(RANDOM_KEY_BYTES).hex()
    return ValidSubmission(
        workload_id=workload_id(team.name, key or random_key),
        team=team.name,
        queue=spec.queue or team.default_queue,
        body_hash=body_hash(spec),
        actor=call.subject.name,
        by=call.subject.described,
        spec=spec,
        at_ms=gateway.times.next(team.name, gateway.clock.now_ms()),
        cell=gateway.settings.cell,
        may_exist=key is not None,
    )


def _not_theirs(
    organisation: Organisation, team: TeamApplied, spec: WorkloadSpec
) -> list[FieldError]:
    errors, queue, granted = [], organisation.queues.get(spec.queue), team.priority_classes
    if spec.queue and (queue is None or queue.team != team.name):
        rule = f"is not a queue of team {team.name}"
        errors.append(FieldError(field="queue", value=spec.queue, rule=rule))
    classes = classes_of(organisation) if spec.priority_class else {}
    found = classes.get(spec.priority_class)
    if classes and (found is None or not may_use(granted, found)):
        rule = rule_of_use(team.name, granted, classes.values())
        errors.append(FieldError(field="priority_class", value=spec.priority_class, rule=rule))
    return errors


async def _states(gateway: GatewayContext, known: Sequence[KnownSubmission]) -> Mapping[str, str]:
    """What became of those that were submitted before, by id."""
    replayed = [one.workload_id for one in known if one.replayed and not one.conflict]
    if not replayed:
        return {}
    rows = await gateway.reader.fetch(
        "SELECT id, state FROM gateway.workload WHERE id = ANY($1::text[])", replayed
    )
    return {row["id"]: row["state"] for row in rows}


def _accepted(
    one: ValidSubmission, known: KnownSubmission, states: Mapping[str, str]
) -> web.Response:
    if known.conflict:
        detail = f"the same Idempotency-Key made workload {one.workload_id} of another body"
        raise Problem(422, "idempotency-conflict", detail)
    href = href_of(one.workload_id)
    view = Accepted(
        id=one.workload_id,
        team=one.team,
        queue=one.queue,
        name=one.spec.name,
        state=states.get(one.workload_id, State.RECEIVED.value),
        href=href,
        replayed=known.replayed,
    )
    headers = {"Location": href}
    if known.replayed:
        headers["Idempotency-Replayed"] = "true"
    return answer(view, 202, headers)


def _batch_answer(
    one: ValidSubmission, known: KnownSubmission, states: Mapping[str, str]
) -> BatchAnswer:
    state = states.get(known.workload_id, State.RECEIVED.value)
    return BatchAnswer(
        id=known.workload_id,
        team=one.team,
        queue=one.queue,
        name=one.spec.name,
        status=422 if known.conflict else 202,
        state="conflicted" if known.conflict else state,
        href=href_of(known.workload_id),
        replayed=known.replayed and not known.conflict,
    )
