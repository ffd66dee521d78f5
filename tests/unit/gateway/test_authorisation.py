"""Who may do what: every route with every role, on one's own and on another team's objects."""

import pytest

from services.gateway.api.routes import ROUTES
from services.gateway.http.authorisation import (
    NEEDS,
    AccessVerdict,
    Action,
    Role,
    Subject,
    authorise,
    may_grant,
)

OPEN = {"/healthz", "/readyz", "/openapi.json"}
WEAKEST = {
    Action.READ_WORKLOAD: "viewer",
    Action.SUBMIT_WORKLOAD: "member",
    Action.CONTROL_WORKLOAD: "member",
    Action.EXEC_WORKLOAD: "member",
    Action.EVICT_WORKLOAD: "operator",
    Action.CONTROL_FLEET: "operator",
    Action.READ_FLEET: "viewer",
    Action.READ_CATALOGUE: "viewer",
    Action.READ_TEAM: "viewer",
    Action.APPLY_ORGANISATION: "operator",
    Action.MANAGE_KEYS: "admin",
    Action.READ_METRICS: "operator",
}
ORDER = ["viewer", "member", "admin", "operator"]


def test_only_health_and_the_description_are_open():
    assert {route.path for route in ROUTES if route.action is None} == OPEN


def test_every_action_is_known_and_used_by_a_route():
    assert set(NEEDS) == set(Action) == {route.action for route in ROUTES if route.action}


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.action], ids=lambda route: route.name
)
def test_a_route_is_allowed_from_its_weakest_role_on(route, role):
    subject = Subject(name="k", team="red", role=role)
    strong_enough = ORDER.index(role) >= ORDER.index(WEAKEST[route.action])

    own, nobodys = (authorise(subject, route.action, team) for team in ("red", None))

    expected = AccessVerdict.ALLOWED if strong_enough else AccessVerdict.FORBIDDEN
    assert (own, nobodys) == (expected, expected)


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.OPERATOR])
@pytest.mark.parametrize("action", list(Action))
def test_what_belongs_to_another_team_is_hidden(action, role):
    assert (
        authorise(Subject(name="k", team="red", role=role), action, "blue") is AccessVerdict.HIDDEN
    )


@pytest.mark.parametrize("action", list(Action))
def test_an_operator_may_do_everything_for_every_team(action):
    subject = Subject(name="k", team="", role=Role.OPERATOR)

    assert authorise(subject, action, "blue") is AccessVerdict.ALLOWED


def test_an_action_without_a_rule_is_denied_to_everybody(monkeypatch):
    monkeypatch.delitem(NEEDS, Action.READ_FLEET)
    subject = Subject(name="k", team="red", role=Role.OPERATOR)

    assert authorise(subject, Action.READ_FLEET) is AccessVerdict.FORBIDDEN


@pytest.mark.parametrize("granter", list(Role))
@pytest.mark.parametrize("role", list(Role))
def test_nobody_grants_more_than_he_is(granter, role):
    subject = Subject(name="k", team="red", role=granter)

    assert may_grant(subject, role) == (ORDER.index(role) <= ORDER.index(granter))


@pytest.mark.parametrize(
    ("label", "role", "told"),
    [
        ("nightly-ci", Role.ADMIN, "key nightly-ci (team admin)"),
        ("ops", Role.OPERATOR, "key ops (operator)"),
        ("", Role.MEMBER, "a key without a label (team member)"),
    ],
)
def test_people_are_told_label_and_role_of_a_key_and_not_its_public_part(label, role, told):
    assert Subject(name="abcd2345", team="red", role=role, label=label).described == told
