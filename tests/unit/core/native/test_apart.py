"""Which pods are kept on nodes of their own, and which terms cannot be honoured."""

import pytest

from shared.core.kubernetes.pods_apart import LabelRule, PodsApart
from shared.core.model.decision import FieldError
from shared.core.model.nouns import Spread
from shared.core.native import NativePod, PodGroup, spec_of
from shared.core.native.apart import problem_of_spread

HARD = PodsApart(
    field="spec.x", required=True, rules=(LabelRule(key="app", operator="In", values=("a",)),)
)
SOFT = PodsApart(field="spec.y", required=False)


def a_pod(name, app="a", **fields):
    return NativePod(namespace="red", name=name, uid=name, labels={"app": app}, **fields)


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [
        ("In", ("a", "b"), True),
        ("In", ("b",), False),
        ("NotIn", ("b",), True),
        ("NotIn", ("a",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
    ],
)
def test_a_selector_chooses_by_all_of_its_rules(operator, values, selected):
    rule = LabelRule(key="app", operator=operator, values=values)
    term = PodsApart(field="f", required=True, rules=(*HARD.rules, rule))

    assert selected is term.selects({"app": "a"})
    assert not term.selects({})


@pytest.mark.parametrize(
    ("terms", "spread"),
    [((), Spread.NONE), ((SOFT,), Spread.PREFERRED), ((SOFT, HARD), Spread.REQUIRED)],
)
def test_a_group_spreads_as_its_strictest_member_asks(terms, spread):
    pods = [a_pod("head"), a_pod("worker", apart=terms)]

    found = spec_of(PodGroup(key="k", name="g", size=2), pods, ())

    assert not isinstance(found, FieldError)
    assert spread is found.spread


@pytest.mark.parametrize(
    ("members", "others", "problem"),
    [
        ([a_pod("p", apart=(HARD,))], [a_pod("web", "b")], None),
        ([a_pod("p")], [a_pod("web")], None),
        ([a_pod("p", apart=(HARD,))], [a_pod("web")], ("spec.x", "web")),
        ([a_pod("p", "b", apart=(HARD,))], [], ("spec.x", "p")),
        ([a_pod("p", apart=(HARD, SOFT))], [a_pod("web", "b")], ("spec.y", "web")),
    ],
)
def test_a_term_chooses_the_group_and_no_other_pod(members, others, problem):
    found = problem_of_spread(members, others)

    assert problem == (found and (found.field, found.value))
