"""What holds for the document of a team: its names, what its pods may be, its policies."""

from __future__ import annotations

from typing import Final

from services.gateway.documents.documents import Organisation
from services.gateway.http.kubernetes_subjects import problems_of_access
from shared.core.admission.pods import (
    CPU_MILLI_MAX,
    MEMORY_MIB_MAX,
    NAME_RULE,
    REFERENCE_RULE,
    is_name,
    is_reference,
)
from shared.core.model.decision import FieldError
from shared.core.model.team_policy import budget_problems, idle_problems
from shared.events.organisation import TeamApplied

SYSTEM_NAMESPACES: Final = "kube-"
OTHER_NAME: Final = "take another, as old records mean that one"


def team_problems(team: TeamApplied, organisation: Organisation) -> list[FieldError]:
    """Every broken rule."""
    errors = [
        broken(f"priority_classes[{index}]", name, "is not a priority class")
        for index, name in enumerate(team.priority_classes)
        if name not in organisation.priority_classes
    ]
    queue = organisation.queues.get(team.default_queue)
    if queue is not None and queue.team != team.name:
        errors.append(broken("default_queue", team.default_queue, "is another team's queue"))
    if ("cohort", team.default_queue) in organisation.deleted:
        rule = f"was the name of a cohort; {OTHER_NAME}"
        errors.append(broken("default_queue", team.default_queue, rule))
    if team.default_queue in organisation.cohorts:
        rule = "is the name of a cohort; queues and cohorts are one tree"
        errors.append(broken("default_queue", team.default_queue, rule))
    if not is_name(team.default_queue):
        errors.append(broken("default_queue", team.default_queue, NAME_RULE))
    if team.namespace and not is_name(team.namespace):
        errors.append(broken("namespace", team.namespace, NAME_RULE))
    elif team.namespace.startswith(SYSTEM_NAMESPACES):
        rule = f"must not begin with {SYSTEM_NAMESPACES}: these are the cluster's own"
        errors.append(broken("namespace", team.namespace, rule))
    if team.service_account and not is_reference(team.service_account):
        errors.append(broken("service_account", team.service_account, REFERENCE_RULE))
    if team.max_pending < 0:
        errors.append(broken("max_pending", str(team.max_pending), "must be at least 0"))
    errors += problems_of_access(team.kubernetes)
    return errors + _pod_errors(team) + _policy_errors(team)


def _pod_errors(team: TeamApplied) -> list[FieldError]:
    """A pod that names nothing must be one that the team may have."""
    errors = []
    for name, bound in (("cpu_milli", CPU_MILLI_MAX), ("memory_mib", MEMORY_MIB_MAX)):
        default, most = getattr(team.default_pod, name), getattr(team.max_pod, name)
        if default > most:
            rule = f"must be at most max_pod.{name} ({most})"
            errors.append(broken(f"default_pod.{name}", str(default), rule))
        elif not 0 <= default <= bound:
            errors.append(broken(f"default_pod.{name}", str(default), f"must be 0 to {bound}"))
    gpu = team.default_pod.gpu_milli
    if gpu:
        rule = "must be 0: GPUs are what a submission asks for"
        errors.append(broken("default_pod.gpu_milli", str(gpu), rule))
    return errors


def _policy_errors(team: TeamApplied) -> list[FieldError]:
    errors = budget_problems(team.budget) if team.budget is not None else []
    errors += idle_problems(team.idle) if team.idle is not None else []
    if team.kafka_events and not team.kafka:
        rule = "needs kafka: true: without it the team has no results topic"
        errors.append(broken("kafka_events", "true", rule))
    loss = team.loss_gpu_seconds_per_hour
    if loss is not None and loss < 0:
        errors.append(broken("loss_gpu_seconds_per_hour", str(loss), "must be at least 0"))
    return errors


def broken(path: str, value: str, rule: str) -> FieldError:
    """The error of a field that breaks a rule."""
    return FieldError(field=path, value=value, rule=rule)
