"""What submissions are judged by: teams, queues in their tree, priority classes, and the fleet.

Whether a request could ever run (against the empty fleet and the whole quota, with all that may
be borrowed) is remembered for equal requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.core.admission.fleet_shape import FleetShape
from shared.core.admission.static_fit import fitting_flavors
from shared.core.model.amounts import Amount, exceeded, fits, short_units, told_units
from shared.core.model.charges import least_amount, least_count
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.priority_classes import PriorityClass, built_in
from shared.core.model.units import Resources
from shared.core.quota.tree import QuotaDocument, QuotaNode, QuotaTree

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
    namespace: str = ""
    """Where its pods are; empty: the namespace that is named as the team."""
    service_account: str = ""
    """Service account that its pods use towards the cluster; empty: none."""


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
class AdmissionRules:
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

    def forget_team(self, name: str) -> None:
        """Let no more submissions in for a team."""
        self.teams.pop(name, None)

    def forget_queue(self, emptied: QuotaDocument) -> None:
        """Nothing is let into a queue any more; `emptied` is its document without quota."""
        self.apply_quota(emptied)
        self.queues.pop(emptied.name, None)

    def forget_class(self, name: str) -> None:
        """There is no such priority class, or only the built-in one."""
        self.classes.pop(name, None)
        if name in (found := built_in()):
            self.classes[name] = found[name]

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
        spec.spread,
    )


def _fit_errors(
    spec: WorkloadSpec, queue: QueueRules, fleet: FleetShape
) -> tuple[FieldError, ...]:
    flavors, error = fitting_flavors(spec, fleet)
    if error is not None:
        return (error,)
    requested = least_amount(spec)
    limits = queue.limits
    room = [name for name, limit in limits.items() if fits(requested, _NO_USE, limit)]
    if not room:
        return (_over_quota(queue.name, limits, requested),)
    if fleet.shapes and not flavors.intersection(room):
        rule = (
            f"fits only nodes of flavor {', '.join(sorted(flavors))}; queue {queue.name} has "
            f"quota for it only in {', '.join(room)}"
        )
        remedy = (
            f"choose a queue with quota in {', '.join(sorted(flavors))}, or ask for such quota"
        )
        return (FieldError(field="queue", value=queue.name, rule=rule, remedy=remedy),)
    return ()


_NO_USE: Final[Amount] = (0, 0, 0)


def _over_quota(queue: str, limits: Mapping[str, Amount], requested: Amount) -> FieldError:
    """A7's words for the flavor with the most GPU quota: even alone it would not fit."""
    if not limits:
        rule = "has no quota in any flavor; an administrator must give it one"
        remedy = f"ask an administrator for quota of queue {queue}, or choose another queue"
        return FieldError(field="queue", value=queue, rule=rule, remedy=remedy)
    flavor, limit = max(limits.items(), key=lambda item: item[1])
    rule = exceeded(queue, requested, _NO_USE, limit)
    return FieldError(
        field="pod_sets",
        value="",
        rule=f"{rule} (flavor {flavor}, even when nothing else runs)",
        remedy=f"ask for at most {told_units(limit, short_units(requested, _NO_USE, limit))}, or"
        f" an administrator for more quota of queue {queue}",
    )
