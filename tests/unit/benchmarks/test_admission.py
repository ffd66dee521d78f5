"""The shapes of Kueue's test as published, and the quota core on them."""

import json

from tests.benchmarks.admission import Fate, figures
from tests.benchmarks.admission_core import measure
from tests.benchmarks.admission_shapes import SHAPES, Shape, arrivals, documents, spec_of


def test_the_shapes_are_those_of_the_published_test():
    baseline, large = SHAPES["baseline"], SHAPES["large-scale"]

    assert (baseline.workloads, len(list(baseline.queue_names()))) == (15_000, 30)
    assert (large.workloads, len(list(large.queue_names()))) == (50_000, 1_000)
    assert baseline.ideal_ms == 66_000
    assert baseline.tenth().workloads == 1_500


def test_arrivals_follow_the_intervals_and_ask_for_their_run_time():
    found = arrivals(Shape(name="s", cohorts=1, queues=1, counts=(2, 1, 2)))

    names = [(one.at_ms, one.work.name) for one in found]
    assert names == [
        (0, "large"),
        (0, "medium"),
        (0, "small"),
        (100, "small"),
        (1_200, "large"),
    ]
    spec = spec_of(found[0])
    assert spec.pod_sets[0].cpu_milli == 20_000
    assert spec.expected_duration_seconds == 10


def test_every_queue_may_borrow_five_times_what_it_owns():
    applied = dict(documents(SHAPES["baseline"], "t"))

    queue = applied["queues/queue-4-5"]

    flavor = queue["flavors"][0]
    assert queue["cohort"] == "cohort-4"
    assert flavor["nominal"]["cpu_milli"] * 5 == flavor["borrowing_limit"]["cpu_milli"] == 100_000
    assert json.dumps(applied)


def test_the_core_alone_runs_all_of_them_and_wastes_little():
    found = measure(SHAPES["baseline"].tenth())

    assert found["workloads"] == 1_500
    assert found["useful_utilisation_percent"] > 90
    waits = found["mean_seconds_to_admission"]
    assert waits["large"] < waits["small"]


def test_decided_counts_from_the_first_reason_and_admitted_from_the_place():
    shape = Shape(name="s", cohorts=1, queues=1, counts=(1, 0, 0))
    times = {
        b"muster.quota.refused.v1": 1_100,
        b"muster.workload.placed.v1": 1_500,
        b"muster.workload.succeeded.v1": 2_000,
    }

    found = figures(shape, [Fate("small", 1_000, times)], 1_000)

    assert found["decided_seconds"] == 0.1
    assert found["told_to_wait_percent"] == 100.0
    assert found["seconds_to_admission"]["small"]["mean"] == 0.5
    assert found["useful_utilisation_percent"] == 1.0
