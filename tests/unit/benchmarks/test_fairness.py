"""The ideal that fairness is measured against, and a small world that runs to its end."""

from tests.benchmarks.fairness import figures
from tests.benchmarks.fairness_measure import (
    Measure,
    ideal_surplus,
    jain,
    parts_of,
    placeable,
    pour,
)
from tests.benchmarks.fairness_policies import POLICIES
from tests.benchmarks.fairness_run import EPOCH_MS, Run
from tests.benchmarks.fairness_world import FLAVOR, Job, Team, World, dealt_out


def a_world(jobs=(), weights=(1, 3), nodes=2):
    teams = [
        Team(name=name, department=department, nominal=4, weight=weight)
        for name, department, weight in zip("ab", ("x", "y"), weights, strict=True)
    ]
    departments = dict(zip("xy", weights, strict=True))
    return World(nodes=nodes, departments=departments, teams=teams, jobs=jobs)


def test_what_is_poured_goes_by_weight_and_nobody_gets_more_than_he_wants():
    assert pour(12.0, {"a": 99, "b": 99}, {"a": 1, "b": 3}) == {"a": 3.0, "b": 9.0}
    assert pour(12.0, {"a": 99, "b": 2}, {"a": 1, "b": 3}) == {"a": 10.0, "b": 2.0}
    assert pour(12.0, {"a": 1, "b": 2}, {"a": 1, "b": 3}) == {"a": 1.0, "b": 2.0}


def test_the_ideal_lends_only_what_is_idle():
    assert ideal_surplus(a_world(), {"a": 99, "b": 99}) == {"a": 2.0, "b": 6.0}
    assert ideal_surplus(a_world(), {"a": 99, "b": 0}) == {"a": 12.0, "b": 0.0}


def test_jains_index_is_of_what_each_got_of_its_ideal():
    assert jain([1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5
    assert parts_of({"a": 3.0, "b": 1.0, "c": 0.0}, {"a": 6.0, "b": 2.0, "c": 0.05}) == {
        "a": 0.5,
        "b": 0.5,
    }


def test_nominal_quota_is_the_whole_cluster():
    assert dealt_out(10, [1, 1, 1]) == [4, 3, 3]
    assert sum(dealt_out(280, [3.5, 7.1, 0.2])) == 280


def test_owed_work_is_placeable_where_what_others_have_above_their_own_would_leave_room():
    """Team a holds seven of eight GPUs and owns four: three may be asked back, not more."""
    jobs = [Job(number=n, team="a", at=0.0, seconds=3600.0, gpus=1) for n in range(7)]
    run = Run(a_world(jobs, nodes=1), POLICIES["muster"], 1)
    run.play(EPOCH_MS + 60_000, Measure().watch)

    assert placeable(run, "b", 4)
    assert not placeable(run, "b", 5)


def test_who_comes_back_gets_his_own_within_the_bound_and_first_come_first_served_does_not():
    """Team a fills the cluster for an hour; b comes ten minutes later with what it owns."""
    jobs = [Job(number=n, team="a", at=0.0, seconds=3600.0, gpus=1) for n in range(8)]
    jobs += [Job(number=8 + n, team="b", at=600.0, seconds=600.0, gpus=1) for n in range(4)]
    waits = {}
    for name in ("muster", "fifo"):
        run = Run(a_world(jobs, nodes=1), POLICIES[name], 1)
        run.play(EPOCH_MS + 7_200_000, (found := Measure()).watch)
        told = figures(run, found, 1 / 12)
        waits[name] = told["owed_wait_max_s"]
        assert (told["shortfall_gpu_hours"] == 0) == (name == "muster")
        assert told["used_percent"] > 50
        assert run.fleet.ledger.node("a").used.get(FLAVOR, [0])[0] == 1000 * run.fleet.running["a"]

    assert waits["muster"] <= 90 < waits["fifo"]
