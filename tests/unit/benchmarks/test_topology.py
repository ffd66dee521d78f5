"""The baselines on a fabric do what they say, and small work of the core spares its leaves."""

from __future__ import annotations

import pytest

from tests.benchmarks.baselines.fabric import Arrays, any_whole, best_fit, hierarchical
from tests.benchmarks.baselines.muster_fabric import MusterFabric
from tests.benchmarks.clos import GPUS, Host, Job, LeavesNeeded, arrivals, spread
from tests.benchmarks.topology import DAY, Tally, run

FABRIC = [
    Host(name=f"{pod}-{leaf}-{number}", leaf=f"{pod}-{leaf}", pod=pod)
    for pod, leaves in (("p1", (4, 4, 2)), ("p2", (4, 3)))
    for leaf, size in enumerate(leaves)
    for number in range(size)
]
SMALL = [(1, 3600.0), (2, 7200.0), (8, 9000.0)]
GANGS = [(2, 9000.0), (4, 9000.0), (6, 20_000.0)]


def gang(hosts: int) -> Job:
    return Job(arrives=0, seconds=1, gpus=GPUS, hosts=hosts)


@pytest.mark.parametrize(("hosts", "leaves"), [(1, 1), (4, 1), (5, 2), (7, 2), (8, 2), (10, 3)])
def test_the_minimum_is_that_of_an_empty_pod(hosts: int, leaves: int) -> None:
    assert LeavesNeeded(FABRIC)(hosts) == leaves


def test_the_minimum_of_what_no_pod_holds_is_over_the_whole_fabric() -> None:
    assert LeavesNeeded(FABRIC)(15) == 4


def test_spread_follows_the_ranks() -> None:
    assert spread(["a", "a", "b", "b"], 2) == (1, 2)
    assert spread(["a", "b", "a", "b"], 2) == (2, 1)


def test_the_hierarchical_baseline_takes_the_tightest_leaf_then_the_tightest_pod() -> None:
    placer = Arrays(FABRIC, 1, best_fit, hierarchical)

    assert {FABRIC[at].leaf for at in placer.place(gang(3)) or ()} == {"p2-1"}
    assert {FABRIC[at].pod for at in placer.place(gang(7)) or ()} == {"p1"}
    assert len(placer.place(gang(7)) or ()) == 7
    assert placer.place(gang(1)) is None


def test_a_released_host_is_given_again() -> None:
    placer = Arrays(FABRIC, 1, best_fit, any_whole)
    held = placer.place(gang(17))
    assert held is not None
    assert placer.place(gang(2)) is None

    placer.release(gang(17), held)

    assert placer.place(gang(2)) is not None


def test_offered_load_is_half_small_work_and_half_gangs() -> None:
    jobs = arrivals(SMALL, GANGS, 100.0, 60 * DAY, 7)

    for gangs in (False, True):
        work = sum(job.all_gpus * job.seconds for job in jobs if (job.hosts > 1) is gangs)
        assert 40 < work / (60 * DAY) < 60


def test_the_core_needs_fewer_leaves_than_blind_small_work_leaves_to_gangs() -> None:
    spans = {}
    for name, placer in (
        ("muster", MusterFabric(FABRIC, 3)),
        ("hierarchical", Arrays(FABRIC, 3, best_fit, hierarchical)),
        ("blind", Arrays(FABRIC, 3, best_fit, any_whole)),
    ):
        tally = Tally(FABRIC, LeavesNeeded(FABRIC))
        run(placer, arrivals(SMALL, GANGS, 95.0, 20 * DAY, 3), tally, DAY)
        spans[name] = tally.figures()["leaf_span_over_minimum"]

    assert spans["muster"] < spans["hierarchical"] < spans["blind"]
