"""A binder that is killed between the creation of a gang and its start: whole or nothing."""

from __future__ import annotations

import pytest

from tests.kubelet.world import UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import GPUS

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

KILLS = 0.3
"""With the seed of every start the points are passed three times, then comes the end."""
POINTS = (
    "unit.before_commit", "unit.after_commit",
    "relay.before_publish", "relay.published_not_marked",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
async def test_a_gang_runs_whole_and_once_though_its_binder_dies_at(
    world: World, point: str
) -> None:
    started = world.system.restarts("binder")
    with world.failing("binder", f"{point}:{KILLS}:kill"):
        one = await world.by_kafka(a_workload("dies", UNTIL_TOLD, pods=2, gpus=GPUS))
        pods = await world.runs(one, pods=2)
        await world.go(one, ranks=2)
        found = await world.ended(one)
        deaths = world.system.restarts("binder") - started - 1

    assert ("succeeded", 1) == (found["state"], found["attempt"]), found
    assert [one, one] == [pod["metadata"]["labels"]["muster.dev/workload"] for pod in pods]
    assert deaths >= 1


@pytest.mark.parametrize("bound", [0, 1, 2])
async def test_a_gang_runs_whole_though_its_binder_is_killed_when_so_many_are_bound(
    world: World, bound: int
) -> None:
    one = await world.by_kafka(a_workload("killed", UNTIL_TOLD, pods=2, gpus=GPUS))
    await world.eventually(
        lambda: len(nodes := _nodes(world, one)) and sum(map(bool, nodes)) >= bound,
        what=f"{bound} pods to be bound",
    )
    world.system.kill("binder")

    await world.runs(one, pods=2)
    await world.go(one, ranks=2)
    found = await world.ended(one)

    assert ("succeeded", 1) == (found["state"], found["attempt"]), found


def _nodes(world: World, one: str) -> list[str]:
    return [pod["spec"].get("nodeName", "") for pod in world.pods(one)]
