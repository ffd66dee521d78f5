"""A kubelet that starts anew, and a node whose power is cut, while work runs there."""

from __future__ import annotations

import pytest

from deploy.kubelets.gpus import COUNTED
from tests.kubelet.world import UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import GPUS

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]
ENDS = "Unknown: exit code 255", "UnexpectedAdmissionError"
"""What a kubelet tells of a pod after the node came back; the second where it looks at the pod
before the device plugin has told its GPUs."""


async def test_work_goes_on_while_its_kubelet_starts_anew(world: World) -> None:
    one = await world.by_kafka(a_workload("stays", UNTIL_TOLD, gpus=GPUS))
    [before] = await world.runs(one)
    node = world.kubelets.nodes[before["spec"]["nodeName"]]

    world.kubelets.restart_kubelet(node.name)
    [after] = await world.runs(one)
    await world.go(one)
    found = await world.ended(one)

    assert _start(before) == _start(after)
    assert ("succeeded", 1) == (found["state"], found["attempt"]), found


async def test_work_of_a_node_that_was_killed_is_taken_away_and_runs_again(world: World) -> None:
    one = await world.by_kafka(a_workload("goes", UNTIL_TOLD, gpus=GPUS))
    [before] = await world.runs(one)
    node = world.kubelets.nodes[before["spec"]["nodeName"]]

    node.kill()
    await world.eventually(lambda: not world.is_ready(node.name), what="the node to be missed")
    meanwhile = await world.get(f"workloads/{one}")
    node.start()
    world.kubelets.wait_ready(*COUNTED)
    await world.eventually(lambda: _attempt(world, one, 2), what="a second attempt")
    await world.runs(one)
    await world.go(one)
    found = await world.ended(one)

    assert ("running", 1) == (meanwhile["state"], meanwhile["attempt"]), meanwhile
    assert ("succeeded", 2) == (found["state"], found["attempt"]), found
    told = await world.told(one)
    assert any(f"pod {one}-1-0: {end}" in told for end in ENDS), told


async def _attempt(world: World, one: str, number: int) -> bool:
    return bool((await world.get(f"workloads/{one}"))["attempt"] == number)


def _start(pod: dict) -> tuple[str, str, int]:
    [status] = pod["status"]["containerStatuses"]
    started = status["state"]["running"]["startedAt"]
    return pod["metadata"]["uid"], started, status["restartCount"]
