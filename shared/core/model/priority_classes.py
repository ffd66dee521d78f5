"""Priority classes: which there are, which teams may use them, and the default of each kind.

Three are built in, in the order of mission A3; a site overrides them by name or adds its own. A
protected class is never preempted and must be granted to a team by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from shared.core.model.nouns import WorkloadKind, WorkloadSpec

PRIORITY_MAX: Final = 1_000_000_000
"""Of a class, to both sides of 0; as in Kubernetes for classes of users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A larger `value` runs first; `kinds` are those that get this class by default."""

    name: str
    value: int
    protected: bool = False
    kinds: tuple[str, ...] = ()


BUILT_IN: Final = (
    PriorityClass(
        name="inference-production",
        value=1000,
        protected=True,
        kinds=(WorkloadKind.INFERENCE,),
    ),
    PriorityClass(
        name="training-interactive",
        value=500,
        kinds=(WorkloadKind.NOTEBOOK, WorkloadKind.INFERENCE),
    ),
    PriorityClass(
        name="training-batch",
        value=100,
        kinds=(WorkloadKind.TRAINING, WorkloadKind.BATCH_INFERENCE),
    ),
)


NO_SHARES: Final = "a protected class never runs on shares of a GPU; ask for whole GPUs or MIG"


def built_in() -> dict[str, PriorityClass]:
    """The built-in classes by name."""
    return {one.name: one for one in BUILT_IN}


def may_use(granted: tuple[str, ...], one: PriorityClass) -> bool:
    """Whether a team with `granted` classes may use `one`; none granted means all unprotected."""
    return one.name in granted if granted else not one.protected


def on_shares(spec: WorkloadSpec) -> bool:
    """Whether a pod of it holds a share of a GPU, beside others."""
    return any(pod_set.gpu.milli for pod_set in spec.pod_sets)


def problem_of_class(
    name: str,
    team: str,
    granted: tuple[str, ...],
    classes: Mapping[str, PriorityClass],
    *,
    shares: bool,
) -> str:
    """The rule by which work of a team may not be of this class; "" if it may.

    The same whether it is submitted so or its owner changes it later. `shares`: see `on_shares`.
    """
    found = classes.get(name)
    if found is None or not may_use(granted, found):
        return rule_of_use(team, granted, classes.values())
    return NO_SHARES if shares and found.protected else ""


def default_class(
    kind: WorkloadKind, granted: tuple[str, ...], classes: Mapping[str, PriorityClass]
) -> PriorityClass | None:
    """The class for `kind` when none is named: the highest that is meant for the kind.

    Without one, the lowest that the team may use; None when it may use none.
    """
    usable = [one for one in classes.values() if may_use(granted, one)]
    meant = [one for one in usable if kind in one.kinds]
    if meant:
        return max(meant, key=_rank)
    return min(usable, key=_rank, default=None)


def rule_of_use(team: str, granted: tuple[str, ...], classes: Iterable[PriorityClass]) -> str:
    """What is told a team that names a class which there is not, or which it may not use."""
    usable = usable_names(granted, classes)
    return f"is not a priority class that team {team} may use; it may use: {usable}"


def usable_names(granted: tuple[str, ...], classes: Iterable[PriorityClass]) -> str:
    """Names of the classes that a team may use, for a message."""
    return names(one for one in classes if may_use(granted, one))


def _rank(one: PriorityClass) -> tuple[int, str]:
    return one.value, one.name


def names(classes: Iterable[PriorityClass]) -> str:
    """Names in order of value, for a message."""
    return ", ".join(one.name for one in sorted(classes, key=_rank, reverse=True)) or "none"
