"""`?dryRun=true`: admission's own code on what the gateway knows; changes nothing."""

from __future__ import annotations

from typing import Final

import msgspec

from services.gateway.app.context import GatewayContext
from services.gateway.documents.documents import Organisation
from services.gateway.submissions.submission_views import DryRun
from shared.core.admission.admit import AdmissionRefusal, admit
from shared.core.admission.fleet_shape import FleetShape, summary_of
from shared.core.admission.rules import AdmissionRules, TeamPolicy
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Node, WorkloadSpec
from shared.core.model.priority_classes import PriorityClass, built_in
from shared.core.model.reason import Reason
from shared.events.quota_documents import document_of

FLEET_SECONDS: Final = 5.0
_nodes: Final = msgspec.json.Decoder(Node)


async def verdict(gateway: GatewayContext, team: str, spec: WorkloadSpec) -> DryRun:
    """What admission would say now."""
    rules = rules_of(await gateway.organisation.current(), await _fleet(gateway))
    result = admit(spec, team, rules)
    if isinstance(result, AdmissionRefusal):
        return DryRun(
            dry_run=True,
            valid=False,
            state=State.REJECTED.value,
            queue=spec.queue,
            priority=0,
            reason=Reason.REJECTED,
            message=result.message,
            errors=result.errors,
            spec=None,
        )
    return DryRun(
        dry_run=True,
        valid=True,
        state=State.QUEUED.value,
        queue=result.queue,
        priority=result.priority,
        reason=Reason.NONE,
        message="it would be queued",
        errors=(),
        spec=result.spec,
    )


def rules_of(organisation: Organisation, fleet: FleetShape) -> AdmissionRules:
    """The documents as admission knows them."""
    rules = AdmissionRules(fleet=fleet)
    for team in organisation.teams.values():
        rules.teams[team.name] = TeamPolicy(
            name=team.name,
            default_queue=team.default_queue,
            priority_classes=team.priority_classes,
            default_pod=team.default_pod,
            max_pod=team.max_pod,
            max_pending=team.max_pending,
            namespace=team.namespace,
            service_account=team.service_account,
        )
    for cohort in organisation.cohorts.values():
        rules.apply_quota(document_of(cohort))
    for queue in organisation.queues.values():
        rules.apply_quota(document_of(queue))
    rules.classes.update(classes_of(organisation))
    return rules


def classes_of(organisation: Organisation) -> dict[str, PriorityClass]:
    """All priority classes by name."""
    applied = {
        one.name: PriorityClass(
            name=one.name, value=one.value, protected=one.protected, kinds=one.kinds
        )
        for one in organisation.priority_classes.values()
    }
    return built_in() | applied


async def _fleet(gateway: GatewayContext) -> FleetShape:
    """The shape of the fleet, at most `FLEET_SECONDS` old."""
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("fleet")
    if known is not None and now - known[0] < FLEET_SECONDS:
        shape: FleetShape = known[1]
        return shape
    rows = await gateway.reader.fetch("SELECT name, body FROM gateway.node WHERE NOT removed")
    fleet = FleetShape(switching=gateway.settings.mig_switch_seconds > 0)
    for row in rows:
        fleet.put(row["name"], summary_of(_nodes.decode(row["body"])))
    gateway.cache["fleet"] = (now, fleet)
    return fleet
