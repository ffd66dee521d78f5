"""The Service of a gang comes with the binding of rank 0, and is never one of others."""

import pytest

from shared.ports.cluster import Pod, PodOperation
from tests.unit.adapters.api_server import OURS, answering, in_turn, one


def bind_first_of_two():
    name = "w1-1-0"
    pod = Pod(name=name, namespace="red", workload_id="w1", attempt=1, rank=0, size=2, epoch=1)
    return PodOperation(verb="bind", name=name, namespace="red", uid="u", node="n1", pod=pod)


def asked_for(server):
    return [(method, path.rpartition("red/")[2]) for method, path, *_ in server.asked]


async def test_the_first_of_a_gang_is_bound_once_it_has_its_service(cluster, server):
    server.answer = in_turn(answering(201), answering(201))

    result = await one(cluster, bind_first_of_two())

    owner = server.asked[0][2]["metadata"]["ownerReferences"][0]
    assert result.status == 201
    assert asked_for(server) == [("POST", "services"), ("POST", "pods/w1-1-0/binding")]
    assert (owner["name"], owner["uid"]) == ("w1-1-0", "u")


TAKEN = answering(409, {"reason": "AlreadyExists", "message": "services exists"})
OTHERS = {
    "of another Muster": {**OURS, "muster.dev/instance": "another"},
    "of another manager": {**OURS, "app.kubernetes.io/managed-by": "helm"},
    "without a label": {},
}


def owned_by(uid, labels=OURS):
    return answering(200, {"metadata": {"labels": labels, "ownerReferences": [{"uid": uid}]}})


async def test_a_service_that_the_gang_has_already_is_its_own(cluster, server):
    server.answer = in_turn(TAKEN, owned_by("u"), answering(201))

    result = await one(cluster, bind_first_of_two())

    assert result.status == 201
    assert asked_for(server)[1:] == [("GET", "services/w1-1"), ("POST", "pods/w1-1-0/binding")]


@pytest.mark.parametrize(
    "found",
    [*(owned_by("u", labels) for labels in OTHERS.values()), owned_by("x"), answering(200)],
    ids=[*OTHERS, "of another pod", "of nobody"],
)
async def test_a_service_of_others_that_has_the_name_is_left_and_the_gang_not_bound(
    cluster, server, found
):
    server.answer = in_turn(TAKEN, found)

    result = await one(cluster, bind_first_of_two())

    assert (result.status, result.reason) == (422, "NameTaken")
    assert result.message == "the Service w1-1 belongs to somebody else"
    assert asked_for(server) == [("POST", "services"), ("GET", "services/w1-1")]


async def test_a_service_that_goes_just_then_is_made_anew_at_the_next_try(cluster, server):
    server.answer = in_turn(TAKEN, answering(404))

    result = await one(cluster, bind_first_of_two())

    assert (result.status, result.pod) == (409, None)


async def test_who_gets_no_service_is_not_bound(cluster, server):
    server.answer = answering(403, {"reason": "Forbidden", "message": "exceeded quota: q"})

    result = await one(cluster, bind_first_of_two())

    assert (result.status, result.message) == (403, "exceeded quota: q")
    assert [path for _, path, *_ in server.asked] == ["/api/v1/namespaces/red/services"]
