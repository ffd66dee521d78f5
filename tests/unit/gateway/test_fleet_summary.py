"""The sum of a fleet by flavor, MIG instances by profile, and the largest gang by level."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.gateway.fleet import mig
from services.gateway.fleet.held import Held, Hold
from services.gateway.fleet.summary import summary_of
from services.gateway.fleet.views import FlavorSummary
from shared.core.model.nouns import Gpu, MigPlacements, Node

EMPTY = Held({}, {})
A100 = "NVIDIA-A100-SXM4-80GB"


def a_node(name: str, *, gpus: int = 4, mig_gpus: int = 0, **more: Any) -> Node:
    devices = tuple(
        Gpu(index=at, uuid=f"{name}-{at}", memory_mib=81_920, mig=at >= gpus - mig_gpus)
        for at in range(gpus)
    )
    amounts: dict[str, Any] = {"cpu_milli": 1, "memory_mib": 1, "product": A100}
    return Node(name=name, gpus=devices, **{"flavor": "a100", **amounts, **more})


def row(node: Node, **told: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "unhealthy": None,
        "cordon": "",
        "disputed": "[]",
        "devices": "{}",
        "shunned_until_ms": 0,
    }
    return {"body": msgspec.json.encode(node).decode(), **usual, **told}


def held(*holds: tuple[str, int, int, int], profile: str = "") -> Held:
    """(node, index, milli, mask) each of a workload of its own, all of one profile."""
    by_device: dict[tuple[str, int], list[Hold]] = {}
    for number, (node, index, milli, mask) in enumerate(holds):
        one = Hold(f"w{number}", "red", milli, mask, "main")
        by_device.setdefault((node, index), []).append(one)
    named = {(f"w{number}", "main"): profile for number in range(len(holds))} if profile else {}
    return Held(by_device, named)


def summed(*rows: dict[str, Any], held: Held = EMPTY) -> FlavorSummary:
    (found,) = summary_of(rows, held).items
    return found


def gangs(found: FlavorSummary) -> dict[str, tuple[str, int, int, int]]:
    return {
        one.level.value if one.level else "all": (
            one.place,
            one.gpus,
            one.full_node_gpus,
            one.nodes,
        )
        for one in found.largest_gangs
    }


def test_a_gpu_counts_as_free_when_nothing_of_it_is_held():
    found = summed(
        row(a_node("n1")),
        row(a_node("n2", mig_gpus=2)),
        held=held(("n1", 0, 1000, 255), ("n1", 1, 250, 0), ("n2", 3, 125, 1)),
    )

    assert (2, 8, 1375, 2) == (found.nodes, found.gpus, found.used_gpu_milli, found.mig_gpus)
    assert 2 + 2 == found.free_gpus


@pytest.mark.parametrize(
    ("told", "cordoned", "unhealthy"),
    [
        ({"cordon": "drained"}, 4, 0),
        ({"cordon": "cordoned"}, 4, 0),
        ({"shunned_until_ms": 7}, 4, 0),
        ({"unhealthy": [-1]}, 0, 4),
    ],
)
def test_of_a_node_on_which_nothing_starts_no_gpu_is_free(told, cordoned, unhealthy):
    found = summed(row(a_node("n1"), **told), row(a_node("n2")))

    assert 4 == found.free_gpus
    assert (cordoned, unhealthy) == (found.cordoned_gpus, found.unhealthy_gpus)
    assert ("n2", 4, 4, 1) == gangs(found)["node"]
    assert 4 == gangs(found)["all"][1]


def test_a_node_that_its_own_agent_shuts_counts_alike():
    found = summed(row(a_node("n1", cordoned=True)), row(a_node("n2", ready=False)))

    assert (0, 4, 4) == (found.free_gpus, found.cordoned_gpus, found.unhealthy_gpus)


def test_an_unhealthy_gpu_is_neither_free_nor_room_for_an_instance():
    found = summed(row(a_node("n1", gpus=2, mig_gpus=1), unhealthy=[0, 1]))

    assert (0, 2) == (found.free_gpus, found.unhealthy_gpus)
    assert {0} == {one.free for one in found.mig_profiles}


def test_the_largest_gang_of_each_level_is_of_the_part_with_the_most_free_gpus():
    racks = [("z", "b1", "r1"), ("z", "b1", "r2"), ("z", "b2", "r1"), ("z", "b2", "r1")]
    nodes = [
        row(a_node(f"n{at}", zone=zone, block=block, rack=rack))
        for at, (zone, block, rack) in enumerate(racks)
    ]
    taken = held(("n0", 0, 1000, 255), ("n2", 0, 1000, 255), ("n3", 0, 500, 0))

    found = gangs(summed(*nodes, held=taken))

    assert found == {
        "node": ("n1", 4, 4, 1),
        "rack": ("z/b2/r1", 6, 0, 2),  # not with z/b1/r1, which is another rack
        "block": ("z/b1", 7, 4, 2),
        "zone": ("z", 13, 4, 4),
        "all": ("", 13, 4, 4),
    }


def test_levels_that_no_node_names_are_left_out_and_a_node_without_a_label_is_alone():
    found = gangs(summed(row(a_node("n1", rack="r1")), row(a_node("n2", gpus=8))))

    assert ["node", "rack", "all"] == list(found)
    assert ("n2", 8, 8, 1) == found["rack"]


def test_a_gang_has_nodes_of_the_pool_that_it_names_or_those_that_anybody_may_have():
    taint = ("dedicated=research:NoSchedule",)
    found = summed(
        row(a_node("n1", gpus=2)),
        row(a_node("n2", gpus=2)),
        row(a_node("n3", gpus=3, pool="research", taints=taint)),
        row(a_node("n4", gpus=8, taints=("broken=yes:NoExecute",))),
    )

    largest = {one.level: (one.pool, one.gpus) for one in found.largest_gangs}
    assert ("research", 3) == largest[found.largest_gangs[0].level]
    assert ("", 4) == largest[None]


def test_a_flavor_whose_gpus_are_all_held_has_room_for_none():
    found = summed(row(a_node("n1", gpus=1)), held=held(("n1", 0, 1000, 255)))

    assert {0} == {one.gpus for one in found.largest_gangs}


def test_flavors_come_by_name():
    rows = [row(a_node("n1", flavor="h100")), row(a_node("n2", flavor="a100"))]

    assert ["a100", "h100"] == [one.flavor for one in summary_of(rows, EMPTY).items]


def profiles(node: Node, taken: Held, *, usable: bool = True) -> dict[str, tuple[int, int]]:
    found = mig.of_device(node, node.gpus[-1], taken, usable=usable)
    return {one.profile: (one.used, one.free) for one in found}


def test_room_for_instances_is_by_position():
    node = a_node("n1", mig_gpus=1)

    empty = profiles(node, EMPTY)
    begun = profiles(node, held(("n1", 3, 125, 1), profile="1g.10gb"))

    assert {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"} == set(empty)
    assert ((0, 7), (0, 2), (0, 1)) == (empty["1g.10gb"], empty["3g.40gb"], empty["7g.80gb"])
    assert ((1, 6), (0, 1), (0, 0)) == (begun["1g.10gb"], begun["3g.40gb"], begun["7g.80gb"])
    assert (0, 0) == begun["4g.40gb"]
    assert {(0, 0)} == set(profiles(node, EMPTY, usable=False).values())


def test_several_instances_of_one_pod_and_one_with_media_engines_count_by_profile():
    node = a_node("n1", mig_gpus=1)

    two = profiles(node, held(("n1", 3, 250, 0b11), profile="1g.10gb"))
    media = profiles(node, held(("n1", 3, 125, 0b1), profile="1g.10gb+me"))

    assert (2, 5) == two["1g.10gb"]
    assert ((1, 0), (0, 6)) == (media["1g.10gb+me"], media["1g.10gb"])


def test_what_an_unread_submission_holds_is_named_where_one_profile_has_its_size():
    node = a_node("n1", mig_gpus=1)

    small = profiles(node, held(("n1", 3, 125, 0b1)))
    half = profiles(node, held(("n1", 3, 500, 0b1111)))

    assert (1, 6) == small["1g.10gb"]
    assert {0} == {used for used, _ in half.values()}
    assert 3 == half["1g.10gb"][1]


def test_profiles_that_an_agent_reports_rule():
    reported = (MigPlacements(profile="1g.99gb", compute=1, size=4, starts=(0, 4)),)
    gpu = Gpu(index=0, uuid="g", memory_mib=9, mig=True, mig_placements=reported)
    node = Node(name="n", flavor="f", product="X", cpu_milli=1, memory_mib=1, gpus=(gpu,))

    assert {"1g.99gb": (0, 2)} == profiles(node, EMPTY)


def test_a_device_that_is_whole_has_no_profiles():
    assert {} == profiles(a_node("n1"), EMPTY)


def test_the_profiles_of_a_node_are_the_sum_of_its_devices():
    node = a_node("n1", mig_gpus=2)
    taken = held(("n1", 2, 500, 0b1111), profile="3g.40gb")

    parts = [mig.of_device(node, gpu, taken, usable=True) for gpu in node.gpus]
    found = {one.profile: (one.used, one.free) for one in mig.sum_of(parts)}

    assert ((1, 3), (0, 1)) == (found["3g.40gb"], found["7g.80gb"])
