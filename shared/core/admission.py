"""Admission: is a submission valid, whose is it, and could it ever run?

Mission A1-A5, A7, M6. `admit` answers with the spec, its defaults filled and its priority
decided, or with every broken rule. Four steps, each only when the one before found nothing: form
and kind, whose it is, defaults and maxima, fit against the empty fleet and the whole quota. Team,
queue and priority ceiling come from the caller's identity, never from a field that he can set.

A refusal that rests on facts which may still be under way (an unknown queue, a fleet that is
still reporting) says so by its `doubt`; the service waits a moment before it tells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.core.admission_form import Errors, check_form, shown
from shared.core.amounts import Amount, amount, exceeded, fits
from shared.core.decision import FieldError
from shared.core.fleet_shape import FleetShape
from shared.core.model import (
    PodSet,
    WorkloadKind,
    WorkloadSpec,
    least_count,
    least_resources,
    pod_resources,
)
from shared.core.priority_classes import PriorityClass, built_in, default_class, may_use, names
from shared.core.quota import QuotaDocument, QuotaNode, QuotaTree
from shared.core.static_fit import fitting_flavors, model_error
from shared.core.units import Resources
from shared.core.value import Value, replace

TRAINING_SHM_MIB: Final = 16_384
"""Data loaders of training pass batches through shared memory (mission M4)."""
OTHER_SHM_MIB: Final = 64
NOTEBOOK_IDLE_TIMEOUT_SECONDS: Final = 3_600
NOTEBOOK_TIME_TO_LIVE_SECONDS: Final = 8 * 3_600
FIT_CACHE_MAX: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPolicy:
    """What a team may do and what it gets when it does not say."""

    name: str
    default_queue: str
    priority_classes: tuple[str, ...] = ()
    default_pod: Resources
    max_pod: Resources
    max_pending: int = 1_000_000
    """Workloads that were accepted and have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """A queue and its team; `limits` by flavor if nothing else ran, in order of preference.

    What may be borrowed counts: only a request beyond it can never run.
    """

    name: str
    team: str
    node: QuotaNode

    @property
    def limits(self) -> Mapping[str, Amount]:
        """Worked out anew, because every document of its tree may change it. O(depth)."""
        document = self.node.document
        return {one: self.node.potential(one) for one in document.flavors} if document else {}


@dataclass(slots=True, kw_only=True)
class Rules:
    """Everything that `admit` judges by; changed in place as facts come in."""

    teams: dict[str, TeamPolicy] = field(default_factory=dict)
    queues: dict[str, QueueRules] = field(default_factory=dict)
    tree: QuotaTree = field(default_factory=QuotaTree)
    classes: dict[str, PriorityClass] = field(default_factory=built_in)
    fleet: FleetShape = field(default_factory=FleetShape)
    _fits: dict[tuple[object, ...], tuple[FieldError, ...]] = field(default_factory=dict)
    _fits_version: int = -1

    def apply_quota(self, document: QuotaDocument) -> None:
        """A queue or cohort as applied; one that quota refuses changes nothing."""
        node, _ = self.tree.apply(document)
        if node is None:
            return
        if document.kind == "queue":
            self.queues[node.name] = QueueRules(name=node.name, team=document.team, node=node)
        self._fits.clear()

    def fit_errors(self, spec: WorkloadSpec, queue: QueueRules) -> tuple[FieldError, ...]:
        """Broken rules of fleet and quota, remembered for equal requests."""
        if self._fits_version != self.fleet.version or len(self._fits) >= FIT_CACHE_MAX:
            self._fits.clear()
            self._fits_version = self.fleet.version
        key = _fit_key(spec, queue.name)
        known = self._fits.get(key)
        if known is None:
            known = self._fits[key] = _fit_errors(spec, queue, self.fleet)
        return known


class AdmittedWorkload(Value, frozen=True, kw_only=True):
    """A yes: the spec with every default filled, and what identity decided."""

    spec: WorkloadSpec
    queue: str
    priority: int


class Doubt(StrEnum):
    """Which facts under way could still turn a refusal."""

    NONE = "none"
    NAMES = "names"
    """A team, queue or priority class that is not known."""
    FIT = "fit"
    """A fleet or quota that is too small."""


class Refused(Value, frozen=True, kw_only=True):
    """A no with every broken rule."""

    errors: tuple[FieldError, ...]
    doubt: Doubt = Doubt.NONE

    @property
    def message(self) -> str:
        """All rules in one line, for people."""
        shown_errors = "; ".join(
            f"{one.field}: {one.rule}" + (f" (got {one.value})" if one.value else "")
            for one in self.errors[:3]
        )
        more = f"; and {len(self.errors) - 3} more" if len(self.errors) > 3 else ""  # noqa: PLR2004
        return shown_errors + more


def admit(spec: WorkloadSpec, team_name: str, rules: Rules) -> AdmittedWorkload | Refused:
    """Judge a decoded spec of a team; never raises. O(size of the spec) for equal requests."""
    errors = Errors()
    check_form(spec, errors)
    if not errors:
        check_kind(spec, errors)
    if errors:
        return Refused(errors=tuple(errors))
    standing = _whose(spec, team_name, rules)
    if isinstance(standing, Refused):
        return standing
    filled = _with_defaults(spec, standing)
    _check_maxima(filled, standing.team, errors)
    if not errors:
        too_small = model_error(filled, rules.fleet)
        errors.extend(() if too_small is None else (too_small,))
    if errors:
        return Refused(errors=tuple(errors))
    unfit = rules.fit_errors(filled, standing.queue)
    if unfit:
        return Refused(errors=unfit, doubt=Doubt.FIT)
    chosen = standing.priority_class
    return AdmittedWorkload(spec=filled, queue=standing.queue.name, priority=chosen.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """Whose a submission is, and what that entitles it to."""

    team: TeamPolicy
    queue: QueueRules
    priority_class: PriorityClass


def _whose(spec: WorkloadSpec, team_name: str, rules: Rules) -> _Standing | Refused:
    team = rules.teams.get(team_name)
    if team is None:
        return _unknown("team", team_name, "is not a team; an administrator must apply it first")
    name = spec.queue or team.default_queue
    queue = rules.queues.get(name)
    if queue is None or queue.team != team.name:
        return _unknown("queue", name, f"is not a queue of team {team.name}")
    chosen = _priority_class(spec, team, rules.classes)
    if isinstance(chosen, Refused):
        return chosen
    if chosen.protected and any(one.gpu.milli for one in spec.pod_sets):
        rule = "a protected class never runs on shares of a GPU; ask for whole GPUs or MIG"
        return _refused("priority_class", chosen.name, rule)
    return _Standing(team=team, queue=queue, priority_class=chosen)


def _refused(path: str, value: str, rule: str) -> Refused:
    return Refused(errors=(FieldError(field=path, value=shown(value), rule=rule),))


def _unknown(path: str, value: str, rule: str) -> Refused:
    return replace(_refused(path, value, rule), doubt=Doubt.NAMES)


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
    """Collect pod sets whose form of GPU request is not for the kind."""
    allowed, rule = _FORMS[spec.kind]
    for index, pod_set in enumerate(spec.pod_sets):
        gpu = pod_set.gpu
        form = "count" if gpu.count else "milli" if gpu.milli else "mig_profile"
        value: int | str = gpu.count or gpu.milli or gpu.mig_profile
        if value and form not in allowed:
            errors.add(f"pod_sets[{index}].gpu.{form}", value, rule)


def _priority_class(
    spec: WorkloadSpec, team: TeamPolicy, classes: Mapping[str, PriorityClass]
) -> PriorityClass | Refused:
    granted = team.priority_classes
    if not spec.priority_class:
        default = default_class(spec.kind, granted, classes)
        if default is None:
            return _unknown("priority_class", "", f"team {team.name} has no priority class to use")
        return default
    found = classes.get(spec.priority_class)
    if found is not None and may_use(granted, found):
        return found
    usable = names(one for one in classes.values() if may_use(granted, one))
    rule = f"is not a priority class that team {team.name} may use; it may use: {usable}"
    refused = _refused("priority_class", spec.priority_class, rule)
    return replace(refused, doubt=Doubt.NAMES if found is None else Doubt.NONE)


def class_for_team(name: str, team_name: str, rules: Rules) -> PriorityClass | None:
    """The class `name` if the team may use it: the check behind a change of priority."""
    team, found = rules.teams.get(team_name), rules.classes.get(name)
    if team is None or found is None or not may_use(team.priority_classes, found):
        return None
    return found


def _with_defaults(spec: WorkloadSpec, standing: _Standing) -> WorkloadSpec:
    default_pod = standing.team.default_pod
    notebook = spec.kind is WorkloadKind.NOTEBOOK
    idle, live = spec.idle_timeout_seconds, spec.time_to_live_seconds
    return replace(
        spec,
        pod_sets=tuple([_filled(one, spec.kind, default_pod) for one in spec.pod_sets]),
        queue=standing.queue.name,
        priority_class=standing.priority_class.name,
        idle_timeout_seconds=NOTEBOOK_IDLE_TIMEOUT_SECONDS if notebook and idle is None else idle,
        time_to_live_seconds=NOTEBOOK_TIME_TO_LIVE_SECONDS if notebook and live is None else live,
    )


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


def _fit_key(spec: WorkloadSpec, queue: str) -> tuple[object, ...]:
    """Equal keys have equal fits. A `GpuChoice` holds a dictionary, so its parts are taken."""
    choice = spec.gpu_choice
    pods = [
        (least_count(one), one.slices, one.gpu, one.cpu_milli, one.memory_mib)
        for one in spec.pod_sets
    ]
    return (
        queue,
        tuple(pods),
        choice.products,
        choice.min_memory_mib,
        choice.min_driver,
        choice.cuda,
        choice.node_pool,
        spec.topology.required,
        spec.topology.numa_aligned,
    )


def _fit_errors(
    spec: WorkloadSpec, queue: QueueRules, fleet: FleetShape
) -> tuple[FieldError, ...]:
    flavors, error = fitting_flavors(spec, fleet)
    if error is not None:
        return (error,)
    requested = amount(least_resources(spec))
    limits = queue.limits
    room = [name for name, limit in limits.items() if fits(requested, _NO_USE, limit)]
    if not room:
        return (_over_quota(queue.name, limits, requested),)
    if fleet.shapes and not flavors.intersection(room):
        rule = (
            f"fits only nodes of flavor {', '.join(sorted(flavors))}; queue {queue.name} has "
            f"quota for it only in {', '.join(room)}"
        )
        return (FieldError(field="queue", value=queue.name, rule=rule),)
    return ()


_NO_USE: Final[Amount] = (0, 0, 0)


def _over_quota(queue: str, limits: Mapping[str, Amount], requested: Amount) -> FieldError:
    """A7's words for the flavor with the most GPU quota: even alone it would not fit."""
    if not limits:
        rule = "has no quota in any flavor; an administrator must give it one"
        return FieldError(field="queue", value=queue, rule=rule)
    flavor, limit = max(limits.items(), key=lambda item: item[1])
    rule = exceeded(queue, requested, _NO_USE, limit)
    return FieldError(
        field="pod_sets",
        value="",
        rule=f"{rule} (flavor {flavor}, even when nothing else runs)",
    )
