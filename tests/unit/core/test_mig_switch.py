"""Which idle GPU goes into MIG mode or out of it, and when none does."""

from __future__ import annotations

import pytest

from shared.core.cluster import Cluster
from shared.core.demand import gang_of
from shared.core.mig.profiles import counted_milli
from shared.core.mig_switch import Switch, Waiting, plan_switch
from shared.core.mix import LEARNED_MIN, MODES_MILLI_MAX, ModeMix
from shared.core.model import GpuRequest, Node, Placement, Workload
from shared.core.placement import place
from tests.support.placing import cluster, node, pods, request, whole, workload

NOBODY = Waiting()


def a_slice(profile: str = "1g.10gb") -> Workload:
    return workload(pods(GpuRequest(mig_profile=profile, mig_count=1)))


def taught(*nodes: Node, whole_gpus: int, slices: int) -> Cluster:
    """A fleet that was asked for so many whole GPUs, and "1g.10gb" slices, each time."""
    fleet = cluster(*nodes)
    mix = fleet.market("a100").mix
    while not mix.modes.known:
        for _ in range(whole_gpus):
            mix.note(gang_of(workload(pods(whole(1)))), placed=True)
        for _ in range(slices):
            mix.note(gang_of(a_slice()), placed=True)
    return fleet


def halves() -> list[Node]:
    """Sixteen GPUs, eight in MIG mode."""
    return [node("whole"), node("sliced", mig=range(8))]


@pytest.mark.parametrize(
    ("asked", "mig"),
    [((1, 8), None), ((1, 24), True), ((3, 8), False), ((1, 0), False), ((0, 8), True)],
)
def test_a_gpu_moves_towards_what_is_asked_for_once_the_split_is_far_off(
    asked: tuple[int, int], mig: bool | None
) -> None:
    fleet = taught(*halves(), whole_gpus=asked[0], slices=asked[1])

    found = plan_switch(fleet, "a100", NOBODY)

    assert (found.mig if found else None) == mig


def test_nothing_moves_before_the_mix_is_known() -> None:
    assert plan_switch(cluster(*halves()), "a100", Waiting(mig=True)) is None
    assert plan_switch(Cluster(), "a100", NOBODY) is None


def test_gpus_on_which_something_runs_stay() -> None:
    fleet = taught(*halves(), whole_gpus=0, slices=1)
    assert isinstance(place(fleet, request(workload(pods(whole(8), cpu_milli=0)))), Placement)
    fleet.market("a100").mix.modes.note(MODES_MILLI_MAX // 2, mig=True)

    assert plan_switch(fleet, "a100", NOBODY) is None
    assert plan_switch(taught(*halves(), whole_gpus=0, slices=1), "a100", NOBODY) is not None

    back = taught(node("whole"), node("sliced", mig=(0, 1)), whole_gpus=1, slices=0)
    for _ in range(2):
        assert isinstance(place(back, request(a_slice("7g.80gb"))), Placement)
    assert plan_switch(back, "a100", NOBODY) is None


def test_a_basket_gives_nothing_away_for_which_somebody_waits() -> None:
    to_mig = taught(*halves(), whole_gpus=0, slices=1)
    to_whole = taught(*halves(), whole_gpus=1, slices=0)

    assert plan_switch(to_mig, "a100", Waiting(whole=True)) is None
    assert plan_switch(to_whole, "a100", Waiting(mig=True)) is None


def test_the_last_gpu_of_a_basket_stays_in_it() -> None:
    one_left = taught(node("n", gpus=4, mig=(1, 2, 3)), whole_gpus=0, slices=1)
    one_sliced = taught(node("n", gpus=4, mig=(0,)), whole_gpus=1, slices=0)

    assert plan_switch(one_left, "a100", NOBODY) is None
    assert plan_switch(one_sliced, "a100", NOBODY) is None


def test_who_waits_is_helped_inside_the_band_unless_it_waits_for_something_else() -> None:
    fleet = taught(*halves(), whole_gpus=1, slices=8)
    assert plan_switch(fleet, "a100", Waiting(mig=True)) is None, "an empty one is there"
    for _ in range(8):
        assert isinstance(place(fleet, request(a_slice("7g.80gb"))), Placement)

    assert plan_switch(fleet, "a100", Waiting(mig=True)) == Switch("whole", 0, mig=True)

    other = taught(*halves(), whole_gpus=1, slices=8)
    found = plan_switch(other, "a100", Waiting(whole=True))
    assert found == Switch("sliced", 0, mig=False)


def test_whole_nodes_are_kept_and_become_more() -> None:
    broken = node("broken", gpus=8, mig=(0, 1, 2, 3))
    fleet = taught(node("whole"), broken, whole_gpus=0, slices=1)

    assert plan_switch(fleet, "a100", NOBODY) == Switch("broken", 4, mig=True)

    nearly = node("nearly", gpus=8, mig=(7,))
    back = taught(node("sliced", mig=range(8)), nearly, whole_gpus=1, slices=0)
    assert plan_switch(back, "a100", NOBODY) == Switch("nearly", 7, mig=False)


def test_a_product_without_mig_has_no_baskets() -> None:
    fleet = taught(node("t4", product="Tesla-T4"), whole_gpus=0, slices=1)

    assert plan_switch(fleet, "a100", Waiting(mig=True)) is None


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


def test_a_profile_that_only_a_driver_knows_counts_as_the_smallest() -> None:
    assert counted_milli("9g.999gb") == counted_milli("1g.10gb") == 125
