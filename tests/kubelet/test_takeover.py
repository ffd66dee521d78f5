"""What real kubelets say of the GPUs that their device plugins gave reaches placement."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from deploy.kubelets.gpus import COUNTED
from shared.adapters.kubernetes.pod_resources import PodResources
from tests.kubelet.world import UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import GPUS, uuids_of

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

TELLS = f"echo $NVIDIA_VISIBLE_DEVICES; {UNTIL_TOLD}"


async def test_placement_knows_the_gpus_by_the_names_that_the_containers_have(
    world: World,
) -> None:
    one = await world.by_kafka(a_workload("chosen", TELLS, pods=2, gpus=GPUS))
    pods = await world.runs(one, pods=2)

    async def known() -> bool:
        told = await _told(world, one)
        return len(told) == 2 * GPUS

    await world.eventually(known, what="placement to hear of all GPUs")
    told = await _told(world, one)
    disputed = await world.rows.fetch(
        "SELECT node FROM placement.node_devices WHERE body::json->>'disputed' <> '{}'"
    )
    written = {rank: (await world.written(one, rank)).strip().split(",") for rank in range(2)}
    owners = {pod["metadata"]["name"]: await _by_pod_resources(world, pod) for pod in pods}
    await world.go(one, ranks=2)
    await world.ended(one)

    assert {*COUNTED} == {pod["spec"]["nodeName"] for pod in pods}
    assert [] == disputed
    for rank, pod in enumerate(pods):
        names = sorted(uuid for number, uuid in told if number == rank)
        assert names == sorted(written[rank]) == sorted(uuids_of(pod["spec"]["nodeName"]))
        assert owners[pod["metadata"]["name"]] == names


async def _by_pod_resources(world: World, pod: dict[str, Any]) -> list[str]:
    """The GPUs that a pod has, as an agent on its node asks its kubelet."""
    folder = world.kubelets.nodes[pod["spec"]["nodeName"]].folder
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's path has 107 bytes at most
        (Path(short) / "kubelet").symlink_to(folder / "kubelet" / "pod-resources")
        resources = PodResources(Path(short) / "kubelet" / "kubelet.sock")
        told = await resources.read()
        await resources.close()
    name = pod["metadata"]["name"]
    return sorted(device for device, owner in told.items() if owner.pod == name)


async def _told(world: World, one: str) -> list[tuple[int, str]]:
    """Rank and UUID of each GPU of which a kubelet has told that the workload has it."""
    rows = await world.rows.fetch("SELECT body FROM placement.node_devices")
    gpus = [gpu for row in rows for gpu in json.loads(row["body"])["gpus"].values()]
    return [(gpu.get("rank", 0), gpu["uuid"]) for gpu in gpus if gpu.get("workload_id") == one]
