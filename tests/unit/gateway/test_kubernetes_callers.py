"""Users of the cluster: what documents may name, and how often the cluster is asked."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from services.gateway.app.kubernetes_callers import FRESH_SECONDS, KubernetesCallers, is_token
from services.gateway.documents.documents import Organisation
from services.gateway.documents.keys import mint
from services.gateway.http.authorisation import Role
from services.gateway.http.kubernetes_subjects import named_subjects, problems_of_access
from services.gateway.http.problems import Problem
from services.gateway.settings import GatewaySettings
from shared.adapters.memory import ManualClock
from shared.events.organisation import TeamApplied
from shared.ports.errors import Transient
from shared.ports.token_reviews import TokenOwner

GOOD, BAD, PEER = "head.good.sign", "head.bad.sign", "10.0.0.7"


class Cluster:
    """Knows one token; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.owners = {GOOD: TokenOwner(user="alice", groups=("devs",))}
        self.away = False

    async def review(self, token: str) -> TokenOwner | None:
        self.asked[token] += 1
        if self.away:
            raise Transient("away")
        return self.owners.get(token)

    async def close(self) -> None:
        """Nothing is open."""


class World:
    def __init__(self) -> None:
        self.cluster, self.clock = Cluster(), ManualClock()
        team = TeamApplied(
            name="vision", version=1, default_queue="vision", kubernetes={"group:devs": "member"}
        )
        self.organisation = Organisation(teams={"vision": team})
        cache: Any = SimpleNamespace(current=self.current)
        self.callers = KubernetesCallers(self.cluster, cache, self.clock, frozenset())

    async def current(self) -> Organisation:
        return self.organisation

    async def ask(self, token: str = GOOD, peer: str = PEER) -> Any:
        return await self.callers.authenticate(token, peer, "")


@pytest.fixture
def world() -> World:
    return World()


async def test_an_answer_is_trusted_for_seconds_and_a_lost_group_counts_at_once(world):
    subject = await world.ask()
    assert (subject.team, subject.role) == ("vision", Role.MEMBER)
    assert subject.described == "Kubernetes user alice (team member)"
    world.clock.advance(FRESH_SECONDS - 0.1)
    assert await world.ask() == subject
    assert world.cluster.asked[GOOD] == 1

    world.clock.advance(0.2)
    world.cluster.owners.clear()
    assert await world.ask() is None
    assert world.cluster.asked[GOOD] == 2


async def test_an_unknown_token_is_asked_about_once_and_others_of_its_address_seldom(world):
    assert [await world.ask(BAD) for _ in range(50)] == [None] * 50
    assert world.cluster.asked[BAD] == 1

    with pytest.raises(Problem) as raised:
        assert [await world.ask(f"a.b{number}.c") for number in range(50)]
    assert raised.value.status == 429
    assert sum(world.cluster.asked.values()) < 50
    assert await world.ask(peer="10.0.0.8") is not None


async def test_a_cluster_that_is_away_is_no_refusal(world):
    world.cluster.away = True

    with pytest.raises(Transient):
        await world.ask()
    world.cluster.away = False
    assert await world.ask() is not None, "nothing was remembered"


def test_no_api_key_has_the_form_of_a_token():
    assert is_token(GOOD)
    assert not is_token(mint(lambda count: b"\xff" * count).text)
    assert not any(is_token(one) for one in ("a.b", "a.b.c.d", "a.b.", "a b.c.d", "s" * 64))


@pytest.mark.parametrize(
    ("name", "role", "field"),
    [
        pytest.param("group:system:authenticated", "viewer", "kubernetes", id="everybody"),
        pytest.param("devs", "viewer", "kubernetes", id="neither user nor group"),
        pytest.param("group:", "viewer", "kubernetes", id="no name"),
        pytest.param("user:a\nb", "viewer", "kubernetes", id="a line break"),
        pytest.param("user:" + "a" * 254, "viewer", "kubernetes", id="too long"),
        pytest.param("user:a", "operator", "kubernetes.user:a", id="no role of a team"),
        pytest.param("user:a", "Admin", "kubernetes.user:a", id="no role"),
    ],
)
def test_a_document_names_users_and_groups_with_roles_of_a_team(name, role, field):
    assert [field] == [one.field for one in problems_of_access({name: role})]
    assert not [*problems_of_access({"group:oidc:devs": "admin", "user:a@b.c": "viewer"})]


def test_a_document_names_so_many_at_most():
    many = {f"user:{number}": "viewer" for number in range(101)}

    assert [one.value for one in problems_of_access(many)] == ["101"]


def test_operators_are_users_and_groups_too():
    assert named_subjects(" group:a, user:b ,") == {"group:a", "user:b"}
    with pytest.raises(ValueError, match="must be user:NAME or group:NAME"):
        GatewaySettings(database_url="", kubernetes_operators="platform")
