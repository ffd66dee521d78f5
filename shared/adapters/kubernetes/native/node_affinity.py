"""The node affinity of a pod, as far as it can be told as a choice of nodes.

Required: one term of `In` expressions, each a label and the values that it may have. Preferred:
weights of values of one label. Other operators, several terms (which are alternatives) and fields
of nodes are named by their path, to be refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.core.model.value import Value, field

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PATH: Final = "spec.affinity.nodeAffinity"


class NodeAffinity(Value, frozen=True, kw_only=True):
    """`required`: values by label; `preferred`: weight by label and value; `refused`: paths."""

    required: dict[str, tuple[str, ...]] = field(default_factory=dict)
    preferred: dict[str, dict[str, int]] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


def read_node_affinity(affinity: Mapping[str, Any] | None) -> NodeAffinity:
    """Of `spec.affinity`; the API server has checked its form."""
    found = (affinity or {}).get("nodeAffinity") or {}
    required: dict[str, tuple[str, ...]] = {}
    preferred: dict[str, dict[str, int]] = {}
    refused = []
    terms = (found.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    for key, values in _expressions(terms[0]) if len(terms) == 1 else ():
        both = [one for one in required.get(key, values) if one in values]
        required[key] = tuple(both)
    if terms and (len(terms) > 1 or not _is_told(terms[0]) or not all(required.values())):
        refused.append(f"{_PATH}.{REQUIRED}")
    for one in found.get(PREFERRED) or ():
        told = list(_expressions(one["preference"]))
        if not _is_told(one["preference"]) or len(told) > 1:
            refused.append(f"{_PATH}.{PREFERRED}")
        for key, values in told[:1]:
            weights = preferred.setdefault(key, {})
            for value in values:
                weights[value] = weights.get(value, 0) + one["weight"]
    return NodeAffinity(required=required, preferred=preferred, refused=tuple(refused))


def _expressions(term: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for one in term.get("matchExpressions") or ():
        if one["operator"] == "In":
            yield one["key"], tuple(one["values"])


def _is_told(term: Mapping[str, Any]) -> bool:
    """Whether all of a term was read: there is an expression, and each is an `In` of labels."""
    expressions = term.get("matchExpressions") or ()
    only = all(one["operator"] == "In" for one in expressions)
    return bool(expressions) and only and not term.get("matchFields")
