"""Is the shape of a gang well formed?

Slices nest and divide it, there is at most one leader, and pods that need a node each are not
asked to share one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from shared.core.admission.errors import Errors, shown
from shared.core.model.charges import least_count
from shared.core.model.nouns import Level, PodRole, PodSet, Spread, WorkloadSpec

SLICES_MAX: Final = 3


def check_slices(path: str, pod_set: PodSet, errors: Errors) -> None:
    """Rules for the slices of one set, from the outermost to the innermost."""
    slices = pod_set.slices
    if len(slices) > SLICES_MAX:
        errors.add(path, len(slices), f"must be at most {SLICES_MAX} levels of slices")
        return
    if any(not 1 <= each.pods <= pod_set.count for each in slices):
        errors.add(path, "", f"must have 1 to count ({pod_set.count}) pods each")
        return
    levels = list(Level)
    for at, (outer, inner) in enumerate(pairwise(slices), 1):
        if levels.index(inner.level) >= levels.index(outer.level):
            rule = f"must be tighter than the level of the slice around it ({outer.level})"
            errors.add(f"{path}[{at}].level", inner.level.value, rule)
        if outer.pods % inner.pods:
            rule = f"must divide the pods of the slice around it ({outer.pods})"
            errors.add(f"{path}[{at}].pods", inner.pods, rule)
    for name, pods in (("count", pod_set.count), ("min_count", least_count(pod_set))):
        if pods % slices[0].pods:
            rule = f"must divide {name} ({pods}): a gang is made of whole slices"
            errors.add(f"{path}[0].pods", slices[0].pods, rule)


def check_leader(spec: WorkloadSpec, errors: Errors) -> None:
    """A leader is one pod, beside other pods."""
    leaders = [
        (index, one) for index, one in enumerate(spec.pod_sets) if one.role is PodRole.LEADER
    ]
    if len(leaders) > 1:
        errors.add("pod_sets", len(leaders), "must have at most one set with role leader")
    for index, leader in leaders:
        if leader.count != 1:
            errors.add(f"pod_sets[{index}].count", leader.count, "must be 1 for a leader")
        if leader.slices:
            rule = "go with workers: a leader is one pod"
            errors.add(f"pod_sets[{index}].slices", len(leader.slices), rule)
        if len(spec.pod_sets) == 1:
            errors.add(f"pod_sets[{index}].role", "leader", "needs another set, of its workers")


def check_spread(spec: WorkloadSpec, errors: Errors) -> None:
    """Pods that are each on a node of their own cannot be asked to share it."""
    if spec.spread is not Spread.REQUIRED:
        return
    pods = sum(map(least_count, spec.pod_sets))
    if spec.topology.required is Level.NODE and pods > 1:
        rule = f"must not go with topology.required node: {shown(pods)} pods need a node each"
        errors.add("spread", "required", rule)
    for index, pod_set in enumerate(spec.pod_sets):
        for at, each in enumerate(pod_set.slices):
            if each.level is Level.NODE and each.pods > 1:
                rule = "must be 1 with spread required: the pods of such a slice share a node"
                errors.add(f"pod_sets[{index}].slices[{at}].pods", each.pods, rule)
