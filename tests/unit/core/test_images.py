"""A node that has the image goes before its equals, and only before these."""

from __future__ import annotations

from dataclasses import replace as changed

from shared.core.cluster import Cluster
from shared.core.demand import gang_of
from shared.core.feasibility import permitted
from shared.core.images import LOOKED_MAX, ImageIndex, has_image
from shared.core.kernels.scope import decides
from shared.core.model import GpuChoice, Placement, PodSet, Workload
from shared.core.node_state import NodeState
from shared.core.placement import place
from shared.core.value import replace
from tests.support.placing import cluster, node, pods, request, share, whole, workload

IMAGE = "registry/train:1"


def asking(pod_set: PodSet, image: str = IMAGE, **rest: object) -> Workload:
    return workload(replace(pod_set, image=image), **rest)  # type: ignore[arg-type]


def one_gpu(image: str = IMAGE) -> Workload:
    return asking(pods(whole(1), cpu_milli=8000), image)


def taught(*nodes: object) -> Cluster:
    fleet = cluster(*nodes)  # type: ignore[arg-type]
    mix = fleet.market("a100").mix
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


def test_a_whole_node_is_not_broken_for_an_image() -> None:
    fleet = taught(node("broken"), node("whole", images=(IMAGE,)))
    fleet.market("a100").follow()
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
    assert IMAGE in fleet.market("a100").images

    fleet.put_node(node("a"))
    assert IMAGE not in fleet.market("a100").images

    fleet.put_node(node("b", images=(IMAGE,)))
    fleet.remove_node("b")
    assert IMAGE not in fleet.market("a100").images


def test_a_node_that_changes_its_flavor_takes_its_images_along() -> None:
    fleet = cluster(node("a", images=(IMAGE,)))
    fleet.put_node(node("a", flavor="h100", images=(IMAGE,)))

    assert IMAGE not in fleet.market("a100").images
    assert IMAGE in fleet.market("h100").images


def test_holders_are_few_and_in_order_of_rank() -> None:
    index = ImageIndex()
    states = [NodeState(f"n{number}", 1000 - number) for number in range(2 * LOOKED_MAX)]
    for state in states:
        index.put(state, (IMAGE,))

    found = list(index.holders(IMAGE))

    assert found == sorted(states, key=lambda state: state.rank)[:LOOKED_MAX]
    assert not has_image(found[0], IMAGE)
    assert list(index.holders("other")) == []


def test_back_ends_decide_what_asks_for_no_reported_image() -> None:
    fleet = taught(node("a", images=("other",)))
    gang = gang_of(one_gpu())
    (demand,) = gang.demands
    tiers = permitted(fleet, gang, demand, "a100")

    assert decides(gang, tiers)
    fleet.put_node(node("a", images=(IMAGE,)))
    assert not decides(gang, tiers)
    assert changed(demand, image="").shape == demand.shape
