"""A node affinity is a choice of nodes, or it is named as one that cannot be told."""

import pytest

from shared.adapters.kubernetes.native.node_affinity import (
    PREFERRED,
    REQUIRED,
    read_node_affinity,
)


def is_in(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def required(*terms):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def preferred(*weighed):
    told = [{"weight": weight, "preference": term} for weight, term in weighed]
    return {"nodeAffinity": {PREFERRED: told}}


def term(*expressions, **fields):
    return {"matchExpressions": list(expressions), **fields}


@pytest.mark.parametrize(
    ("affinity", "values", "weights"),
    [
        (None, {}, {}),
        ({"podAffinity": {}}, {}, {}),
        (required(term(is_in("a", "x", "y"))), {"a": ("x", "y")}, {}),
        (required(term(is_in("a", "x"), is_in("b", "y"))), {"a": ("x",), "b": ("y",)}, {}),
        (required(term(is_in("a", "x", "y"), is_in("a", "y", "z"))), {"a": ("y",)}, {}),
        (
            preferred((5, term(is_in("a", "x"))), (7, term(is_in("a", "x", "y")))),
            {},
            {"a": {"x": 12, "y": 7}},
        ),
    ],
)
def test_what_can_be_told_is_told(affinity, values, weights):
    found = read_node_affinity(affinity)

    assert (values, weights, ()) == (found.required, found.preferred, found.refused)


@pytest.mark.parametrize(
    "affinity",
    [
        required(term(is_in("a", "x")), term(is_in("a", "y"))),
        required(term(is_in("a", operator="Exists"))),
        required(term(is_in("a", "x"), is_in("b", "x", operator="NotIn"))),
        required(term(is_in("a", "x"), matchFields=[is_in("metadata.name", "n")])),
        required(term(is_in("a", "x"), is_in("a", "y"))),
        required({}),
    ],
)
def test_what_is_required_and_cannot_be_told_is_named(affinity):
    assert (f"spec.affinity.nodeAffinity.{REQUIRED}",) == read_node_affinity(affinity).refused


@pytest.mark.parametrize(
    "affinity",
    [
        preferred((1, term(is_in("a", "x"), is_in("b", "y")))),
        preferred((1, term(is_in("a", "1", operator="Gt")))),
    ],
)
def test_what_is_preferred_and_cannot_be_told_is_named(affinity):
    assert (f"spec.affinity.nodeAffinity.{PREFERRED}",) == read_node_affinity(affinity).refused
