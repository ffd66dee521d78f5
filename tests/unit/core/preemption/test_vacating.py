"""Where a gang would go if others were gone, and that place taken later."""

from __future__ import annotations

from typing import Any

from shared.core.model.nouns import Placement, Workload
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.moves import place_without, take
from shared.core.scoring.cluster import Cluster
from tests.support.placement_driver import a_node, a_workload, gpu_limit


def a_request(workload: Workload, gpus: int = 100) -> PlacementRequest:
    return PlacementRequest(
        workload=workload, flavors=("none", "h100"), headroom={"h100": gpu_limit(gpus)}
    )


def a_full_cluster() -> tuple[Cluster, Workload, Placement]:
    """Two nodes with 4 GPUs each, all held by one gang."""
    cluster = Cluster(seed=0)
    cluster.put_node(a_node("n1", gpus=4))
    cluster.put_node(a_node("n2", gpus=4))
    holder = a_workload("holder", gpus=4, pod_count=2)
    placement = place(cluster, a_request(holder))
    assert isinstance(placement, Placement)
    return cluster, holder, placement


def test_a_place_is_found_and_nothing_has_changed():
    cluster, holder, held = a_full_cluster()
    before = cluster.digest()

    found = place_without(cluster, [(holder, held)], a_request(a_workload(gpus=4)))

    assert found is not None
    assert ["h100", 1] == [found.flavor, len(found.pods)]
    assert before == cluster.digest()


def test_quota_and_room_are_asked_for_too():
    cluster, holder, held = a_full_cluster()

    assert place_without(cluster, [], a_request(a_workload(gpus=4))) is None
    assert place_without(cluster, [(holder, held)], a_request(a_workload(gpus=5))) is None
    assert place_without(cluster, [(holder, held)], a_request(a_workload(gpus=4), 3)) is None


def an_elastic(count: int, least: int) -> Workload:
    workload = a_workload("elastic", gpus=4)
    pod_set = replace(workload.spec.pod_sets[0], count=count, min_count=least)
    return replace(workload, spec=replace(workload.spec, pod_sets=(pod_set,)))


def test_of_an_elastic_gang_the_most_that_fits():
    cluster, holder, held = a_full_cluster()

    found = place_without(cluster, [(holder, held)], a_request(an_elastic(5, 1)))
    none = place_without(cluster, [(holder, held)], a_request(an_elastic(5, 3)))

    assert found is not None
    assert 2 == len(found.pods)
    assert none is None


def test_exactly_the_promised_place_is_taken_or_nothing_is():
    cluster, holder, held = a_full_cluster()
    workload = a_workload("w", gpus=4, pod_count=2)
    found: Any = place_without(cluster, [(holder, held)], a_request(workload))
    full = cluster.digest()

    assert not take(cluster, workload, found.pods)
    assert full == cluster.digest()
    cluster.release(holder.team, held.pods[:1], holder.spec.pod_sets)
    half = cluster.digest()
    assert not take(cluster, workload, found.pods)
    assert half == cluster.digest()
    cluster.release(holder.team, held.pods[1:], holder.spec.pod_sets)
    assert take(cluster, workload, found.pods)
    assert 8_000 == cluster.gpu_milli_used()


def test_a_place_on_a_node_that_is_gone_cannot_be_taken():
    cluster, holder, held = a_full_cluster()
    cluster.release(holder.team, held.pods, holder.spec.pod_sets)
    cluster.remove_node(held.pods[0].node)

    assert not take(cluster, holder, held.pods)
