"""Equal workloads looked for as one gang."""

from __future__ import annotations

import pytest

from shared.core.model.decision import Refusal
from shared.core.model.nouns import Level, PodSet, Slice, Spread, TopologyRequest
from shared.core.model.units import UNBOUNDED
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.crowd import crowd_of, may_crowd, parts_of
from shared.core.scoring.cluster import Cluster
from tests.support.placement_driver import a_node, a_workload


@pytest.mark.parametrize(
    "more",
    [
        {"topology": TopologyRequest(required=Level.RACK)},
        {"spread": Spread.REQUIRED},
        {"min_count": 1},
    ],
)
def test_who_must_lie_in_a_certain_way_or_may_be_smaller_is_no_crowd(more: dict):
    assert may_crowd(a_workload(pod_count=2))
    assert not may_crowd(a_workload(pod_count=2, **more))


@pytest.mark.parametrize(
    "one",
    [(PodSet(name="a"), PodSet(name="b")), (PodSet(slices=(Slice(pods=1, level=Level.NODE),)),)],
)
def test_nor_are_unlike_pods_and_slices(one: tuple[PodSet, ...]):
    gang = a_workload()

    assert not may_crowd(replace(gang, spec=replace(gang.spec, pod_sets=one)))


def test_each_of_a_crowd_gets_a_part_of_its_own():
    near = TopologyRequest(preferred=Level.NODE)
    gang, cluster = a_workload(pod_count=3, gpus=2, topology=near), Cluster(seed=0)
    for name in ("n1", "n2", "n3"):
        cluster.put_node(a_node(name))
    crowd = crowd_of(gang, 4)
    assert crowd.spec.topology.preferred is None
    request = PlacementRequest(workload=crowd, flavors=("h100",), headroom={"h100": UNBOUNDED})

    answer = place(cluster, request)

    assert not isinstance(answer, Refusal)
    parts = list(parts_of(gang, answer))
    assert [[0, 1, 2]] * 4 == [[pod.rank for pod in one.pods] for one in parts]
    assert {6_000} == {one.charge.gpu_milli for one in parts}
    taken = [(pod.node, share.index) for one in parts for pod in one.pods for share in pod.shares]
    assert 24 == len(set(taken)) == len(taken)
    assert answer.charge.gpu_milli == sum(one.charge.gpu_milli for one in parts)
