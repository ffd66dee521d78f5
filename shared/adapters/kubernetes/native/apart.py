"""Terms of a pod that keep it off nodes with certain other pods: the field, read or refused.

Read: anti-affinity and spread constraints by hostname, in the pod's own namespace. All other terms
between pods are named by their path, to be refused. The API server has checked their form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.adapters.kubernetes.native.node_affinity import PREFERRED, REQUIRED
from shared.adapters.kubernetes.native.objects import NativeSpec
from shared.core.kubernetes.pods_apart import LabelRule, PodsApart

HOSTNAME: Final = "kubernetes.io/hostname"
_ANTI: Final = "podAntiAffinity"
_NEAR: Final = "podAffinity"
_SPREAD: Final = "spec.topologySpreadConstraints"
_ELSEWHERE: Final = ("namespaceSelector", "mismatchLabelKeys")
"""Fields of a term that choose pods in other ways than by their labels."""


def read_apart(
    spec: NativeSpec, labels: Mapping[str, str], namespace: str
) -> tuple[tuple[PodsApart, ...], tuple[str, ...]]:
    """What is read, and the paths of what is not."""
    found = list(_terms(spec, labels, namespace))
    return (
        tuple(one for one in found if isinstance(one, PodsApart)),
        tuple(one for one in found if isinstance(one, str)),
    )


def _terms(
    spec: NativeSpec, labels: Mapping[str, str], namespace: str
) -> Iterator[PodsApart | str]:
    affinity = spec.affinity or {}
    for name, terms in (affinity.get(_NEAR) or {}).items():
        if terms:
            yield f"spec.affinity.{_NEAR}.{name}"
    anti = affinity.get(_ANTI) or {}
    for index, term in enumerate(anti.get(REQUIRED) or ()):
        yield from _anti(term, f"{REQUIRED}[{index}]", labels, namespace)
    for index, one in enumerate(anti.get(PREFERRED) or ()):
        term, name = one["podAffinityTerm"], f"{PREFERRED}[{index}]"
        yield from _anti(term, name, labels, namespace)
    for index, one in enumerate(spec.topology_spread_constraints):
        required = one["whenUnsatisfiable"] == "DoNotSchedule"
        yield from _apart(one, f"{_SPREAD}[{index}]", required=required, labels=labels)


def _anti(
    term: Mapping[str, Any], name: str, labels: Mapping[str, str], namespace: str
) -> Iterator[PodsApart | str]:
    path = f"spec.affinity.{_ANTI}.{name}"
    if any(one != namespace for one in term.get("namespaces") or ()):
        yield f"{path}.namespaces"
        return
    other = next((one for one in _ELSEWHERE if term.get(one) is not None), None)
    if other is not None:
        yield f"{path}.{other}"
        return
    yield from _apart(term, path, required=name.startswith(REQUIRED), labels=labels)


def _apart(
    term: Mapping[str, Any], path: str, *, required: bool, labels: Mapping[str, str]
) -> Iterator[PodsApart | str]:
    selector = term.get("labelSelector")
    if selector is None:
        return  # chooses no pod
    if term["topologyKey"] != HOSTNAME:
        yield f"{path}.topologyKey"
        return
    same = {key: labels[key] for key in term.get("matchLabelKeys") or () if key in labels}
    equal = {**(selector.get("matchLabels") or {}), **same}
    rules = [LabelRule(key=key, operator="In", values=(text,)) for key, text in equal.items()]
    rules += [
        LabelRule(key=one["key"], operator=one["operator"], values=tuple(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    yield PodsApart(field=path, required=required, rules=tuple(rules))
