"""What NVML reports about MIG rules over the tables of products, which only know the names."""

from __future__ import annotations

import msgspec
import pytest

from shared.core.admission.fleet_shape import summary_of
from shared.core.cluster.inventory import IMAGES_MAX, problem_of
from shared.core.model.mig.reported import board_slices, reported_by, table_of
from shared.core.model.nouns import GpuRequest, MigInstance, MigPlacements, Node, Placement
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.events.nodes import NodeInventoryReported
from tests.support.placing import cluster, node, pods, request, workload

H100, H100_MIB = "NVIDIA-H100-80GB-HBM3", 81_559
EIGHT = (
    MigPlacements(profile="1g.10gb", compute=1, size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
    MigPlacements(profile="1g.10gb+me", compute=1, size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
    MigPlacements(profile="3g.39gb", compute=3, size=4, starts=(0, 4)),
    MigPlacements(profile="7g.79gb", compute=7, size=8, starts=(0,)),
)
FOUR = (
    MigPlacements(profile="1g.6gb", compute=1, size=1, starts=(0, 1, 2, 3)),
    MigPlacements(profile="4g.24gb", compute=4, size=4, starts=(0,)),
)


def board(placements: tuple[MigPlacements, ...], name: str = "n1", product: str = H100) -> Node:
    bare = node(name, gpus=1, mig=(0,), product=product, gpu_memory_mib=H100_MIB)
    gpus = tuple(replace(gpu, mig_placements=placements) for gpu in bare.gpus)
    return replace(bare, gpus=gpus)


def test_reported_starts_rule_and_the_products_spellings_still_name_them() -> None:
    table = table_of(H100, H100_MIB, reported_by(board(EIGHT)))

    assert table is not None
    assert table.profiles["3g.40gb"] is table.profiles["3g.39gb"]
    assert table.profiles["1g.10gb+me"].media
    assert table.room(0, "1g.10gb") == 7
    assert "2g.20gb" not in table.profiles, "the driver does not offer it"


def test_a_board_of_four_slices_counts_each_twice() -> None:
    reported = reported_by(board(FOUR))
    table = table_of("NVIDIA-A30", 24_576, reported)

    assert table is not None
    assert board_slices(reported) == 4
    assert (table.profiles["1g.6gb"].size, table.profiles["1g.6gb"].starts) == (2, (0, 2, 4, 6))
    assert table.profiles["4g.24gb"].mask(0) == 255


def test_a_product_without_a_table_has_mig_when_its_driver_says_so() -> None:
    unknown = board(FOUR, product="NVIDIA-X900")
    asked = workload(pods(GpuRequest(mig_profile="1g.6gb", mig_count=1)))

    answer = place(cluster(unknown), request(asked))

    assert isinstance(answer, Placement)
    assert answer.pods[0].shares[0].mask.bit_count() == 2
    assert table_of("NVIDIA-X900", H100_MIB) is None


def test_only_reported_starts_are_used() -> None:
    at_four = (replace(EIGHT[2], starts=(4,)), EIGHT[3])
    asked = workload(pods(GpuRequest(mig_profile="3g.40gb", mig_count=1)))
    fleet = cluster(board(at_four))

    answer = place(fleet, request(asked))

    assert isinstance(answer, Placement)
    assert answer.pods[0].shares[0].mask == 0b1111_0000
    assert not isinstance(place(fleet, request(asked)), Placement)


def test_boards_that_differ_in_what_they_offer_are_of_different_kinds() -> None:
    fleet = cluster(board(EIGHT), board(EIGHT[:3], "n2"), board((), "n3"))

    assert len(fleet.node_classes) == 3
    assert summary_of(board(EIGHT)).shape != summary_of(board(())).shape


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ((EIGHT[0], EIGHT[0]), "named twice"),
        ((replace(EIGHT[0], starts=()),), "starts"),
        ((replace(EIGHT[0], size=0),), "size"),
        ((replace(EIGHT[0], starts=(0, 0)),), "distinct"),
        ((replace(EIGHT[0], starts=(-1, 7)),), ">= 0"),
        (EIGHT[:1], "reach 7 memory slices"),
    ],
)
def test_placements_that_no_board_has_are_refused(
    wrong: tuple[MigPlacements, ...], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        NodeInventoryReported(node=board(wrong), generation=1)


@pytest.mark.parametrize(
    ("instances", "rule"),
    [
        ([(0, 4), (2, 2)], "overlaps"),
        ([(6, 4)], "outside"),
        ([(-1, 1)], "outside"),
        ([(0, 0)], "outside"),
        ([(0, 4), (4, 4)], ""),
    ],
)
def test_instances_lie_on_the_board_and_apart(instances: list[tuple[int, int]], rule: str) -> None:
    found = tuple(MigInstance(profile="x", start=start, size=size) for start, size in instances)
    bare = board(EIGHT)
    told = replace(bare, gpus=(replace(bare.gpus[0], mig_instances=found),))

    assert rule in problem_of(told)
    assert bool(rule) == bool(problem_of(told))


def test_a_node_names_its_gpus_once_and_its_images_within_bounds() -> None:
    plain = node("n1")

    assert problem_of(replace(plain, images=("a",) * IMAGES_MAX)) == ""
    assert "images" in problem_of(replace(plain, images=("a",) * (IMAGES_MAX + 1)))
    assert "characters" in problem_of(replace(plain, images=("",)))
    assert "twice" in problem_of(replace(plain, gpus=(plain.gpus[0], plain.gpus[0])))
    assert "negative" in problem_of(replace(plain, gpus=(replace(plain.gpus[0], index=-1),)))


def test_a_report_that_cannot_be_is_malformed_where_it_is_read() -> None:
    text = msgspec.json.encode({"node": board(EIGHT[:1]), "generation": 1})

    with pytest.raises(msgspec.ValidationError, match="memory slices"):
        msgspec.json.decode(text, type=NodeInventoryReported)
