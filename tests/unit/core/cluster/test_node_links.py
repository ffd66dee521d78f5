"""Which GPUs a pod gets inside a node, on real machines and on all small ones."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.cluster.node_links import GPUS_MAX, LinkTable, link_table, link_value, numa_masks
from shared.core.model.nouns import GpuRequest, Level, Node, Placement, Spread, TopologyRequest
from shared.core.placement.place import place
from tests.support.machines import FOLDER, Machine, from_facts, from_nccl, from_table
from tests.support.placing import cluster, node, pods, request, whole, workload

real = pytest.mark.skipif(not FOLDER.exists(), reason="the topologies are not shipped")

ALL = 0b1111_1111


def gpus(mask: int) -> set[int]:
    return {gpu for gpu in range(GPUS_MAX) if mask >> gpu & 1}


def table(machine: Machine) -> LinkTable:
    made = link_table(*machine)
    assert made is not None
    return made


def pair_value(machine: Machine, one: int, other: int) -> tuple[int, int]:
    """(value of the link, whether of one NUMA domain), worked out apart from the core."""
    one, other = sorted((one, other))
    count = len(machine.numas)
    at = list(combinations(range(count), 2)).index((one, other))
    link = machine.links[0 if len(machine.links) == 1 else at]
    value = {"I": 50, "P": 40, "H": 30, "N": 20, "S": 10}.get(link)
    if value is None:
        value = 100 * "0123456789abcdefghijklmnopqrstuvwxyz".index(link)
    return value, int(machine.numas[one] == machine.numas[other])


def subset_value(machine: Machine, subset: set[int]) -> tuple[int, int]:
    values = [pair_value(machine, *pair) for pair in combinations(sorted(subset), 2)]
    return sum(link for link, _ in values), sum(same for _, same in values)


def check_best(machine: Machine, free: int, count: int) -> None:
    chosen = gpus(table(machine).best(free, count))
    best = max(
        subset_value(machine, set(subset)) for subset in combinations(sorted(gpus(free)), count)
    )

    assert len(chosen) == count
    assert chosen <= gpus(free)
    assert subset_value(machine, chosen) == best


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    count = draw(st.integers(1, 6))
    pairs = count * (count - 1) // 2
    links = draw(st.text("IPHNS124c", min_size=pairs, max_size=pairs))
    return Machine(links, tuple(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))))


@given(machines(), st.integers(1, 63), st.integers(1, 6))
def test_no_subset_has_better_links_than_the_chosen(machine: Machine, free: int, count: int):
    free &= (1 << len(machine.numas)) - 1

    if free.bit_count() >= count:
        check_best(machine, free, count)
    else:
        assert table(machine).best(free, count) == 0


REAL = {
    "topo_m_dgx1_v100.tsv": from_table,
    "topo_m_v100_pairs_nv1nv2_variant.tsv": from_table,
    "topo_m_pcie_titanv.tsv": from_table,
    "topo_m_a100_p4d.txt": from_facts,
    "topo_m_dgx_a100.txt": from_facts,
    "topo_m_hgx_h200_12nic.txt": from_facts,
    "topo_m_hgx_8gpu_pix.txt": from_facts,
    "aws_p4d-24xl-topo.xml": from_nccl,
    "azure_ndv2-topo.xml": from_nccl,
    "azure_ndv4-topo.xml": from_nccl,
    "azure_ndv5-topo.xml": from_nccl,
    "azure_ncv4-topo.xml": from_nccl,
}


@real
@pytest.mark.parametrize("name", REAL)
def test_every_real_machine_gives_its_best_subset_out_of_any_free_ones(name: str) -> None:
    machine = REAL[name](name)
    draw = Random(1)
    assert len(machine.numas) == (4 if "ncv4" in name else 8)
    for _ in range(60):
        free = draw.randrange(1, 1 << len(machine.numas))
        check_best(machine, free, draw.randint(1, free.bit_count()))


@real
def test_a_dgx1_gives_doubly_linked_pairs_and_keeps_its_quads() -> None:
    dgx1 = from_table("topo_m_dgx1_v100.tsv")
    made = table(dgx1)

    pair = gpus(made.best(ALL, 2))
    assert pair_value(dgx1, *pair) == (200, 1)
    assert gpus(made.best(ALL, 4)) == {0, 1, 2, 3}
    one = made.best(ALL, 1)
    assert gpus(made.best(ALL & ~one, 4)) in ({0, 1, 2, 3}, {4, 5, 6, 7})
    second = made.best(ALL & ~one, 1)
    assert {dgx1.numas[gpu] for gpu in gpus(one | second)} == {dgx1.numas[min(gpus(one))]}


@real
def test_a_pcie_machine_keeps_its_switches_whole() -> None:
    made = table(from_table("topo_m_pcie_titanv.tsv"))

    assert gpus(made.best(ALL, 2)) == {0, 1}
    assert gpus(made.best(ALL & ~0b1, 1)) == {1}
    assert gpus(made.best(ALL & ~0b1, 2)) == {2, 3}
    assert gpus(made.best(ALL & ~0b11, 4)) == {4, 5, 6, 7}


@real
@pytest.mark.parametrize("name", ["topo_m_a100_p4d.txt", "topo_m_hgx_h200_12nic.txt"])
def test_behind_nvswitch_only_the_numa_domain_matters(name: str) -> None:
    made = table(from_facts(name))

    assert gpus(made.best(ALL, 4)) == {0, 1, 2, 3}
    assert gpus(made.best(ALL & ~0b1, 4)) == {4, 5, 6, 7}
    assert gpus(made.best(ALL & ~0b1, 2)) == {1, 2}


@real
def test_a_dgx_a100_has_four_numa_domains_of_two() -> None:
    machine = from_facts("topo_m_dgx_a100.txt")

    assert [gpus(mask) for mask in numa_masks(machine.numas)] == [{2, 3}, {0, 1}, {6, 7}, {4, 5}]
    assert table(machine).best(ALL, 4, aligned=True) == 0
    assert gpus(table(machine).best(ALL & ~0b1, 2, aligned=True)) == {2, 3}


@real
def test_a_host_without_numa_is_one_domain() -> None:
    machine = from_facts("topo_m_hgx_8gpu_pix.txt")

    assert numa_masks(machine.numas) == (ALL,)
    assert table(machine).best(ALL, 8, aligned=True) == ALL


def test_links_that_cannot_be_read_count_as_unknown() -> None:
    numas = (0, 0, 1, 1)

    for links in ("", "II", "IIIII?", "III0II"):
        assert gpus(table(Machine(links, numas)).best(0b1110, 2)) == {2, 3}
    assert link_value("?") is None


def test_sixteen_gpus_have_a_table_and_more_have_none() -> None:
    sixteen = tuple(gpu // 8 for gpu in range(16))

    assert gpus(table(Machine("6", sixteen)).best(0xFFFE, 8)) == set(range(8, 16))
    assert link_table("6", (*sixteen, 2)) is None


# ── through placement ──


def placed(*nodes: Node, asked: GpuRequest, count: int = 1) -> Placement | None:
    answer = place(cluster(*nodes), request(aligned(pods(asked, count))))
    return answer if isinstance(answer, Placement) else None


def aligned(*sets):
    return workload(*sets, topology=TopologyRequest(numa_aligned=True))


def test_a_pod_gets_the_pair_that_is_linked() -> None:
    fleet = cluster(node("n", gpus=4, links="SS2S1S"))

    answer = place(fleet, request(workload(pods(whole(2)))))

    assert isinstance(answer, Placement)
    assert [share.index for share in answer.pods[0].shares] == [0, 3]


def test_seventeen_gpus_are_still_placed_by_numa_domain() -> None:
    large = node("n", gpus=18, gpus_per_numa=9)

    answer = placed(large, asked=whole(9))

    assert answer is not None
    assert {share.index // 9 for share in answer.pods[0].shares} == {0}
    assert placed(large, asked=whole(10)) is None
    assert isinstance(place(cluster(large), request(workload(pods(whole(12))))), Placement)


@given(st.integers(0, 10**6))
def test_aligned_pods_are_placed_exactly_when_numa_domains_hold_them(seed: int) -> None:
    draw = Random(seed)
    per_numa = draw.choice((1, 2, 3, 4))
    nodes = [
        node(f"n{number}", gpus=draw.randint(1, 8), gpus_per_numa=per_numa, rack="r")
        for number in range(3)
    ]
    fleet = cluster(*nodes)
    for _ in range(draw.randint(0, 4)):
        place(fleet, request(workload(pods(whole(draw.choice((1, 2, 3)))))))
    size, count = draw.choice((2, 3, 4)), draw.randint(1, 4)
    room = 0
    for state in fleet.nodes.values():
        free = [gpu for gpu in state.uses if state.free_mask >> gpu & 1]
        domains = [gpu // per_numa for gpu in free]
        room += sum(domains.count(each) // size for each in set(domains))
    level = draw.choice((None, Level.RACK))
    asked = workload(
        pods(whole(size), count), topology=TopologyRequest(required=level, numa_aligned=True)
    )

    answer = place(fleet, request(asked))

    assert isinstance(answer, Placement) == (room >= count), answer
    if isinstance(answer, Placement):
        for pod in answer.pods:
            assert len({share.index // per_numa for share in pod.shares}) == 1
    else:
        assert answer.message


def test_a_refusal_for_numa_names_the_best_domain() -> None:
    fleet = cluster(node("n1", gpus=4, gpus_per_numa=2), node("n2", gpus=2))

    answer = place(fleet, request(aligned(pods(whole(3)))))

    assert not isinstance(answer, Placement)
    assert answer.message == (
        "One node must have 3 free GPUs in one NUMA domain; 1 node of 2 has 3 GPUs free, "
        "but the best of them, n1, has 2 in one NUMA domain."
    )


def test_a_gang_that_does_not_fit_aligned_is_told_how_many_pods_do() -> None:
    fleet = cluster(node("n1"), node("n2"))

    answer = place(fleet, request(aligned(pods(whole(3), 5))))

    assert not isinstance(answer, Placement)
    assert answer.evidence["pods_fit"] == 4


def test_aligned_replicas_lie_on_different_nodes_where_they_must() -> None:
    asked = workload(
        pods(whole(2), 3),
        topology=TopologyRequest(numa_aligned=True),
        spread=Spread.REQUIRED,
    )
    fleet = cluster(*(node(f"n{number}") for number in range(3)))

    answer = place(fleet, request(asked))

    assert isinstance(answer, Placement)
    assert len({pod.node for pod in answer.pods}) == 3
    assert not isinstance(place(cluster(node("a"), node("b")), request(asked)), Placement)
