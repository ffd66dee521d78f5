"""Which nodes may be used at all: choice of GPUs, drivers, pools and taints."""

from __future__ import annotations

import pytest

from shared.core.feasibility import PLANS_MAX, version
from shared.core.model import GpuChoice, GpuRequest, Placement
from shared.core.placement import place
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
