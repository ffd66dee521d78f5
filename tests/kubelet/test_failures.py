"""How work that does not work ends on a real node: shared/kubernetes.md, "Reasons of pods"."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.kubelets.cluster import NAMES
from deploy.kubelets.images import IMAGE
from tests.kubelet.world import TEAM, UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import GPUS

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

EAT_MEMORY = "tail /dev/zero"


@pytest.mark.parametrize(
    ("script", "pod_set", "reason", "words"),
    [
        ("exit 7", {}, "Error", ""),
        (EAT_MEMORY, {}, "OOMKilled", ""),
        ("true", {"secrets": ("nobody",)}, "CreateContainerConfigError", 'secret "nobody"'),
        ("true", {"image": "muster.test/Busybox:1"}, "InvalidImageName", "muster.test/Busybox:1"),
    ],
    ids=["exit code", "memory", "missing secret", "no name of an image"],
)
async def test_work_that_fails_or_can_never_start_has_failed_at_once_with_the_kubelets_words(
    world: World, script: str, pod_set: dict[str, Any], reason: str, words: str
) -> None:
    one = await world.by_kafka(a_workload("fails", script, pod_set=pod_set))

    found = await world.ended(one)

    assert ("failed", 1) == (found["state"], found["attempt"]), found
    assert f"{reason}" in found["message"], found
    assert words in found["message"]


async def test_an_image_that_is_not_there_is_waited_for_and_the_wait_is_told(
    world: World,
) -> None:
    spec = a_workload("pulls", "true", pod_set={"image": "muster.test/nothing:1"})
    one = await world.by_kafka(spec)

    await world.eventually(lambda: _pulling(world, one), what="the pull to have failed")

    found = await world.get(f"workloads/{one}")
    assert not world.is_over(found), found


def _pulling(world: World, one: str) -> bool:
    for pod in world.pods(one):
        for status in pod["status"].get("containerStatuses", ()):
            reason = status["state"].get("waiting", {}).get("reason")
            return reason in ("ErrImagePull", "ImagePullBackOff")
    return False


async def test_a_pod_that_a_kubelet_refuses_is_placed_again_and_uses_up_no_retry(
    world: World,
) -> None:
    """Somebody takes GPUs of one node, unseen: with two placed at once, one is refused."""
    with world.unwatched(), world.kubelets.client() as admin:
        admin.demand("POST", f"/api/v1/namespaces/{TEAM}/pods", _foreign(NAMES[0]))
        both = [
            await world.by_kafka(a_workload(name, UNTIL_TOLD, gpus=GPUS)) for name in ("a", "b")
        ]
        await world.eventually(lambda: _refused(world, both), what="a pod to be refused")
        admin.demand(
            "DELETE", f"/api/v1/namespaces/{TEAM}/pods/foreign", {"gracePeriodSeconds": 1}
        )
    for one in both:
        await world.runs(one)
        await world.go(one)

    ended = [await world.ended(one) for one in both]

    assert ["succeeded"] * 2 == [found["state"] for found in ended], ended
    assert [1, 2] == sorted(found["attempt"] for found in ended)


def _foreign(node: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sleep", "1000"],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": "foreign"}, "spec": spec}


async def _refused(world: World, both: list[str]) -> bool:
    count = await world.rows.fetchval(
        "SELECT count(*) FROM gateway.event WHERE workload_id = ANY($1::text[])"
        " AND message LIKE '%UnexpectedAdmissionError%'",
        both,
    )
    return bool(count)
