"""Admission: is a submission valid, which team owns it, and could it ever run?

Mission A1-A5, A7, M6. `admit` answers with the spec, its defaults filled and its priority
decided, or with every broken rule. Four steps, each only when the one before found nothing: form
and kind, owner, defaults and maxima, fit against the empty fleet and the whole quota. Team,
queue and priority ceiling come from the caller's identity, never from a field of the submission.

A refusal that rests on facts which may still be under way (an unknown queue, a fleet that is
still reporting) says so by its `doubt`; the service waits a moment before it tells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.core.admission.errors import Errors, shown
from shared.core.admission.fleet_shape import FleetShape
from shared.core.admission.form import check_form
from shared.core.admission.products import in_full
from shared.core.admission.rules import AdmissionRules, QueueRules, TeamPolicy
from shared.core.admission.static_fit import model_error
from shared.core.model.charges import least_count, pod_resources
from shared.core.model.decision import FieldError
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    Level,
    PodSet,
    Spread,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.priority_classes import (
    NO_SHARES,
    PriorityClass,
    default_class,
    on_shares,
    problem_of_class,
    usable_names,
)
from shared.core.model.units import Resources
from shared.core.model.value import Value, replace

TRAINING_SHM_MIB: Final = 16_384
"""Data loaders of training pass batches through shared memory (mission M4)."""
OTHER_SHM_MIB: Final = 64
NOTEBOOK_IDLE_TIMEOUT_SECONDS: Final = 3_600
NOTEBOOK_TIME_TO_LIVE_SECONDS: Final = 8 * 3_600


class AdmittedWorkload(Value, frozen=True, kw_only=True):
    """A yes: the spec with every default filled, and what identity decided."""

    spec: WorkloadSpec
    queue: str
    priority: int
    namespace: str = ""
    service_account: str = ""


class Doubt(StrEnum):
    """Which facts under way could still turn a refusal."""

    NONE = "none"
    NAMES = "names"
    """A team, queue or priority class that is not known."""
    FIT = "fit"
    """A fleet or quota that is too small."""


class AdmissionRefusal(Value, frozen=True, kw_only=True):
    """A no with every broken rule."""

    errors: tuple[FieldError, ...]
    doubt: Doubt = Doubt.NONE

    @property
    def message(self) -> str:
        """All rules in one line, for people."""
        shown_errors = "; ".join(
            (f"{one.field}: " if one.field else "")
            + one.rule
            + (f" (got {one.value})" if one.value else "")
            for one in self.errors[:3]
        )
        more = f"; and {len(self.errors) - 3} more" if len(self.errors) > 3 else ""  # noqa: PLR2004
        return shown_errors + more


def admit(
    spec: WorkloadSpec, team_name: str, rules: AdmissionRules
) -> AdmittedWorkload | AdmissionRefusal:
    """Judge a decoded spec of a team; never raises. O(size of the spec) for equal requests."""
    errors = Errors()
    check_form(spec, errors)
    if not errors:
        check_kind(spec, errors)
    if errors:
        return AdmissionRefusal(errors=tuple(errors))
    standing = _whose(spec, team_name, rules)
    if isinstance(standing, AdmissionRefusal):
        return standing
    filled = _with_defaults(spec, standing, rules.fleet)
    _check_maxima(filled, standing.team, errors)
    if not errors:
        too_small = model_error(filled, rules.fleet)
        errors.extend(() if too_small is None else (too_small,))
    if errors:
        return AdmissionRefusal(errors=tuple(errors))
    unfit = rules.fit_errors(filled, standing.queue)
    if unfit:
        return AdmissionRefusal(errors=unfit, doubt=Doubt.FIT)
    return AdmittedWorkload(
        spec=filled,
        queue=standing.queue.name,
        priority=standing.priority_class.value,
        namespace=standing.team.namespace,
        service_account=standing.team.service_account,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """The team and queue of a submission, and what they entitle it to."""

    team: TeamPolicy
    queue: QueueRules
    priority_class: PriorityClass


def _whose(
    spec: WorkloadSpec, team_name: str, rules: AdmissionRules
) -> _Standing | AdmissionRefusal:
    team = rules.teams.get(team_name)
    if team is None:
        rule = "is not a team; an administrator must apply it first"
        return _unknown("team", team_name, rule, f"ask an administrator to apply team {team_name}")
    name = spec.queue or team.default_queue
    queue = rules.queues.get(name)
    if queue is None or queue.team != team.name:
        rule = f"is not a queue of team {team.name}"
        return _unknown("queue", name, rule, f"name a queue of team {team.name}")
    chosen = _priority_class(spec, team, rules.classes)
    if isinstance(chosen, AdmissionRefusal):
        return chosen
    return _Standing(team=team, queue=queue, priority_class=chosen)


def _refused(path: str, value: str, rule: str, remedy: str) -> AdmissionRefusal:
    error = FieldError(field=path, value=shown(value), rule=rule, remedy=remedy)
    return AdmissionRefusal(errors=(error,))


def _unknown(path: str, value: str, rule: str, remedy: str) -> AdmissionRefusal:
    return replace(_refused(path, value, rule, remedy), doubt=Doubt.NAMES)


_FORMS: Final[Mapping[WorkloadKind, tuple[frozenset[str], str]]] = {
    WorkloadKind.TRAINING: (frozenset(("count",)), "training gets whole GPUs: ask by count"),
    WorkloadKind.INFERENCE: (
        frozenset(("count", "mig_profile")),
        "inference gets whole GPUs or MIG, never a time-slice: ask by count or mig_profile",
    ),
    WorkloadKind.BATCH_INFERENCE: (
        frozenset(("milli", "mig_profile")),
        "batch inference gets a share or MIG: ask by milli with memory_mib, or mig_profile",
    ),
    WorkloadKind.NOTEBOOK: (
        frozenset(("milli", "mig_profile")),
        "a notebook gets a share or MIG: ask by milli with memory_mib, or mig_profile",
    ),
}
"""How each kind may hold GPUs (mission A4); pods without a GPU are free."""


def check_kind(spec: WorkloadSpec, errors: Errors) -> None:
    """Collect pod sets with a form of GPU request that is not for the kind."""
    allowed, rule = _FORMS[spec.kind]
    for index, pod_set in enumerate(spec.pod_sets):
        gpu = pod_set.gpu
        form = "count" if gpu.count else "milli" if gpu.milli else "mig_profile"
        value: int | str = gpu.count or gpu.milli or gpu.mig_profile
        if value and form not in allowed:
            path, remedy = f"pod_sets[{index}].gpu", rule.rpartition(": ")[2]
            errors.add(f"{path}.{form}", value, rule, f"{remedy} ({path})")


def _priority_class(
    spec: WorkloadSpec, team: TeamPolicy, classes: Mapping[str, PriorityClass]
) -> PriorityClass | AdmissionRefusal:
    name, granted = spec.priority_class, team.priority_classes
    if not name:
        default = default_class(spec.kind, granted, classes)
        if default is None:
            rule = f"team {team.name} has no priority class to use"
            remedy = f"ask an administrator for a priority class that team {team.name} may use"
            return _unknown("priority_class", "", rule, remedy)
        name = default.name
    rule = problem_of_class(name, team.name, granted, classes, shares=on_shares(spec))
    if rule:
        usable = usable_names(granted, classes.values())
        other = f"choose another priority class ({usable}), or leave it out"
        remedy = f"ask for whole GPUs or MIG, or {other}" if rule is NO_SHARES else other
        refused = _refused("priority_class", name, rule, remedy)
        return replace(refused, doubt=Doubt.NONE if name in classes else Doubt.NAMES)
    return classes[name]


def class_for_team(
    name: str, team_name: str, rules: AdmissionRules, *, shares: bool
) -> PriorityClass | None:
    """The class `name` if work of the team may be of it: the check behind a change of priority."""
    team = rules.teams.get(team_name)
    if team is None:
        return None
    problem = problem_of_class(
        name, team_name, team.priority_classes, rules.classes, shares=shares
    )
    return None if problem else rules.classes[name]


def _with_defaults(spec: WorkloadSpec, standing: _Standing, fleet: FleetShape) -> WorkloadSpec:
    default_pod = standing.team.default_pod
    notebook = spec.kind is WorkloadKind.NOTEBOOK
    idle, live = spec.idle_timeout_seconds, spec.time_to_live_seconds
    return replace(
        spec,
        pod_sets=tuple([_filled(one, spec.kind, default_pod) for one in spec.pod_sets]),
        gpu_choice=_choice(spec.gpu_choice, fleet),
        topology=_together(spec),
        queue=standing.queue.name,
        priority_class=standing.priority_class.name,
        idle_timeout_seconds=NOTEBOOK_IDLE_TIMEOUT_SECONDS if notebook and idle is None else idle,
        time_to_live_seconds=NOTEBOOK_TIME_TO_LIVE_SECONDS if notebook and live is None else live,
    )


def _choice(asked: GpuChoice, fleet: FleetShape) -> GpuChoice:
    if not asked.products and not asked.preferred_products:
        return asked
    return in_full(asked, {shape.product for shape in fleet.shapes})


def _together(spec: WorkloadSpec) -> TopologyRequest:
    """Pods of a training talk to each other all the time: it is near together where it can be."""
    asked = spec.topology
    named = asked.required or asked.preferred or spec.spread is not Spread.NONE
    alone = sum(one.count for one in spec.pod_sets) == 1
    if named or alone or spec.kind is not WorkloadKind.TRAINING:
        return asked
    wants_gpu = any(one.gpu != GpuRequest() for one in spec.pod_sets)
    return replace(asked, preferred=Level.ZONE) if wants_gpu else asked


def _filled(pod_set: PodSet, kind: WorkloadKind, default_pod: Resources) -> PodSet:
    gpu = pod_set.gpu
    if gpu.mig_profile and not gpu.mig_count:
        gpu = replace(gpu, mig_count=1)
    shm_mib = TRAINING_SHM_MIB if kind is WorkloadKind.TRAINING else OTHER_SHM_MIB
    return replace(
        pod_set,
        min_count=least_count(pod_set),
        gpu=gpu,
        cpu_milli=default_pod.cpu_milli if pod_set.cpu_milli is None else pod_set.cpu_milli,
        memory_mib=default_pod.memory_mib if pod_set.memory_mib is None else pod_set.memory_mib,
        shm_mib=shm_mib if pod_set.shm_mib is None else pod_set.shm_mib,
    )


def _check_maxima(spec: WorkloadSpec, team: TeamPolicy, errors: Errors) -> None:
    limit = team.max_pod
    for index, pod_set in enumerate(spec.pod_sets):
        wanted = pod_resources(pod_set)
        for name in ("gpu_milli", "cpu_milli", "memory_mib"):
            have, most = getattr(wanted, name), getattr(limit, name)
            if have > most:
                path = "gpu" if name == "gpu_milli" else name
                rule = f"must be at most {name} {most} in one pod of team {team.name}"
                errors.add(f"pod_sets[{index}].{path}", f"{name} {have}", rule)
