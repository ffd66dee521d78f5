"""Terms by which a pod does not share its node with pods that a label selector chooses."""

from __future__ import annotations

from collections.abc import Mapping

from shared.core.model.value import Value


class LabelRule(Value, frozen=True, kw_only=True):
    """One expression of a label selector; `operator` as Kubernetes names it."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels of a pod are as it says. O(values)."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        return (self.key in labels) == (self.operator == "Exists")


class PodsApart(Value, frozen=True, kw_only=True):
    """A term by which a pod does not share its node with pods that a selector chooses."""

    field: str
    """Its path in the spec of the pod."""
    required: bool
    """False: only where that is possible."""
    rules: tuple[LabelRule, ...] = ()
    """All of them hold of the pods that it chooses; none: it chooses all."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it chooses a pod with these labels. O(rules)."""
        return all(one.holds(labels) for one in self.rules)
