"""A node that has the image goes before its equals, and only before these."""

from __future__ import annotations

import pytest

from shared.core.cluster.images import LOOKED_MAX, ImageIndex, missing
from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import gang_of
from shared.core.model.nouns import (
    GpuChoice,
    Level,
    Placement,
    PodSet,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, node, pods, request, share, whole, workload

IMAGE = "registry/train:1"
WEIGHTS = "hf://meta/llama-70b"


def asking(pod_set: PodSet, image: str = IMAGE, **rest: object) -> Workload:
    return workload(replace(pod_set, image=image), **rest)  # type: ignore[arg-type]


def one_gpu(image: str = IMAGE) -> Workload:
    return asking(pods(whole(1), cpu_milli=8000), image)


def replica(gpus: int = 4, count: int = 1) -> Workload:
    asked = pods(whole(gpus), count, cpu_milli=8000, memory_mib=1024)
    pod_set = replace(asked, image=IMAGE, weights=WEIGHTS)
    return workload(pod_set)


def in_rack(gpus: int, count: int) -> Workload:
    return workload(
        *replica(gpus, count).spec.pod_sets, topology=TopologyRequest(required=Level.RACK)
    )


def taught(*nodes: object) -> Cluster:
    fleet = cluster(*nodes)  # type: ignore[arg-type]
    mix = fleet.packing("a100").mix
    while not mix.version:
        mix.note(gang_of(one_gpu()), placed=True)
    return fleet


def where(fleet: Cluster, asked: Workload) -> str:
    answer = place(fleet, request(asked))
    assert isinstance(answer, Placement), answer
    return answer.pods[0].node


def test_of_equal_nodes_the_one_with_the_image_is_taken() -> None:
    names = [f"n{number}" for number in range(200)]
    for holder in names[::40]:
        nodes = [node(name, images=(IMAGE,) if name == holder else ("other",)) for name in names]

        assert where(taught(*nodes), one_gpu()) == holder


def test_without_a_report_or_a_wish_nothing_is_different() -> None:
    plain = taught(*(node(f"n{number}") for number in range(9)))
    told = taught(*(node(f"n{number}", images=("other",)) for number in range(9)))

    assert where(plain, one_gpu()) == where(told, one_gpu()) == where(told, one_gpu(""))


def test_an_image_is_worth_less_than_packing() -> None:
    lean = node("lean", gpus=8, cpu_milli=16_000, images=(IMAGE,))
    rich = [node(f"rich-{number}", gpus=2, cpu_milli=96_000) for number in range(3)]

    assert where(taught(lean, *rich), asking(pods(whole(1), cpu_milli=15_000))) != "lean"


@pytest.mark.parametrize(
    ("has", "winner"),
    [
        ({"b": (IMAGE,), "c": ()}, "b"),
        ({"b": (IMAGE,), "c": (WEIGHTS,)}, "c"),
        ({"a": (IMAGE,), "b": (WEIGHTS,), "c": (WEIGHTS, IMAGE)}, "c"),
    ],
)
@pytest.mark.parametrize("spare", ["x", "y", "z"])
def test_weights_count_more_than_the_image_and_both_most(
    has: dict[str, tuple[str, ...]], winner: str, spare: str
) -> None:
    nodes = [node(name, images=has.get(name, ("other",))) for name in ("a", "b", "c", spare)]

    assert where(taught(*nodes), replica()) == winner


def test_pods_of_a_gang_go_where_their_weights_are() -> None:
    names = [f"n{number}" for number in range(40)]
    for first in range(0, 40, 10):
        holders = names[first : first + 2]
        nodes = [node(name, images=(WEIGHTS,) * (name in holders)) for name in names]

        answer = place(cluster(*nodes), request(replica(8, 2)))

        assert isinstance(answer, Placement)
        assert sorted(pod.node for pod in answer.pods) == holders


def test_pods_of_a_gang_go_round_holders_that_take_no_work_or_lack_memory() -> None:
    rest = [node(f"n{number}") for number in range(4)]
    closed = node("closed", cordoned=True, images=(WEIGHTS,))
    small = node("small", memory_mib=512, images=(WEIGHTS,))
    holder = node("holder", images=(WEIGHTS,))

    answer = place(cluster(*rest, closed, small, holder), request(replica(8, 2)))

    assert isinstance(answer, Placement)
    names = {pod.node for pod in answer.pods}
    assert "holder" in names
    assert not names & {"closed", "small"}


@pytest.mark.parametrize("gpus", [0, 8])
def test_replicas_that_must_be_apart_are_so_wherever_their_weights_are(gpus: int) -> None:
    nodes = [node(f"n{number}", images=(WEIGHTS,) * (number == 3)) for number in range(6)]
    pod_set = replace(pods(whole(gpus) if gpus else None, 2), weights=WEIGHTS)
    asked = workload(pod_set, spread=Spread.REQUIRED)

    answer = place(cluster(*nodes), request(asked))

    assert isinstance(answer, Placement)
    assert "n3" in {pod.node for pod in answer.pods}
    assert len({pod.node for pod in answer.pods}) == 2


def test_weights_on_a_product_that_was_not_asked_for_are_passed_over() -> None:
    asked = workload(*replica(8, 2).spec.pod_sets, choice=GpuChoice(products=("B",)))
    other = node("other", product="A", images=(WEIGHTS,))

    answer = place(cluster(other, *(node(f"n{n}", product="B") for n in range(3))), request(asked))

    assert isinstance(answer, Placement)
    assert "other" not in {pod.node for pod in answer.pods}


@pytest.mark.parametrize("holders", [(1, 2), (5, 6), (0, 7)])
def test_pods_of_a_gang_in_one_rack_go_where_their_weights_are(holders: tuple[int, ...]) -> None:
    racks = [
        node(f"n{number}", rack=f"r{number // 8}", images=(WEIGHTS,) * (number in holders))
        for number in range(8)
    ]

    answer = place(cluster(*racks), request(in_rack(8, 2)))

    assert isinstance(answer, Placement)
    assert {pod.node for pod in answer.pods} == {f"n{number}" for number in holders}


def test_a_gang_takes_the_tightest_node_before_one_that_has_its_weights() -> None:
    fleet = cluster(node("tight", gpus=4), node("wide", gpus=8, images=(WEIGHTS,)))

    answer = place(fleet, request(replica(2, 2)))

    assert isinstance(answer, Placement)
    assert {pod.node for pod in answer.pods} == {"tight"}


def test_the_cpu_of_a_gang_fits_tightly_before_its_weights_are_looked_for() -> None:
    more = node("more", gpus=4, cpu_milli=64_000, images=(WEIGHTS,))
    fleet = cluster(node("tight", gpus=4, cpu_milli=32_000), more)

    answer = place(fleet, request(replica(2, 2)))

    assert isinstance(answer, Placement)
    assert {pod.node for pod in answer.pods} == {"tight"}


def test_in_a_rack_the_rest_of_a_gang_fits_tightly_before_its_weights_are_looked_for() -> None:
    wide = [node(f"wide{number}", rack="r", images=(WEIGHTS,)) for number in range(2)]
    fleet = cluster(*wide, node("tight", rack="r", gpus=4))

    answer = place(fleet, request(in_rack(4, 3)))

    assert isinstance(answer, Placement)
    assert "tight" in {pod.node for pod in answer.pods}


@pytest.mark.parametrize("name", ["other", "another", "third", "fourth"])
def test_in_a_rack_weights_decide_only_between_places_that_are_as_whole(name: str) -> None:
    def chosen(images: tuple[str, ...]) -> set[str]:
        fleet = cluster(node("broken", rack="r"))
        where(fleet, asking(pods(whole(4))))
        fleet.put_node(node("wide", rack="r"))
        fleet.put_node(node(name, rack="r", gpus=4, images=images))
        answer = place(fleet, request(in_rack(4, 3)))
        assert isinstance(answer, Placement)
        return {pod.node for pod in answer.pods}

    assert chosen(()) == chosen((WEIGHTS,))


@pytest.mark.parametrize("name", ["other", "another", "third", "fourth"])
def test_weights_decide_only_between_gangs_places_that_are_as_whole(name: str) -> None:
    def chosen(images: tuple[str, ...]) -> set[str]:
        fleet = cluster(node("broken", gpus=8, cpu_milli=40_000))
        where(fleet, asking(pods(whole(4), cpu_milli=8000)))
        fleet.put_node(node(name, gpus=4, cpu_milli=32_000, images=images))
        answer = place(fleet, request(replica(2, 2)))
        assert isinstance(answer, Placement)
        return {pod.node for pod in answer.pods}

    assert chosen(()) == chosen((WEIGHTS,))


def test_a_whole_node_is_not_broken_for_an_image() -> None:
    fleet = taught(node("broken"), node("whole", images=(IMAGE,)))
    fleet.packing("a100").follow()
    first = where(fleet, asking(pods(whole(1), cpu_milli=8000), "x", choice=GpuChoice()))
    holder = {"broken": "whole", "whole": "broken"}[first]
    fleet.put_node(node(holder, images=(IMAGE,)))
    fleet.put_node(node(first))

    assert where(fleet, one_gpu()) == first


def test_a_share_opens_its_gpu_and_goes_on_where_the_image_is() -> None:
    nodes = [node(f"n{number}", images=(IMAGE,) * (number == 5)) for number in range(9)]
    fleet = taught(*nodes)
    asked = asking(pods(share(300, 10), cpu_milli=1000))

    assert [where(fleet, asked) for _ in range(3)] == ["n5"] * 3


def test_of_two_shared_gpus_that_are_as_good_the_one_beside_the_image() -> None:
    for holder in ("a", "b"):
        nodes = [node(name, gpus=1, images=(IMAGE,) * (name == holder)) for name in ("a", "b")]
        fleet = taught(*nodes)
        large = asking(pods(share(600, 10), cpu_milli=1000), "other")
        assert {where(fleet, large), where(fleet, large)} == {"a", "b"}

        assert where(fleet, asking(pods(share(100, 1), cpu_milli=100))) == holder


def test_the_index_forgets_nodes_that_lost_the_image_or_left() -> None:
    fleet = taught(node("a", images=(IMAGE, IMAGE)), node("b"), node("c"))
    assert fleet.packing("a100").images.has_any((IMAGE,))

    fleet.put_node(node("a"))
    assert not fleet.packing("a100").images.has_any((IMAGE,))

    fleet.put_node(node("b", images=(IMAGE,)))
    fleet.remove_node("b")
    assert not fleet.packing("a100").images.has_any((IMAGE,))


def test_a_node_that_changes_its_flavor_takes_its_images_along() -> None:
    fleet = cluster(node("a", images=(IMAGE,)))
    fleet.put_node(node("a", flavor="h100", images=(IMAGE,)))

    assert not fleet.packing("a100").images.has_any((IMAGE,))
    assert fleet.packing("h100").images.has_any((IMAGE,))


def test_holders_are_few_and_in_order_of_rank() -> None:
    index = ImageIndex()
    states = [NodeState(f"n{number}", 1000 - number) for number in range(2 * LOOKED_MAX)]
    for state in states:
        index.put(state, (IMAGE,))

    found = list(index.holders(IMAGE))

    assert found == sorted(states, key=lambda state: state.rank)[:LOOKED_MAX]
    assert missing(found[0], (IMAGE,)) == (True,)
    assert list(index.holders("other")) == []
