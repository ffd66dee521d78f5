"""Tokens of a real cluster as login: TokenReview says who asks, a team's document what it may."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from services.gateway.app import kubernetes_callers
from services.gateway.app.kubernetes_callers import KubernetesCallers
from services.gateway.documents.documents import Organisation
from services.gateway.http.kubernetes_subjects import named_subjects
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.adapters.kubernetes.token_reviews import KubernetesTokenReviews
from shared.events.organisation import TeamApplied
from tests.kube.test_rights import rights_of
from tests.support.bare_gateway import Parts, served

_ROLES = "rbac.authorization.k8s.io"
BINDING = {
    "apiVersion": f"{_ROLES}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "muster-token-reviews"},
    "roleRef": {"apiGroup": _ROLES, "kind": "ClusterRole", "name": "muster-token-reviews"},
    "subjects": [{"kind": "ServiceAccount", "name": "gateway", "namespace": "muster-system"}],
}
SECONDS_MAX = 40
_accounts = itertools.count(1)


@pytest.fixture
def bound(kube) -> Iterator[None]:
    """The gateway may ask for reviews."""
    with kube.client() as admin:
        admin.create(BINDING)
        yield
        admin.demand("DELETE", f"/apis/{_ROLES}/v1/clusterrolebindings/muster-token-reviews")


def token(kube: Any, namespace: str, audience: str = "", account: str = "default") -> str:
    """A token of a service account, as `kubectl create token` makes it."""
    spec = {"expirationSeconds": 600, "audiences": [audience] if audience else []}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    with kube.client() as admin:
        made: str = admin.demand("POST", path, {"spec": spec})["status"]["token"]
    return made


def signed_again(kube: Any, text: str, **claims: Any) -> str:
    """The same token with other claims, signed by the cluster's own key."""
    head, body, _ = text.split(".")
    found = json.loads(base64.urlsafe_b64decode(body + "=="))
    new = base64.urlsafe_b64encode(json.dumps(found | claims).encode()).decode().rstrip("=")
    key = str(kube.folder / "service-accounts.key")
    signed = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", key],
        input=f"{head}.{new}".encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return f"{head}.{new}.{base64.urlsafe_b64encode(signed.stdout).decode().rstrip('=')}"


class Teams(Parts):
    """No API key is known here."""

    def __init__(self, *teams: TeamApplied) -> None:
        super().__init__()
        self.organisation = Organisation(teams={one.name: one for one in teams})

    async def authenticate(self, text: str) -> None:  # type: ignore[override, explicit-override]  # new in Python 3.12
        return None


def team(name: str, **roles: str) -> TeamApplied:
    return TeamApplied(name=name, version=1, default_queue=name, kubernetes=roles)


@contextlib.asynccontextmanager
async def gateway(
    kube: Any, *teams: TeamApplied, audience: str = "", operators: str = ""
) -> AsyncIterator[Any]:
    """`ask(token)` of the real application: the status and the answer of GET /v1/whoami."""
    parts = Teams(*teams)
    settings = KubernetesSettings(config=str(kube.kubeconfig("gateway")))
    callers = KubernetesCallers(
        KubernetesTokenReviews(settings, audience),
        parts,  # type: ignore[arg-type]  # parts
        SystemClock(),
        named_subjects(operators),
    )
    async with served(parts, kubernetes=callers) as port, aiohttp.ClientSession() as session:

        async def ask(text: str, **headers: str) -> tuple[int, dict[str, Any]]:
            headers["Authorization"] = f"Bearer {text}"
            url = f"http://127.0.0.1:{port}/v1/whoami"
            async with session.get(url, headers=headers) as answer:
                return answer.status, await answer.json(content_type=None)

        yield ask
    await callers.close()
    assert not parts.failed


async def test_a_service_account_has_the_role_of_its_group_in_its_team(
    kube, kube_namespace, bound
):
    group = f"group:system:serviceaccounts:{kube_namespace}"
    user = f"system:serviceaccount:{kube_namespace}:default"
    own = token(kube, kube_namespace)

    async with gateway(kube, team("vision", **{group: "viewer"}), team("speech")) as ask:
        status, found = await ask(own)
    assert (200, "vision", "viewer") == (status, found["team"], found["role"])
    assert found["key_prefix"] == f"kubernetes:{user}"
    both = team("vision", **{group: "viewer", f"user:{user}": "admin"})
    async with gateway(kube, both) as ask:
        assert (await ask(own))[1]["role"] == "admin", "the strongest counts"
    async with gateway(kube, both, operators=group) as ask:
        assert (await ask(own))[1]["role"] == "operator"
        assert (await ask(own, **{"Muster-Team": "vision"}))[1]["role"] == "admin"


async def test_a_user_of_no_team_or_of_two_is_told_what_to_do(kube, kube_namespace, bound):
    group = f"group:system:serviceaccounts:{kube_namespace}"
    own = token(kube, kube_namespace)

    async with gateway(kube, team("vision", **{"group:others": "admin"})) as ask:
        status, problem = await ask(own)
    assert status == 403
    assert "no user or group of it is in the document of a team" in problem["detail"]
    two = team("vision", **{group: "member"}), team("speech", **{group: "viewer"})
    async with gateway(kube, *two) as ask:
        status, problem = await ask(own)
        assert (status, "of the teams speech, vision" in problem["detail"]) == (403, True)
        assert (await ask(own, **{"Muster-Team": "speech"}))[1]["role"] == "viewer"
        assert (await ask(own, **{"Muster-Team": "third"}))[0] == 403


async def test_expired_foreign_and_forged_tokens_are_refused(kube, kube_namespace, bound):
    group = f"group:system:serviceaccounts:{kube_namespace}"
    vision = team("vision", **{group: "member"})
    own = token(kube, kube_namespace)
    again = signed_again(kube, own)
    expired = signed_again(kube, own, exp=1_700_000_000)
    mine, theirs = token(kube, kube_namespace, "muster"), token(kube, kube_namespace, "vault")

    async with gateway(kube, vision) as ask:
        told = [await ask(one) for one in (again, expired, own[:-9] + "A" * 9, mine)]
    assert [200, 401, 401, 401] == [status for status, _ in told]
    assert "expired, revoked, or made for another audience" in told[1][1]["detail"]
    async with gateway(kube, vision, audience="muster") as ask:
        told = [await ask(one) for one in (mine, theirs, own)]
    assert [200, 401, 401] == [status for status, _ in told]


async def test_a_token_ends_with_its_account_within_seconds(
    kube, kube_namespace, bound, monkeypatch
):
    monkeypatch.setattr(kubernetes_callers, "FRESH_SECONDS", 0.2)
    account = f"a{next(_accounts)}-{os.getpid()}"
    metadata = {"name": account, "namespace": kube_namespace}
    path = f"/api/v1/namespaces/{kube_namespace}/serviceaccounts/{account}"
    with kube.client() as admin:
        admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    own = token(kube, kube_namespace, account=account)
    user = f"user:system:serviceaccount:{kube_namespace}:{account}"

    async with gateway(kube, team("vision", **{user: "member"})) as ask:
        assert (await ask(own))[0] == 200
        with kube.client() as admin:
            admin.demand("DELETE", path)
        statuses = {status async for status in _until_refused(ask, own)}
    assert 401 in statuses
    assert statuses <= {200, 401}


async def _until_refused(ask: Any, own: str) -> AsyncIterator[int]:
    """The API server itself knows a token for up to ten seconds."""
    async with asyncio.timeout(SECONDS_MAX):
        status = 200
        while status == 200:
            status, _ = await ask(own)
            yield status
            await asyncio.sleep(0.1)


async def test_unknown_tokens_are_limited_and_known_ones_go_on(kube, kube_namespace, bound):
    group = f"group:system:serviceaccounts:{kube_namespace}"
    own = token(kube, kube_namespace)

    async with gateway(kube, team("vision", **{group: "member"})) as ask:
        assert (await ask(own))[0] == 200
        told = [(await ask(f"a.b{number}.c"))[0] for number in range(60)]
        assert (await ask(own))[0] == 200
    assert set(told) == {401, 429}
    assert told[0] == 401


async def test_without_the_right_it_is_told_that_tokens_cannot_be_checked(kube, kube_namespace):
    async with gateway(kube, team("vision")) as ask:
        status, problem = await ask(token(kube, kube_namespace))

    assert (status, problem["detail"]) == (503, "keys and tokens cannot be checked now")


def test_the_binding_adds_one_right(kube, bound):
    added = {"tokenreviews.authentication.k8s.io": "create"}

    assert added.items() <= rights_of(kube, "gateway").items()
