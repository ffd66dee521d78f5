"""Single pods are put where gangs miss least, and the order keeps up with what changes."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.cluster.topology import WHOLE_MAX, size_step
from shared.core.model.nouns import WHOLE_MASK, GpuShare, Node, Placement, PodPlacement, Workload
from shared.core.model.value import replace
from shared.core.placement.place import learn, place
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.policies.fabric_order import (
    BLOCK_BITS,
    FREE_MAX,
    REMNANT_NODES,
    broken_key,
    fabric_order,
    whole_key,
)
from tests.support.placing import cluster, node, pods, request, whole, workload


def job(gpus: int) -> Workload:
    return workload(pods(whole(gpus)))


def learned(*nodes: Node) -> Cluster:
    """A fleet that knows a mix of one and of eight GPUs."""
    fleet = cluster(*nodes)
    for _ in range(64):
        learn(fleet, job(1), "a100")
        learn(fleet, job(8), "a100")
    return fleet


def put(fleet: Cluster, gpus: int) -> Placement:
    answer = place(fleet, request(job(gpus)))
    assert isinstance(answer, Placement), answer
    return answer


def where(fleet: Cluster, gpus: int) -> str:
    return put(fleet, gpus).pods[0].node


def hold(fleet: Cluster, name: str, gpus: int) -> None:
    """Charge the first `gpus` GPUs of a node."""
    shares = tuple(
        GpuShare(index=index, mask=WHOLE_MASK, milli=1000, memory_mib=1) for index in range(gpus)
    )
    pod = PodPlacement(pod_set="main", rank=0, node=name, shares=shares)
    fleet.charge("red", [pod], job(gpus).spec.pod_sets)


def rack(name: str, size: int, block: str = "b", nvlink_domain: str = "") -> list[Node]:
    return [
        node(
            f"{block}-{name}-{number}",
            rack=name,
            block=block,
            zone="z",
            nvlink_domain=nvlink_domain,
        )
        for number in range(size)
    ]


def test_single_pods_fill_one_rack_before_they_break_another() -> None:
    fleet = learned(*rack("r1", 4), *rack("r2", 4), *rack("r3", 4))
    first = where(fleet, 8)

    filled = [where(fleet, 8) for _ in range(3)]

    assert {name.split("-")[1] for name in filled} == {first.split("-")[1]}


def test_a_broken_node_goes_before_a_whole_one_in_a_fuller_rack() -> None:
    fleet = learned(*rack("r1", 1), *rack("r2", 3))
    hold(fleet, "b-r2-1", 2)

    assert where(fleet, 6) == "b-r2-1"
    assert where(fleet, 8) == "b-r1-0"


def test_an_nvlink_domain_survives_while_another_in_its_rack_is_broken() -> None:
    nodes = [
        node(f"{domain}-{number}", rack="r", nvlink_domain=domain)
        for domain in ("v1", "v2", "v3")
        for number in range(3)
    ]
    fleet = learned(*nodes)

    assert len({where(fleet, 8)[:2] for _ in range(3)}) == 1
    assert len({where(fleet, 8)[:2] for _ in range(3)}) == 1


def test_broken_nodes_of_the_smaller_block_go_first() -> None:
    fleet = learned(*rack("r", 2, "small"), *rack("r", 9, "large"))
    for name in ("large-r-0", "small-r-1", "large-r-5"):
        hold(fleet, name, 1)

    orders = sorted(
        (fabric_order(each), each.name) for each in fleet.nodes.values() if 0 < each.free_count < 8
    )

    assert orders[0][1].startswith("small")


def test_the_rest_of_a_rack_goes_before_a_whole_rack_of_a_smaller_block() -> None:
    fleet = learned(*rack("r", 4, "small"), *rack("r", 8, "large"))
    for number in range(6):
        hold(fleet, f"large-r-{number}", 8)

    assert [where(fleet, 8)[:5] for _ in range(3)] == ["large", "large", "small"]


def test_whole_racks_go_block_by_block_and_those_nearly_whole_with_them() -> None:
    small = [*rack("r1", 8, "small"), *rack("r2", 8, "small")]
    fleet = learned(*small, *(each for name in "abc" for each in rack(name, 8, "large")))
    for number in range(7 - REMNANT_NODES):
        hold(fleet, f"large-a-{number}", 8)

    assert {where(fleet, 8)[:5] for _ in small} == {"small"}


def test_of_broken_nodes_in_a_block_the_fullest_goes_first() -> None:
    fleet = learned(*rack("r1", 2), *rack("r2", 6))
    hold(fleet, "b-r1-0", 2)
    hold(fleet, "b-r2-0", 3)
    hold(fleet, "b-r2-1", 1)

    broken = [each for each in fleet.nodes.values() if 0 < each.free_count < 8]

    assert [each.free_count for each in sorted(broken, key=fabric_order)] == [5, 6, 7]


def test_keys_keep_their_order_and_fit_31_bits() -> None:
    block = (1 << BLOCK_BITS) - 1

    last_broken = broken_key(block, WHOLE_MAX, WHOLE_MAX, FREE_MAX)
    last_of_remnants = whole_key(block, REMNANT_NODES, WHOLE_MAX)
    last = whole_key(block, WHOLE_MAX, WHOLE_MAX)

    assert last_broken < whole_key(0, 0, 0)
    assert last_of_remnants < whole_key(0, REMNANT_NODES + 1, 0)
    assert last < 1 << 31


def test_sizes_rise_in_quarters_of_powers_of_two() -> None:
    steps = [size_step(size) for size in range(1 << 10)]

    assert steps == sorted(steps)
    assert len({size_step(size) for size in range(256, 512)}) == 4
    assert size_step((1 << 31) - 1) < 1 << 7


def test_nodes_outside_the_fabric_come_in_order_of_rank() -> None:
    fleet = learned(*(node(f"n{number}") for number in range(6)), *rack("r", 3))

    found = [where(fleet, 8) for _ in range(6)]

    by_rank = sorted(fleet.nodes.values(), key=lambda each: (each.domain is not None, each.rank))
    assert found == [each.name for each in by_rank[:6]]


@given(st.integers(0, 10**6))
def test_counts_and_order_are_those_of_a_fleet_that_is_counted_anew(seed: int) -> None:
    draw = Random(seed)
    fleet = learned(*rack("r1", 3), *rack("r2", 2), *rack("r1", 3, "c", nvlink_domain="v"))
    held: list[tuple[Workload, Placement]] = []
    for _ in range(30):
        change(fleet, draw, held)
    packing = fleet.packing("a100")
    packing.follow()

    for domain in fleet.fabric.domains.values():
        members = list(domain.nodes())
        assert len(members) == domain.size
        assert sum(each.schedulable and each.free_count == 8 for each in members) == domain.whole
    for each, places in packing.index.places.items():
        assert {member[0] for _, _, member in places.values()} <= {fabric_order(each)}


def change(fleet: Cluster, draw: Random, held: list[tuple[Workload, Placement]]) -> None:
    """Place, release, move, cordon or lose a node."""
    name = draw.choice(sorted(fleet.nodes) or ["new"])
    known = fleet.node(name)
    pick = draw.random()
    if pick < 0.5:
        asked = job(draw.choice((1, 4, 8)))
        answer = place(fleet, request(asked))
        if isinstance(answer, Placement):
            held.append((asked, answer))
    elif pick < 0.7 and held:
        asked, placement = held.pop(draw.randrange(len(held)))
        fleet.release("red", placement.pods, asked.spec.pod_sets)
    elif pick < 0.8:
        fleet.put_node(replace(known or node(name), rack=draw.choice(("r1", "r3", ""))))
    elif pick < 0.9:
        fleet.put_node(replace(known or node(name), cordoned=draw.random() < 0.5))
    else:
        fleet.remove_node(name)
