"""Which nodes may be used at all: choice of GPUs, drivers, pools and taints."""

from __future__ import annotations

import pytest

from shared.core.cluster.choice_filters import version
from shared.core.model.nouns import GpuChoice, GpuRequest, Node, Placement, PodRole
from shared.core.model.taints import SHUNNED
from shared.core.model.value import replace
from shared.core.placement.feasibility import PLANS_MAX
from shared.core.placement.place import grow, place
from tests.support.placing import (
    cluster,
    node,
    placed,
    pods,
    refused,
    request,
    where,
    whole,
    workload,
)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (GpuChoice(products=("H100",)), "h"),
        (GpuChoice(min_memory_mib=80_000), "h"),
        (GpuChoice(min_driver="535.54"), "h"),
        (GpuChoice(cuda="12.4"), "h"),
        (GpuChoice(node_pool="research"), "h"),
        (GpuChoice(products=("A100", "H100"), preferred_products={"H100": 2, "A100": 1}), "h"),
        (GpuChoice(preferred_products={"A100": 1}), "a"),
    ],
)
def test_the_choice_of_gpus_filters_and_prefers(choice: GpuChoice, expected: str) -> None:
    fleet = cluster(
        node("a", product="A100", gpu_memory_mib=40_000, driver="470.1", cuda="11.8"),
        node("h", product="H100", driver="535.104.05", cuda="12.4", pool="research"),
    )

    assert where(placed(fleet, workload(pods(whole(1)), choice=choice))) == [expected]


def test_gpu_filters_do_not_concern_a_leader_without_gpus() -> None:
    fleet = cluster(node("c", gpus=0, product=""), node("h", product="H100"))
    choice = GpuChoice(products=("H100",))

    answer = placed(
        fleet, workload(pods(count=1, name="leader"), pods(whole(1), name="w"), choice=choice)
    )

    assert where(answer) == ["c", "h"]


@pytest.mark.parametrize(
    ("taint", "gpu", "pool", "allowed"),
    [
        ("nvidia.com/gpu=present:NoSchedule", 1, "", True),
        ("nvidia.com/gpu=present:NoSchedule", 0, "", False),
        ("dedicated=research:NoSchedule", 1, "", False),
        ("dedicated=research:NoSchedule", 1, "research", True),
        ("maintenance:NoExecute", 1, "", False),
        ("busy:PreferNoSchedule", 0, "", True),
    ],
)
def test_taints_keep_away_all_but_those_meant(
    taint: str, gpu: int, pool: str, *, allowed: bool
) -> None:
    fleet = cluster(node("a", taints=(taint,), pool="research"))
    asked = workload(pods(GpuRequest(count=gpu)), choice=GpuChoice(node_pool=pool))

    assert isinstance(place(fleet, request(asked)), Placement) == allowed


@pytest.mark.parametrize(
    ("taint", "toleration", "allowed"),
    [
        ("maintenance:NoExecute", "maintenance", True),
        ("maintenance:NoExecute", "maintenance:NoExecute", True),
        ("maintenance:NoExecute", "maintenance:NoSchedule", False),
        ("dedicated=research:NoSchedule", "dedicated", True),
        ("dedicated=research:NoSchedule", "dedicated=research", True),
        ("dedicated=research:NoSchedule", "dedicated=vision:NoSchedule", False),
        ("dedicated=research:NoSchedule", "other", False),
    ],
)
def test_pods_ignore_the_taints_that_their_set_tolerates(
    taint: str, toleration: str, *, allowed: bool
) -> None:
    fleet = cluster(node("a", taints=(taint,)))
    asked = workload(replace(pods(whole(1)), tolerations=(toleration,)))

    assert isinstance(place(fleet, request(workload(pods(whole(1))))), Placement) is False
    assert isinstance(place(fleet, request(asked)), Placement) == allowed


def test_a_soft_taint_only_makes_a_node_the_last_choice() -> None:
    fleet = cluster(node("soft", gpus=1, taints=("busy:PreferNoSchedule",)), node("plain"))

    assert where(placed(fleet, workload(pods(whole(1))))) == ["plain"]


def test_versions_are_compared_as_numbers_and_an_unknown_one_is_the_oldest() -> None:
    assert version("535.104.05") > version("535.54") > version("9") > version("")


def test_answers_of_filters_are_kept_within_a_bound() -> None:
    fleet = cluster(node("a"))
    for number in range(PLANS_MAX + 10):
        refused(fleet, workload(pods(), choice=GpuChoice(node_pool=f"p{number}")))

    assert len(fleet.plans) <= PLANS_MAX


@pytest.mark.parametrize(
    ("near", "choice"),
    [
        (node("near", gpus=4, product="A100"), GpuChoice(products=("H100",))),
        (node("near", gpus=4, cuda="12.2"), GpuChoice(cuda="12.4")),
        (node("near", gpus=4, driver="535.1"), GpuChoice(min_driver="540")),
    ],
)
def test_a_leader_leaves_its_workers_where_their_node_is_forbidden_to_it(
    near: Node, choice: GpuChoice
) -> None:
    far = node("far", gpus=1, product="H100", cuda="12.4", driver="550.2", cpu_milli=1000)
    leader = replace(pods(whole(1), name="leader"), role=PodRole.LEADER)
    workers = pods(count=2, name="w", cpu_milli=8000)

    answer = placed(cluster(near, far), workload(leader, workers, choice=choice))

    assert where(answer) == ["far", "near", "near"]


def test_a_leader_without_gpus_keeps_off_nodes_that_are_for_gpus_alone() -> None:
    tainted = node("g", taints=("nvidia.com/gpu=present:NoSchedule",))
    leader = replace(pods(name="leader", cpu_milli=1000), role=PodRole.LEADER)
    asked = workload(leader, pods(whole(4), 2, name="w"))

    answer = placed(cluster(tainted, node("c", gpus=0, product="")), asked)

    assert where(answer) == ["c", "g", "g"]


def test_a_set_does_not_grow_where_only_other_sets_of_its_gang_may_lie() -> None:
    fleet = cluster(
        node("old", gpus=4, product="V100"),
        node("new", gpus=1, product="H100", cpu_milli=1000),
    )
    elastic = replace(pods(whole(1), 3, name="g"), min_count=1)
    asked = workload(pods(name="c", cpu_milli=8000), elastic, choice=GpuChoice(products=("H100",)))
    running = placed(fleet, asked)
    assert where(running) == ["old", "new"]

    assert grow(fleet, request(asked), running) is None

    fleet.put_node(node("later", gpus=1, product="H100"))
    added = grow(fleet, request(asked), running)
    assert added is not None
    assert where(added) == ["later"]


@pytest.mark.parametrize("reason", ["taint", "shunned", "promised"])
def test_a_gang_does_not_grow_on_its_own_node_once_that_is_closed_to_it(reason: str) -> None:
    fleet = cluster(node("n", gpus=1))
    asked = workload(replace(pods(whole(1), 4), min_count=1))
    running = placed(fleet, asked)
    closed = {"taint": ("away:NoSchedule",), "shunned": (SHUNNED,), "promised": ()}
    fleet.put_node(node("n", gpus=4, taints=closed[reason]))
    fleet.pin("n", 7 if reason == "promised" else 0)

    assert grow(fleet, request(asked), running) is None

    fleet.pin("n", 0)
    fleet.put_node(node("n", gpus=4))
    assert grow(fleet, request(asked), running) is not None
