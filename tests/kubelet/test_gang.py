"""A gang in real containers: what its pods are told, their devices, names, logs and commands."""

from __future__ import annotations

import re

import pytest

from deploy.kubelets.gpus import COUNTED
from tests.kubelet.world import UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import GPUS, uuids_of

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

FIRST = r"""
echo "rank=$RANK world=$WORLD_SIZE node devices=$NVIDIA_VISIBLE_DEVICES"
other=${HOSTNAME%-0}-1.${MASTER_ADDR#*.}
if test $RANK = 1
then echo "hello of $HOSTNAME" | nc -l -p $MASTER_PORT
else until nc $other $MASTER_PORT </dev/null | grep hello; do sleep 0.2; done
fi
"""


async def test_a_gang_by_kafka_gets_its_devices_and_its_pods_reach_each_other_by_name(
    world: World,
) -> None:
    one = await world.by_kafka(a_workload("gang", FIRST + UNTIL_TOLD, pods=2, gpus=GPUS))

    pods = await world.runs(one, pods=2)
    nodes = [pod["spec"]["nodeName"] for pod in pods]
    await world.eventually(lambda: _greeted(world, one), what="rank 0 to reach rank 1")
    written = [await world.logs(one, rank) for rank in range(2)]

    assert set(COUNTED) == set(nodes)
    for rank, (node, text) in enumerate(zip(nodes, written, strict=True)):
        told = re.search(r"rank=(\d) world=(\d) node devices=(\S+)", text)
        assert told is not None, text
        assert (str(rank), "2", set(uuids_of(node))) == (told[1], told[2], set(told[3].split(",")))
    assert [*range(GPUS)] * 2 == [gpu for _, _, gpu in await world.allocated(one)]

    await world.go(one, ranks=2)
    assert "succeeded" == (await world.ended(one))["state"]


async def _greeted(world: World, one: str) -> bool:
    return f"hello of {one}-1-1" in await world.logs(one)


async def test_a_command_runs_in_a_container_and_its_exit_code_comes_back(world: World) -> None:
    one = await world.by_kafka(a_workload("commands", UNTIL_TOLD))
    await world.runs(one)

    done = await world.muster("exec", one, "--", "sh", "-c", "hostname; echo oh >&2; exit 3")

    assert (3, "oh\n") == (done.returncode, done.stderr)
    assert "MUSTER" not in done.stdout
    assert done.stdout.strip()


async def test_logs_are_followed_until_the_pod_ends(world: World) -> None:
    script = f"echo before; {UNTIL_TOLD}; echo after"
    one = await world.by_kafka(a_workload("logs", script))
    await world.runs(one)
    following = world.start_muster("logs", one, "--follow")

    await world.go(one)
    code, written = await world.finish(following)

    assert (0, "before\nafter\n") == (code, written)
