"""Terms between pods as the API server has them: read where they are by hostname, else refused."""

from typing import Any

import msgspec
import pytest

from shared.adapters.kubernetes.native.apart import read_apart
from shared.adapters.kubernetes.native.objects import NativeSpec
from shared.core.kubernetes.pods_apart import LabelRule, PodsApart

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OWN = {"matchLabels": {"app": "a"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ANTI = "spec.affinity.podAntiAffinity"
IS_A = LabelRule(key="app", operator="In", values=("a",))


def read(**spec):
    return read_apart(msgspec.convert(spec, NativeSpec), {"hash": "7"}, "red")


def anti(kind=REQUIRED, **term):
    found = {"topologyKey": HOSTNAME, "labelSelector": OWN, **term}
    one = found if kind == REQUIRED else {"weight": 1, "podAffinityTerm": found}
    return {"affinity": {"podAntiAffinity": {kind: [one]}}}


def constraint(when="DoNotSchedule", **fields):
    one = {"maxSkew": 1, "whenUnsatisfiable": when, "topologyKey": HOSTNAME, **fields}
    return {"topologySpreadConstraints": [{"labelSelector": OWN, **one}]}


EXPRESSION = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
READ = {
    "required": (anti(), f"{ANTI}.{REQUIRED}[0]", True, (IS_A,)),
    "preferred": (anti(PREFERRED), f"{ANTI}.{PREFERRED}[0]", False, (IS_A,)),
    "own namespace": (anti(namespaces=["red"]), f"{ANTI}.{REQUIRED}[0]", True, (IS_A,)),
    "hard": (constraint(), "spec.topologySpreadConstraints[0]", True, (IS_A,)),
    "soft": (constraint("ScheduleAnyway"), "spec.topologySpreadConstraints[0]", False, (IS_A,)),
    "expression": (
        anti(labelSelector=EXPRESSION),
        f"{ANTI}.{REQUIRED}[0]",
        True,
        (LabelRule(key="app", operator="Exists"),),
    ),
    "keys": (
        constraint(matchLabelKeys=["hash", "none"]),
        "spec.topologySpreadConstraints[0]",
        True,
        (IS_A, LabelRule(key="hash", operator="In", values=("7",))),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_term_by_hostname_is_read(name):
    spec, field, required, rules = READ[name]

    assert ((PodsApart(field=field, required=required, rules=rules),), ()) == read(**spec)


NEAR: dict[str, Any] = {"affinity": {"podAffinity": {PREFERRED: [{}]}}}
REFUSED = {
    "near others": (NEAR, f"spec.affinity.podAffinity.{PREFERRED}"),
    "zone": (anti(topologyKey=ZONE), f"{ANTI}.{REQUIRED}[0].topologyKey"),
    "zones": (constraint(topologyKey=ZONE), "spec.topologySpreadConstraints[0].topologyKey"),
    "namespaces": (anti(namespaces=["blue"]), f"{ANTI}.{REQUIRED}[0].namespaces"),
    "all namespaces": (anti(namespaceSelector={}), f"{ANTI}.{REQUIRED}[0].namespaceSelector"),
    "mismatch": (anti(PREFERRED, mismatchLabelKeys=["a"]), f"{ANTI}.{PREFERRED}[0].mismatchL"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_all_other_terms_are_named(name):
    spec, field = REFUSED[name]
    read_ones, (refused,) = read(**spec)

    assert () == read_ones
    assert refused.startswith(field)


def test_a_term_that_chooses_no_pod_is_none():
    assert ((), ()) == read(**anti(labelSelector=None, topologyKey=ZONE))
    assert ((), ()) == read(affinity={"podAffinity": {REQUIRED: []}})
