"""Which idle GPU goes into MIG mode or out of it, and when none does."""

from __future__ import annotations

import pytest

from shared.core.model.demand import gang_of
from shared.core.model.mig.profiles import counted_milli
from shared.core.model.nouns import GpuRequest, Node, Placement, PodSet, Workload
from shared.core.nodes.mig_switch import Switch, Waiting, mig_gpus_for, plan_switch
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.mix import LEARNED_MIN, MODES_MILLI_MAX, ModeMix
from tests.support.placing import cluster, node, pods, request, whole, workload

NOBODY = Waiting()


def a_slice(profile: str = "1g.10gb") -> Workload:
    return workload(pods(GpuRequest(mig_profile=profile, mig_count=1)))


def taught(*nodes: Node, whole_gpus: int, slices: int) -> Cluster:
    """A fleet that was asked for so many whole GPUs, and "1g.10gb" slices, each time."""
    fleet = cluster(*nodes)
    mix = fleet.packing("a100").mix
    while not mix.modes.known:
        for _ in range(whole_gpus):
            mix.note(gang_of(workload(pods(whole(1)))), placed=True)
        for _ in range(slices):
            mix.note(gang_of(a_slice()), placed=True)
    return fleet


def halves() -> list[Node]:
    """Sixteen GPUs, eight in MIG mode."""
    return [node("whole"), node("sliced", mig=range(8))]


def filled(fleet: Cluster, *, whole_gpus: int = 0, sliced_gpus: int = 0) -> Cluster:
    """The same fleet with so many GPUs of each mode held, which nobody learns from."""
    mix = fleet.packing("a100").mix
    modes, mix.modes = mix.modes, ModeMix()
    for _ in range(whole_gpus):
        assert isinstance(place(fleet, request(workload(pods(whole(1), cpu_milli=0)))), Placement)
    for _ in range(sliced_gpus):
        assert isinstance(place(fleet, request(a_slice("7g.80gb"))), Placement)
    mix.modes = modes
    return fleet


@pytest.mark.parametrize(
    ("asked", "mig"),
    [((1, 8), None), ((1, 24), True), ((0, 8), True)],
)
def test_a_basket_without_idle_gpus_grows_towards_what_is_asked_for(
    asked: tuple[int, int], mig: bool | None
) -> None:
    fleet = taught(*halves(), whole_gpus=asked[0], slices=asked[1])

    found = plan_switch(filled(fleet, sliced_gpus=8), "a100", NOBODY)

    assert (found.mig if found else None) == mig


@pytest.mark.parametrize(("asked", "mig"), [((1, 8), None), ((3, 8), False), ((1, 0), False)])
def test_and_so_does_that_of_whole_gpus(asked: tuple[int, int], mig: bool | None) -> None:
    fleet = taught(*halves(), whole_gpus=asked[0], slices=asked[1])

    found = plan_switch(filled(fleet, whole_gpus=8), "a100", NOBODY)

    assert (found.mig if found else None) == mig


def test_while_nobody_waits_a_basket_that_has_enough_idle_does_not_grow() -> None:
    assert plan_switch(taught(*halves(), whole_gpus=0, slices=1), "a100", NOBODY) is None
    assert plan_switch(taught(*halves(), whole_gpus=1, slices=0), "a100", NOBODY) is None


def test_nobody_is_helped_ahead_before_the_mix_is_known() -> None:
    assert plan_switch(cluster(*halves()), "a100", NOBODY) is None
    assert plan_switch(Cluster(), "a100", NOBODY) is None


def test_who_waits_is_helped_before_the_mix_is_known() -> None:
    found = plan_switch(cluster(node("n")), "a100", Waiting(mig_gpus=1))
    assert found == Switch("n", 0, mig=True)

    found = plan_switch(cluster(node("n", mig=range(8))), "a100", Waiting(whole=True))
    assert found == Switch("n", 0, mig=False)


def test_gpus_on_which_something_runs_stay() -> None:
    fleet = taught(*halves(), whole_gpus=0, slices=1)
    assert plan_switch(fleet, "a100", Waiting(mig_gpus=9)) is not None
    filled(fleet, whole_gpus=8)
    assert plan_switch(fleet, "a100", Waiting(mig_gpus=9)) is None

    back = taught(node("whole"), node("sliced", mig=(0, 1)), whole_gpus=1, slices=0)
    assert plan_switch(back, "a100", Waiting(whole=True)) is not None
    filled(back, sliced_gpus=2)
    assert plan_switch(back, "a100", Waiting(whole=True)) is None


@pytest.mark.parametrize(
    ("asked", "mig"), [((1, 24), True), ((1, 8), None), ((3, 8), False)], ids=str
)
def test_where_work_waits_for_both_the_split_moves_towards_what_is_asked_for(
    asked: tuple[int, int], mig: bool | None
) -> None:
    fleet = taught(*halves(), whole_gpus=asked[0], slices=asked[1])

    found = plan_switch(fleet, "a100", Waiting(whole=True, mig_gpus=9))

    assert (found.mig if found else None) == mig


def test_where_work_waits_for_both_nothing_moves_before_the_mix_is_known() -> None:
    assert plan_switch(cluster(*halves()), "a100", Waiting(whole=True, mig_gpus=9)) is None


def test_a_basket_gives_away_what_nobody_waits_for_whatever_was_asked_before() -> None:
    only_slices = taught(*halves(), whole_gpus=0, slices=1)
    only_whole = taught(*halves(), whole_gpus=1, slices=0)

    assert plan_switch(only_slices, "a100", Waiting(whole=True)) == Switch("sliced", 0, mig=False)
    assert plan_switch(only_whole, "a100", Waiting(mig_gpus=9)) == Switch("whole", 0, mig=True)


def wide() -> list[Node]:
    """Thirty-two GPUs, sixteen in MIG mode."""
    nodes = [node(f"whole-{n}") for n in range(2)]
    return nodes + [node(f"sliced-{n}", mig=range(8)) for n in range(2)]


def test_but_beyond_what_is_asked_for_it_keeps_a_tenth_idle() -> None:
    only_slices = taught(*wide(), whole_gpus=0, slices=1)
    assert plan_switch(filled(only_slices, sliced_gpus=14), "a100", Waiting(whole=True))
    assert not plan_switch(filled(only_slices, sliced_gpus=1), "a100", Waiting(whole=True))

    only_whole = taught(*wide(), whole_gpus=1, slices=0)
    assert plan_switch(filled(only_whole, whole_gpus=14), "a100", Waiting(mig_gpus=17))
    assert not plan_switch(filled(only_whole, whole_gpus=1), "a100", Waiting(mig_gpus=17))


def test_inside_the_band_who_waits_gets_the_last_idle_one() -> None:
    fleet = taught(*wide(), whole_gpus=1, slices=8)
    assert plan_switch(filled(fleet, sliced_gpus=15), "a100", Waiting(whole=True)) is not None

    other = taught(*wide(), whole_gpus=1, slices=8)
    assert plan_switch(filled(other, whole_gpus=15), "a100", Waiting(mig_gpus=17)) is not None


def test_what_is_idle_for_those_who_wait_for_mig_is_not_taken() -> None:
    fleet = taught(*halves(), whole_gpus=3, slices=8)

    assert plan_switch(fleet, "a100", Waiting(whole=True, mig_gpus=8)) is None
    assert plan_switch(filled(fleet, whole_gpus=8), "a100", Waiting(mig_gpus=8)) is None
    assert plan_switch(fleet, "a100", Waiting(whole=True, mig_gpus=7)) is not None


def test_nodes_that_are_kept_for_somebody_stay_as_they_are() -> None:
    fleet = taught(*halves(), whole_gpus=1, slices=8)

    assert plan_switch(fleet, "a100", Waiting(mig_gpus=9), {"whole"}) is None
    assert plan_switch(fleet, "a100", Waiting(whole=True), {"sliced"}) is None
    assert plan_switch(fleet, "a100", Waiting(mig_gpus=9), {"sliced"}) is not None


def test_how_many_gpus_a_gang_of_instances_takes() -> None:
    fleet = cluster(*halves())

    def asks(profile: str, count: int, instances: int = 1, least: int | None = None) -> PodSet:
        gpu = GpuRequest(mig_profile=profile, mig_count=instances)
        return PodSet(name=profile, count=count, gpu=gpu, min_count=least)

    assert mig_gpus_for(fleet, "a100", [asks("1g.10gb", 15)]) == 3
    assert mig_gpus_for(fleet, "a100", [asks("1g.10gb", 15, least=7)]) == 1
    assert mig_gpus_for(fleet, "a100", [asks("3g.40gb", 3), asks("7g.80gb", 2)]) == 4
    assert mig_gpus_for(fleet, "a100", [asks("3g.40gb", 3, 2)]) == 3
    assert mig_gpus_for(fleet, "a100", [PodSet(gpu=whole(8))]) == 0
    assert mig_gpus_for(fleet, "a100", [asks("1g.5gb", 3)]) == 0
    assert mig_gpus_for(fleet, "h100", [asks("1g.10gb", 3)]) == 0

    small = node("small", product="NVIDIA-A100-SXM4-40GB", gpu_memory_mib=40_960)
    assert mig_gpus_for(cluster(*halves(), small), "a100", [asks("1g.10gb", 7)]) == 2


def test_whole_nodes_are_kept_and_become_more() -> None:
    broken = node("broken", gpus=8, mig=(0, 1, 2, 3))
    fleet = taught(node("whole"), broken, whole_gpus=0, slices=1)

    assert plan_switch(fleet, "a100", Waiting(mig_gpus=5)) == Switch("broken", 4, mig=True)

    nearly = node("nearly", gpus=8, mig=(7,))
    back = taught(node("sliced", mig=range(8)), nearly, whole_gpus=1, slices=0)
    assert plan_switch(back, "a100", Waiting(whole=True)) == Switch("nearly", 7, mig=False)


def test_a_product_without_mig_has_no_baskets() -> None:
    fleet = taught(node("t4", product="Tesla-T4"), whole_gpus=0, slices=1)

    assert plan_switch(fleet, "a100", Waiting(mig_gpus=1)) is None


def test_what_was_asked_long_ago_fades_in_both_modes_alike() -> None:
    mix = ModeMix()
    for _ in range(LEARNED_MIN):
        mix.note(MODES_MILLI_MAX // LEARNED_MIN // 2, mig=True)
    assert mix.mig_share_of(8) == 8
    for _ in range(LEARNED_MIN):
        mix.note(MODES_MILLI_MAX // LEARNED_MIN // 2, mig=False)
    before = mix.mig_share_of(100)
    for _ in range(LEARNED_MIN):
        mix.note(MODES_MILLI_MAX // LEARNED_MIN // 2, mig=False)

    assert (before, mix.mig_share_of(100)) == (50, 25)


@pytest.mark.parametrize(
    ("profile", "milli"),
    [("1g.16gb", 125), ("3g.64gb+gfx", 375), ("8g.128gb", 1000), ("1g.10gb", 125), ("large", 125)],
)
def test_a_profile_that_only_a_driver_knows_counts_a_slice_for_each_of_compute(
    profile: str, milli: int
) -> None:
    assert counted_milli(profile) == milli
