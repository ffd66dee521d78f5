"""Requests to an API server that throttles, loses answers, is gone or speaks in errors."""

import asyncio
import json

import msgspec
import pytest
from aiohttp import web

from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.collection import SILENCE_SECONDS_MAX
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.model.nouns import PodSet
from shared.ports.cluster import UNKNOWN, MissingObject, Pod, PodOperation, PodTemplate
from shared.ports.errors import ResourceVersionExpired, Transient
from tests.unit.adapters.api_server import OURS, answering, in_turn, one, write_config

PODS = "/api/v1/namespaces/red/pods"


def create(name="w1-1-0", **fields):
    pod = Pod(name=name, namespace="red", workload_id="w1", attempt=1, rank=0, size=1, epoch=1)
    return PodOperation(verb="create", name=name, namespace="red", pod=pod, **fields)


def naming(name="w1-1-0", **fields):
    """The creation of a pod whose pod set has these fields."""
    operation = create(name)
    template = PodTemplate(pod_set=PodSet(image="a/b:1", **fields))
    return msgspec.structs.replace(
        operation, pod=msgspec.structs.replace(operation.pod, template=template)
    )


def lacking(*paths, rehearsed=201):
    """Objects at `paths` are not there; pods are created, or refused when it is only tried."""

    async def answer(request):
        if request.method == "GET":
            return web.json_response({}, status=404 if request.path in paths else 200)
        dry = request.query.get("dryRun") == "All"
        body = pod_document() if rehearsed == 201 or not dry else {"code": 404, **NO_NAMESPACE}
        return web.json_response(body, status=rehearsed if dry else 201)

    return answer


NO_NAMESPACE = {
    "reason": "NotFound",
    "message": 'namespaces "red" not found',
    "details": {"name": "red", "kind": "namespaces"},
}


def bind(name="w1-1-0", namespace="red"):
    return PodOperation(verb="bind", name=name, namespace=namespace, uid="u", node="n1")


def pod_document(uid="u", node="", labels=OURS):
    return {
        "metadata": {
            "name": "w1-1-0", "namespace": "red", "uid": uid, "resourceVersion": "7",
            "labels": {**labels, "muster.dev/workload": "w1", "muster.dev/attempt": "1",
                       "muster.dev/rank": "0"},
        },
        "spec": {"nodeName": node},
    }  # fmt: skip


async def test_requests_carry_the_token_and_a_colon_in_the_path_of_the_file_is_just_that(
    cluster, server
):
    server.answer = answering(201, pod_document())

    result = await one(cluster, create())

    method, path, body, headers = server.asked[0]
    assert (result.status, result.pod.uid) == (201, "u")
    assert (method, path, body["kind"]) == ("POST", PODS, "Pod")
    assert headers["Authorization"] == "Bearer abc"


async def test_no_more_requests_are_on_their_way_than_settings_allow(cluster, server):
    async def slow(request):
        await asyncio.sleep(0.02)
        return web.json_response(pod_document(), status=201)

    server.answer = slow

    results = await cluster.apply([create(f"w{n}-1-0") for n in range(20)])

    assert {result.status for result in results} == {201}
    assert server.most_at_once == 4


async def test_what_is_throttled_comes_again_when_the_server_said(cluster, server):
    throttled = answering(429, {"reason": "TooManyRequests"}, {"Retry-After": "0.3"})
    server.answer = in_turn(throttled, answering(201, pod_document()))
    loop = asyncio.get_running_loop()
    began = loop.time()

    result = await one(cluster, create())

    assert result.status == 201
    assert loop.time() - began >= 0.3


async def test_what_is_throttled_for_long_is_told_so_after_three_tries(cluster, server):
    server.answer = answering(429, {"reason": "TooManyRequests"}, {"Retry-After": "0"})

    result = await one(cluster, create())

    assert (result.status, result.reason, len(server.asked)) == (429, "TooManyRequests", 3)


async def test_an_answer_that_was_lost_leaves_only_its_operation_unknown(cluster, server):
    async def lose_one(request):
        if (await request.json())["metadata"]["name"] == "w3-1-0":
            request.transport.close()
        return web.json_response(pod_document(), status=201)

    server.answer = lose_one

    results = await cluster.apply([create(f"w{n}-1-0") for n in range(5)])

    assert [result.status for result in results] == [201, 201, 201, UNKNOWN, 201]


async def test_a_server_that_is_gone_leaves_everything_unknown_and_lists_nothing(cluster, server):
    await server.site.stop()

    result = await one(cluster, create())

    assert result.status == UNKNOWN
    with pytest.raises(Transient, match="Kubernetes API"):
        await cluster.list_pods()


async def test_a_foreign_pod_of_our_name_is_answered_as_of_nobody(cluster, server):
    taken = answering(409, {"reason": "AlreadyExists"})
    server.answer = in_turn(taken, answering(200, pod_document(labels={})))

    result = await one(cluster, create())

    assert (result.status, result.reason) == (409, "AlreadyExists")
    assert (result.pod.uid, result.pod.workload_id) == ("u", "")


async def test_a_refused_field_is_told_with_value_and_rule(cluster, server):
    message = 'Invalid value: "A=": a valid name must not contain "="'
    causes = [{"field": "spec.containers[0].env[0].name", "message": message}]
    body = {"reason": "Invalid", "message": "is invalid", "details": {"causes": causes}}
    server.answer = answering(422, body)

    result = await one(cluster, create())

    (error,) = result.errors
    assert result.status == 422
    assert (error.field, error.value) == ("spec.containers[0].env[0].name", "A=")
    assert error.rule == 'a valid name must not contain "="'


TOKEN = "/api/v1/namespaces/red/secrets/token"
DATA = "/api/v1/namespaces/red/persistentvolumeclaims/data"


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        (TOKEN, MissingObject(kind="Secret", name="token", namespace="red")),
        (DATA, MissingObject(kind="PersistentVolumeClaim", name="data", namespace="red")),
    ],
)
async def test_who_names_what_is_not_there_is_told_and_nothing_is_created(
    cluster, server, path, missing
):
    server.answer = lacking(path)
    names_it = naming("w1-1-0", secrets=("token",), volumes=("data:/data:ro",))

    told, created = await cluster.apply([names_it, create("w2-1-0")])

    made = [
        query.get("dryRun")
        for (method, *_), query in zip(server.asked, server.queries, strict=True)
        if method == "POST"
    ]
    assert (told.status, told.missing, created.status) == (404, missing, 201)
    assert sorted(made, key=str) == ["All", None]


async def test_what_many_pods_name_is_asked_for_once_and_by_its_metadata_alone(cluster, server):
    server.answer = lacking()

    results = await cluster.apply([naming(f"w{n}-1-0", secrets=("token",)) for n in range(5)])

    asked = [one for one in server.asked if one[0] == "GET"]
    assert [one.status for one in results] == [201] * 5
    assert [one[1] for one in asked] == [TOKEN]
    assert asked[0][3]["Accept"].startswith("application/json;as=PartialObjectMetadata;")


async def test_a_namespace_that_is_not_there_is_named_before_what_would_be_in_it(cluster, server):
    server.answer = lacking(TOKEN, rehearsed=404)

    result = await one(cluster, naming(secrets=("token",)))

    assert result.missing == MissingObject(kind="Namespace", name="red")


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_what_cannot_be_looked_for_refuses_nothing(cluster, server, status):
    server.answer = in_turn(answering(status), answering(201, pod_document()))

    result = await one(cluster, naming(secrets=("token",)))

    assert result.status == 201


@pytest.mark.parametrize("name", ["../../pods/x", "Token", "a b", ""])
async def test_a_secret_of_an_impossible_name_is_left_to_the_server(cluster, server, name):
    server.answer = answering(422, {"reason": "Invalid", "message": "no"})

    result = await one(cluster, naming(secrets=(name,)))

    assert (result.status, result.missing) == (422, None)
    assert [method for method, *_ in server.asked] == ["POST"]


@pytest.mark.parametrize(
    ("status", "body", "missing"),
    [
        (404, NO_NAMESPACE, MissingObject(kind="Namespace", name="red")),
        (
            403,
            {
                "message": 'pods "w1-1-0" is forbidden: error looking up service account'
                ' red/trainer: serviceaccount "trainer" not found'
            },
            MissingObject(kind="ServiceAccount", name="trainer", namespace="red"),
        ),
        (
            403,
            {"message": 'pods "w1-1-0" is forbidden: no PriorityClass with name batch was found'},
            MissingObject(kind="PriorityClass", name="batch"),
        ),
        (403, {"message": "exceeded quota: q"}, None),
    ],
)
async def test_what_the_server_itself_looks_for_is_read_from_its_words(
    cluster, server, status, body, missing
):
    server.answer = answering(status, {"code": status, **body})

    assert (await one(cluster, create())).missing == missing


@pytest.mark.parametrize("name", ["..", "../secrets/x", "a/b", "a?b", "%2e%2e", "A", ""])
async def test_a_name_that_is_none_reaches_no_object(cluster, server, name):
    server.answer = answering(200)

    bound = await one(cluster, bind(name=name))
    elsewhere = await one(cluster, bind(namespace=name))

    assert (bound.status, elsewhere.status) == (404, 422)
    assert elsewhere.errors[0].field == "metadata.namespace"
    assert server.asked == []


async def test_a_token_that_expired_is_told_and_a_renewed_one_is_taken(cluster, server, config):
    async def answer(request):
        if request.headers["Authorization"] != "Bearer new":
            return web.json_response({"message": "Unauthorized"}, status=401)
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})

    server.answer = answer
    with pytest.raises(Transient, match="HTTP 401: Unauthorized; renew the token"):
        await cluster.list_pods()

    write_config(config, server.port, token="new")

    assert await cluster.list_pods() == ([], 5)


@pytest.mark.parametrize("content", [None, "", "a: [", "current-context: c", "[1, 2]"])
async def test_a_kubeconfig_that_is_none_is_one_clear_line(tmp_path, content):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    cluster = KubernetesCluster(KubernetesSettings(config=str(path)))

    with pytest.raises(Transient, match="set MUSTER_KUBE_CONFIG to a kubeconfig file"):
        await cluster.list_pods()
    assert (await one(cluster, bind())).status == UNKNOWN


async def test_a_list_is_read_page_by_page(cluster, server):
    async def answer(request):
        last = request.query.get("continue") == "more"
        metadata = {"resourceVersion": "9", "continue": "" if last else "more"}
        return web.json_response({"metadata": metadata, "items": [pod_document()]})

    server.answer = answer

    pods, version = await cluster.list_pods()

    assert (len(pods), version) == (2, 9)


def streaming(*lines):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        return response

    return answer


def event(kind, document):
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


async def first_events(cluster, version=5):
    async for events in cluster.watch(version):
        return events
    return None


async def test_an_event_may_come_in_pieces(cluster, server):
    whole = event("ADDED", pod_document())
    server.answer = streaming(whole[:10], whole[10:40], whole[40:])

    (found,) = await first_events(cluster)

    assert (found.type, found.pod.name) == ("ADDED", "w1-1-0")


async def test_410_as_an_event_of_an_answer_200_says_to_list_again(cluster, server):
    server.answer = streaming(event("ERROR", {"code": 410, "message": "too old"}))

    with pytest.raises(ResourceVersionExpired, match="too old"):
        await first_events(cluster)


async def test_a_watch_that_the_server_ends_goes_on_from_the_last_bookmark(cluster, server):
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "80"}})
    server.answer = in_turn(streaming(bookmark), streaming(event("DELETED", pod_document())))

    (found,) = await first_events(cluster)

    assert found.type == "DELETED"
    assert [query["resourceVersion"] for query in server.queries] == ["5", "80"]


async def test_a_watch_in_which_nothing_happens_ends_before_the_server_counts_as_gone(
    cluster, server
):
    server.answer = streaming(event("DELETED", pod_document()))

    await first_events(cluster)

    assert int(server.queries[0]["timeoutSeconds"]) < SILENCE_SECONDS_MAX


async def test_a_watch_that_breaks_off_is_transient(cluster, server):
    async def broken(request):
        response = web.StreamResponse()
        await response.prepare(request)
        request.transport.close()
        return response

    server.answer = broken

    with pytest.raises(Transient, match="watch of pods"):
        await first_events(cluster)
