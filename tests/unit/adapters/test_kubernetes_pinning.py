"""Pins against an API server that loses requests and answers, or refuses, at every step."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deploy.kube.slices import whole_slice
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.nodes.source import CLAIMS, NODES, SLICES
from shared.adapters.kubernetes.pins.view import CLASSES
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.ports.cluster import UNKNOWN, Pod, PodOperation, PodTemplate
from tests.unit.adapters.api_server import write_config

OPAQUE = {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig"}}}
TRIES = 10


class Api:
    """Claims that are kept, and lists of what else is looked at; watches tell nothing."""

    def __init__(self):
        self.config = Path()
        self.claims: dict[str, dict[str, Any]] = {}
        self.items: dict[str, list[Any]] = {
            NODES: [{"metadata": {"name": "n"}}],
            SLICES: [whole_slice("n", [f"GPU-{minor}" for minor in range(8)])],
            CLASSES: [{"metadata": {"name": "gpu.nvidia.com"}, "spec": {"config": [OPAQUE]}}],
        }
        self.numbers = itertools.count(10)
        self.written: list[str] = []
        self.lost: dict[int, str] = {}
        """By the number of a request about one claim: lost before or after it was carried out."""
        self.refused: dict[str, tuple[int, str]] = {}

    async def handle(self, request):
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(3600)
        if request.path in self.refused:
            status, message = self.refused[request.path]
            return web.json_response({"message": message}, status=status)
        if request.path == CLAIMS:
            return self._listed(list(self.claims.values()))
        if request.path in self.items:
            return self._listed(self.items[request.path])
        lost = self.lost.get(len(self.written))
        body = await request.json() if request.can_read_body else None
        self.written.append(f"{request.method} {request.path.partition('resourceclaims')[2]}")
        answer = None if lost == "before" else self._claim(request, body)
        if lost:
            request.transport.close()
        return answer or web.json_response({}, status=500)

    def _listed(self, items):
        metadata = {"resourceVersion": str(next(self.numbers))}
        return web.json_response({"metadata": metadata, "items": items})

    def _claim(self, request, body):
        name = request.path.partition("resourceclaims/")[2] or body["metadata"]["name"]
        name, _, subresource = name.partition("/")
        known = self.claims.get(name)
        if request.method == "POST":
            if known is not None:
                return web.json_response({"reason": "AlreadyExists"}, status=409)
            number = str(next(self.numbers))
            metadata = {**body["metadata"], "uid": f"c{number}", "resourceVersion": number}
            self.claims[name] = {**body, "metadata": metadata}
            return web.json_response(self.claims[name], status=201)
        if known is None:
            return web.json_response({}, status=404)
        if request.method == "DELETE":
            del self.claims[name]
            return web.json_response({})
        if request.method == "PATCH":
            return self._patched(known, body, subresource)
        return web.json_response(known)

    def _patched(self, known, body, subresource):
        metadata = known["metadata"]
        asked = body["metadata"].get("resourceVersion", metadata["resourceVersion"])
        if asked != metadata["resourceVersion"]:
            return web.json_response({"reason": "Conflict"}, status=409)
        metadata["resourceVersion"] = str(next(self.numbers))
        if subresource:
            status = known.setdefault("status", {})
            reserved = [*status.get("reservedFor", ()), *body["status"].pop("reservedFor")]
            status.update(body["status"], reservedFor=reserved)
        else:
            for field, key in (("ownerReferences", "uid"), ("finalizers", None)):
                merged = {one[key] if key else one: one
                          for one in (*metadata[field], *body["metadata"][field])}  # fmt: skip
                metadata[field] = list(merged.values())
        return web.json_response(known)


@pytest.fixture
async def api(tmp_path):
    api = Api()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.config = write_config(tmp_path / "config", runner.addresses[0][1])
    yield api
    await runner.cleanup()


@pytest.fixture
async def cluster(api):
    cluster = KubernetesCluster(KubernetesSettings(config=str(api.config)))
    yield cluster
    await cluster.close()


def a_pod(name="w-1-0", milli=1000, index=3):
    share = GpuShare(index=index, mask=255 if milli == 1000 else 0, milli=milli, memory_mib=1)
    gpu = GpuRequest(count=1) if milli == 1000 else GpuRequest(milli=milli, memory_mib=1)
    return Pod(
        name=name, namespace="red", workload_id="w", attempt=1, rank=0, size=1, epoch=1,
        node="n", shares=(share,), template=PodTemplate(pod_set=PodSet(image="a", gpu=gpu)),
    )  # fmt: skip


async def pin(cluster, pod, uid="u1"):
    operation = PodOperation(
        verb="pin", namespace="red", name=pod.name, uid=uid, node=pod.node, pod=pod
    )
    return (await cluster.apply([operation]))[0]


async def pinned(cluster, pod, uid="u1"):
    """The statuses until it was."""
    statuses = []
    for _ in range(TRIES):
        statuses.append((await pin(cluster, pod, uid)).status)
        if statuses[-1] == 200:
            return statuses
    raise AssertionError(statuses)


def devices(claim):
    return [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]]


def users(claim):
    return [one["uid"] for one in claim["status"]["reservedFor"]]


async def test_a_pin_is_two_requests_and_copies_the_configuration_of_the_class(api, cluster):
    statuses = await pinned(cluster, a_pod())

    assert (statuses, api.written) == ([200], ["POST ", "PATCH /w-1-0/status"])
    assert api.claims["w-1-0"]["status"]["allocation"]["devices"]["config"] == [
        {**OPAQUE, "source": "FromClass", "requests": ["gpus"]}
    ]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("milli", "step"), [(1000, 0), (1000, 1), (250, 0), (250, 1), (250, 2)])
async def test_whatever_is_lost_the_same_pin_again_comes_to_the_same(
    api, cluster, milli, step, when
):
    api.lost = {step: when}
    pod = a_pod(milli=milli)

    statuses = await pinned(cluster, pod)
    api.lost = {}
    again = await pin(cluster, pod)

    [claim] = api.claims.values()
    assert statuses in ([UNKNOWN, 200], [200])  # a lost GET is sent again by the client
    assert again.status == 200
    assert (devices(claim), users(claim)) == (["gpu-3"], ["u1"])
    assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == ["u1"]


async def test_pods_that_begin_to_share_a_gpu_at_once_all_use_its_one_claim(api, cluster):
    pods = [a_pod(f"w-1-{number}", milli=100) for number in range(5)]

    await asyncio.gather(*(pinned(cluster, pod, f"u{n}") for n, pod in enumerate(pods)))

    [claim] = api.claims.values()
    assert claim["metadata"]["name"] == "gpu-3.n"
    assert (devices(claim), sorted(users(claim))) == (["gpu-3"], [f"u{n}" for n in range(5)])


async def test_a_claim_that_was_let_go_is_protected_again_before_it_has_the_gpu_again(
    api, cluster
):
    await pinned(cluster, a_pod(milli=100))
    [claim] = api.claims.values()
    claim["status"], claim["metadata"]["finalizers"] = {}, []

    await pinned(cluster, a_pod("w-1-1", milli=100), "u2")
    await pinned(cluster, a_pod(milli=100))

    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert (devices(claim), sorted(users(claim))) == (["gpu-3"], ["u1", "u2"])


async def test_what_cannot_be_listed_is_told_in_the_words_of_the_server(api, cluster):
    api.refused[SLICES] = 403, "binder cannot list resourceslices"

    result = await pin(cluster, a_pod())

    assert (result.status, result.reason) == (503, "DevicesNotReady")
    assert "HTTP 403: binder cannot list resourceslices" in result.message


async def test_a_refused_status_is_told_with_its_reason(api, cluster):
    path = "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/w-1-0/status"
    api.refused[path] = 422, "may not patch resourceclaims/binding"

    result = await pin(cluster, a_pod())

    assert (result.status, result.message) == (422, "may not patch resourceclaims/binding")


@pytest.mark.parametrize(
    ("path", "problem"),
    [(SLICES, "no slice of n has GPU 3"), (CLASSES, "there is no device class gpu.nvidia.com")],
)
async def test_what_is_not_there_yet_is_waited_for(api, cluster, path, problem):
    api.items[path] = []

    result = await pin(cluster, a_pod())

    assert (result.status, result.message) == (503, problem)


async def test_a_name_that_is_too_long_for_a_claim_is_made_shorter(api, cluster):
    node = "n" * 253
    api.items[SLICES] = [whole_slice(node, [f"GPU-{minor}" for minor in range(8)])]
    pod = a_pod(milli=250)
    long = Pod(**{field: getattr(pod, field) for field in pod.__struct_fields__} | {"node": node})

    await pinned(cluster, long)

    [name] = api.claims
    assert len(name) <= 253
    assert name.startswith("gpu-3.")
