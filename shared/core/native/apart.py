"""Pods that are to lie on nodes of their own: anti-affinity and spread constraints by hostname.

Both are honoured as far as they keep the pods of a group from each other (`Spread`): with one pod
on each node no skew is larger than one. A term that chooses pods outside of the group is refused.
Source: Kubernetes, PodAffinityTerm, TopologySpreadConstraint, LabelSelector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from shared.core.kubernetes.pods_apart import PodsApart
from shared.core.model.decision import FieldError
from shared.core.model.nouns import Spread
from shared.core.native.pod import NativePod

_REMEDY: Final = (
    "choose by a label that only this group has, such as muster.dev/group or the name of its"
    " Job; pods of one Deployment are a group with the label muster.dev/group"
)


def spread_of(members: Iterable[NativePod]) -> Spread:
    """The strictest that a member asks for. O(members)."""
    asked = [one.required for pod in members for one in pod.apart]
    if not asked:
        return Spread.NONE
    return Spread.REQUIRED if any(asked) else Spread.PREFERRED


def problem_of_spread(
    members: Sequence[NativePod], others: Iterable[NativePod]
) -> FieldError | None:
    """The first term that chooses other pods than those of the group; None: there is none.

    `others`: pods of the namespace that are not over and of other groups. Equal terms are looked
    at once: O(members + terms x others).
    """
    terms: dict[PodsApart, NativePod] = {}
    for pod in members:
        for term in pod.apart:
            if not term.selects(pod.labels):
                return _error(term, pod.name, "chooses other pods than its own group")
            terms.setdefault(term, pod)
    if not terms:
        return None
    for other in others:
        found = next((one for one in terms if one.selects(other.labels)), None)
        if found is not None:
            return _error(found, other.name, "chooses a pod that is not of its group")
    return None


def _error(term: PodsApart, value: str, rule: str) -> FieldError:
    return FieldError(field=term.field, value=value[:64], rule=rule, remedy=_REMEDY)
