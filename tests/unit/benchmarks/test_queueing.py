"""The baselines of the benchmark `queueing` on worlds small enough to follow by hand."""

from __future__ import annotations

import pytest

from tests.benchmarks.baselines.muster_queue import MusterQueue
from tests.benchmarks.baselines.queueing import Easy, Fifo, GreedySkip
from tests.benchmarks.queueing import compare
from tests.benchmarks.queueing_world import Job, World, run


def a_world(*rows):
    """Two nodes; rows are (arrives, seconds, gpus, hosts)."""
    jobs = [
        Job(number=at, arrives=arrives, seconds=seconds, expected=seconds, gpus=gpus, hosts=hosts)
        for at, (arrives, seconds, gpus, hosts) in enumerate(rows)
    ]
    return World(nodes=2, horizon=1_000, jobs=jobs)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        # The gang waits for node 0 until 100; one short and two long jobs come behind it.
        (Fifo, {0: 0, 1: 99, 2: 128, 3: 128, 4: 127}),
        (GreedySkip, {0: 0, 1: 601, 2: 0, 3: 0, 4: 0}),
        (Easy, {0: 0, 1: 99, 2: 0, 3: 128, 4: 127}),
        (MusterQueue, {0: 0, 1: 99, 2: 0, 3: 128, 4: 127}),
    ],
)
def test_who_passes_a_gang_that_waits(policy, waits):
    world = a_world((0, 100, 8, 1), (1, 30, 8, 2), (2, 50, 1, 1), (2, 600, 1, 1), (3, 599, 1, 1))

    tally = run(world, policy(world))

    assert waits == tally.waits


def a_row(*waits):
    """What the benchmark keeps of a policy whose longest waits were so by seed."""
    return {
        "mean": {"big_wait_p99_s": sum(waits) / len(waits), "utilisation_percent": 80.0},
        "by_seed": [{"big_wait_p99_s": wait} for wait in waits],
    }


def test_a_ratio_is_told_with_what_other_seeds_might_have_made_of_it():
    sure = compare(a_row(100, 200), a_row(200, 400))
    unsure = compare(a_row(100, 400), a_row(400, 400))

    names = ("big_wait_p99_ratio", "big_wait_p99_ratio_low", "big_wait_p99_ratio_high")
    assert (0.5, 0.5, 0.5) == tuple(sure[one] for one in names), "seeds are drawn in pairs"
    assert (0.625, 0.25, 1.0) == tuple(unsure[one] for one in names)
