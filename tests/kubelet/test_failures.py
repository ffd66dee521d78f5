"""How work that does not work ends on a real node: the reasons that its pods have."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.kubelets.gpus import COUNTED
from deploy.kubelets.images import IMAGE
from tests.kubelet.world import TEAM, UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import GPUS

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

EAT_MEMORY = "tail /dev/zero"
NO_REGISTRY = "127.0.0.1:9/nothing:1"
BAD_NAME = "muster.test/Busybox:1"
SECRET = "short-lived"
SECRETS = f"/api/v1/namespaces/{TEAM}/secrets"


@pytest.mark.parametrize(
    ("script", "pod_set", "exit_code", "words"),
    [
        ("exit 7", {}, 7, "Error: exit code 7"),
        (EAT_MEMORY, {}, 137, "OOMKilled: exit code 137"),
        (
            "true",
            {"image": BAD_NAME},
            0,
            f'InvalidImageName: Failed to apply default image tag "{BAD_NAME}"',
        ),
    ],
    ids=["exit code", "memory", "no name of an image"],
)
async def test_work_that_fails_or_can_never_start_has_failed_at_once_with_the_kubelets_words(
    world: World, script: str, pod_set: dict[str, Any], exit_code: int, words: str
) -> None:
    one = await world.by_kafka(a_workload("fails", script, pod_set=pod_set))

    found = await world.ended(one)

    assert ("failed", 1) == (found["state"], found["attempt"]), found
    assert exit_code == found["exit_code"]
    assert words in found["message"]


async def test_a_missing_secret_is_told_before_there_is_a_pod(world: World) -> None:
    one = await world.by_kafka(a_workload("secret", "true", pod_set={"secrets": ("nobody",)}))

    found = await world.ended(one)

    assert ("failed", 1) == (found["state"], found["attempt"]), found
    assert f"Secret nobody does not exist in namespace {TEAM}" in found["message"]


async def test_a_secret_that_goes_while_its_pod_starts_is_told_in_the_kubelets_words(
    world: World,
) -> None:
    spec = a_workload("secret", "true", pod_set={"secrets": (SECRET,)})
    with world.kubelets.client() as admin:
        admin.demand("POST", SECRETS, {"metadata": {"name": SECRET}})
        with world.kubelets.paused():
            one = await world.by_kafka(spec)
            await world.eventually(lambda: world.bound(one), what="its pod to be bound")
            admin.demand("DELETE", f"{SECRETS}/{SECRET}")

    found = await world.ended(one)

    assert ("failed", 1) == (found["state"], found["attempt"]), found
    assert f'CreateContainerConfigError: secret "{SECRET}" not found' in found["message"]


async def test_an_image_that_is_not_there_is_waited_for_and_the_wait_is_told(
    world: World,
) -> None:
    spec = a_workload("pulls", "true", pod_set={"image": NO_REGISTRY})
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


async def test_a_pod_that_a_kubelet_refuses_is_placed_again_and_its_node_rests(
    world: World,
) -> None:
    """Somebody takes GPUs of one node, unseen: of two that are placed at once, one is refused."""
    foreign = f"/api/v1/namespaces/{TEAM}/pods/foreign"
    with world.unwatched(), world.kubelets.client() as admin:
        admin.demand("POST", f"/api/v1/namespaces/{TEAM}/pods", _foreign(COUNTED[0]))
        both = [
            await world.by_kafka(a_workload(name, UNTIL_TOLD, gpus=GPUS)) for name in ("a", "b")
        ]
        await world.eventually(lambda: _refused(world, both), what="a pod to be refused")
        await world.eventually(lambda: _rests(world, COUNTED[0]), what="its node to rest")
        admin.demand("DELETE", foreign, {"gracePeriodSeconds": 1})
    refused = await _refused(world, both)
    [other] = {*both} - {refused}
    await world.runs(other)
    await world.go(other)
    [pod] = await world.runs(refused)
    await world.go(refused)

    ended = [await world.ended(one) for one in (other, refused)]

    assert [("succeeded", 1), ("succeeded", 2)] == [
        (found["state"], found["attempt"]) for found in ended
    ], ended
    assert COUNTED[1] == pod["spec"]["nodeName"]


async def _rests(world: World, node: str) -> bool:
    """Whether it is told that a node rests, and why."""
    return "its kubelet refused a pod" in (await world.get(f"nodes/{node}"))["shun_message"]


def _foreign(node: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sleep", "1000"],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": "foreign"}, "spec": spec}


async def _refused(world: World, both: list[str]) -> str:
    """The id of the one that a kubelet has refused, or ""."""
    found = await world.rows.fetchval(
        "SELECT workload_id FROM gateway.event WHERE workload_id = ANY($1::text[])"
        " AND message LIKE '%UnexpectedAdmissionError%'",
        both,
    )
    return found or ""
