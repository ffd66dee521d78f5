"""The list of preferences: their order, the keys that follow from it, and what each prefers."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
import pytest

from shared.core.model.demand import PodDemand, gang_of
from shared.core.model.nouns import Placement, Workload
from shared.core.placement.place import learn, place
from shared.core.scoring.cells import TIE, Ints
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.mix import PodClass
from shared.core.scoring.policies import POLICIES
from shared.core.scoring.policies.cpu_balance import CpuBalance
from shared.core.scoring.policies.fragmentation import Fragmentation
from shared.core.scoring.policies.gpu_free_nodes import GpuFreeNodes
from shared.core.scoring.policies.open_rest import OpenRest
from shared.core.scoring.policies.shared_gpu_value import SharedGpuValue
from shared.core.scoring.policy import Floats, Learned, ScoringPolicy, gpu_places, node_places
from shared.core.scoring.scores import KEYS, keys_of
from tests.support.placing import cluster, node, pods, request, share, whole, workload

CORES = 1000
ONE, EIGHT = PodClass(1, 0, 8 * CORES, ()), PodClass(8, 0, 64 * CORES, ())
SMALL, LARGE = PodClass(0, 320, CORES, ()), PodClass(0, 650, CORES, ())


def learned(counts: dict[PodClass, int], *, bare: bool = False) -> Learned:
    """A fleet of one class of nodes with eight GPUs; with `bare` another class without."""
    gpu_nodes = [node(f"n{number}", gpus=8, cpu_milli=64 * CORES) for number in range(4)]
    fleet = cluster(*gpu_nodes, *([node("c0", gpus=0)] if bare else []))
    classes = {each.node_class: None for each in fleet.nodes.values() if each.node_class}
    return Learned(counts, list(classes))


def demand_of(asked: Workload) -> PodDemand:
    return gang_of(asked).demands[0]


def values(found: Ints | Floats | None) -> list[int]:
    assert found is not None
    return [int(each) for each in found]


def of_nodes(
    policy: ScoringPolicy, asked: Workload, *rows: tuple[int, int, int, int]
) -> list[int]:
    """`rows`: (class, free GPUs, parts of 500 milli, free CPU in steps of 2 cores)."""
    demand = demand_of(asked)
    return values(policy.of_nodes(node_places(np.array(rows), demand), demand))


def of_gpus(policy: ScoringPolicy, asked: Workload, *rows: tuple[int, int, int, int]) -> list[int]:
    """`rows`: (class, free part in 10 milli, rest in 2 GPUs, free CPU in steps of 4 cores)."""
    demand = demand_of(asked)
    return values(policy.of_gpus(gpu_places(np.array(rows), demand), demand))


def one_gpu(cpu: int = 8) -> Workload:
    return workload(pods(whole(1), cpu_milli=cpu * CORES))


def a_share(milli: int) -> Workload:
    return workload(pods(share(milli), cpu_milli=CORES))


def test_keys_are_those_that_scores_had_when_they_were_counted_by_hand() -> None:
    assert (TIE << 13, TIE << 12, TIE << 10, TIE << 1, TIE) == KEYS


def test_one_step_of_a_policy_outweighs_all_later_ones_together() -> None:
    for number, key in enumerate(KEYS):
        later = zip(POLICIES[number + 1 :], KEYS[number + 1 :], strict=True)

        assert key > sum(each * (policy.most - policy.least) for policy, each in later)


def test_policies_that_need_more_bits_than_a_score_has_are_refused() -> None:
    class Wide(Fragmentation):
        most: ClassVar[int] = 1 << 62

    with pytest.raises(ValueError, match=r"policies need \d+ bits, and a score has 62"):
        keys_of([Wide, *POLICIES])


def test_fragmentation_prefers_the_node_that_no_large_pod_could_use_anyhow() -> None:
    policy = Fragmentation(learned({ONE: 1, EIGHT: 1}))

    broken, intact = of_nodes(policy, one_gpu(), (0, 3, 0, 32), (0, 8, 0, 32))

    assert broken > intact


def test_cpu_work_goes_to_nodes_without_gpus_and_only_there_it_counts() -> None:
    policy: ScoringPolicy = GpuFreeNodes(learned({ONE: 1}, bare=True))
    asked = workload(pods(cpu_milli=CORES))

    assert [0, 1] == of_nodes(policy, asked, (0, 8, 0, 32), (1, 0, 0, 32))
    assert policy.of_gpus(cast(Any, None), demand_of(asked)) is None


def test_a_shared_gpu_is_worth_more_the_better_its_rest_is_used_up() -> None:
    policy = SharedGpuValue(learned({SMALL: 1, LARGE: 1}))

    filled, cut = of_gpus(policy, a_share(320), (0, 35, 0, 8), (0, 65, 0, 8))

    assert (SharedGpuValue.most, True) == (filled, cut < filled)


def test_cpu_balance_prefers_the_node_that_keeps_cpu_for_its_free_gpus() -> None:
    policy = CpuBalance(learned({ONE: 1}))

    spare, short = of_nodes(policy, one_gpu(16), (0, 4, 0, 32), (0, 4, 0, 16))

    assert spare > short


def test_an_open_rest_is_one_that_another_share_fits_into() -> None:
    policy = OpenRest(learned({SMALL: 3, LARGE: 1}))

    assert [1, 0] == of_gpus(policy, a_share(320), (0, 65, 0, 8), (0, 35, 0, 8))


def test_a_pod_of_more_gpus_than_tables_tell_apart_finds_its_node() -> None:
    fleet: Cluster = cluster(node("big", gpus=24, cpu_milli=256 * CORES))
    for _ in range(64):
        learn(fleet, one_gpu(), "a100")

    answer = place(fleet, request(workload(pods(whole(20), cpu_milli=64 * CORES))))

    assert isinstance(answer, Placement), answer
