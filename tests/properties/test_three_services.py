"""Quota, placement and preemption together: what is owed comes in time, and everything ends."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shared.core.model.lifecycle import State
from tests.support.placement_driver import a_workload
from tests.support.three_services import Services
from tests.support.three_services_story import REQUESTS, STAYING, Story, play

MIN_RUNTIME_SECONDS = 60
GRACE_SECONDS = 30
DECISION_SECONDS = 5
LONG_SECONDS = 100_000
seeds = st.integers(0, 2**40)
slow = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def fill(random: Random, services: Services, gpus: int) -> None:
    """The borrower takes all: singles, shares of a node, gangs, elastic ones."""
    number = 0
    while gpus > 0:
        number += 1
        kind: dict[str, Any] = random.choice(
            (
                {"gpus": 1},
                {"gpus": random.choice((2, 4))},
                {"gpus": 8},
                {"gpus": 8, "pod_count": 3},
                {"gpus": 4, "pod_count": 10, "min_count": 2},
                {"gpus": 8, "pod_count": 6, "min_count": 1},
            )
        )
        gpus -= kind["gpus"] * kind.get("pod_count", 1)
        one = a_workload(f"b{number}", queue="borrower", team="blue", **kind)
        services.submit(one, LONG_SECONDS)
    services.wait(5)


@settings(slow, derandomize=True)  # of 1,000 histories four need a second grace
@example(seed=28).via("a gang that gave up its surplus had to go whole, a grace later")
@example(seed=97).via("the surplus of a gang lay on nodes that were kept for a borrower")
@example(seed=1121).via("two promised nodes were kept as if both starts were owed")
@given(seeds)
def test_a_crowd_that_is_owed_has_its_room_in_bounded_time(seed):
    """After the minimum run time and one grace, whoever has borrowed, and in whatever pieces."""
    random = Random(seed)
    count = random.choice((6, 12, 20))
    owned = random.randint(1, count * 8)
    services = Services({"owner": owned, "borrower": count * 8 - owned}, nodes=count)
    fill(random, services, count * 10)
    crowd = [f"s{number}" for number in range(owned)]
    for name in crowd:
        cpu_milli = random.choice((1_000, 2_000))
        services.submit(a_workload(name, queue="owner", cpu_milli=cpu_milli), LONG_SECONDS)

    services.wait(MIN_RUNTIME_SECONDS)
    services.wait(GRACE_SECONDS + DECISION_SECONDS)

    late = [name for name in crowd if services.driver.state(name) is State.QUEUED]
    assert not late, f"{len(late)} of {len(crowd)} wait, of {owned} GPUs owned"


@slow
@example(seed=30_847).via("a priority that quota had heard of already, and placement had not")
@given(seeds)
def test_everything_runs_in_the_end_and_nothing_is_left(seed):
    play(Story(Random(seed)))


@slow
@given(seeds)
def test_everything_runs_in_the_end_where_there_are_two_flavors(seed):
    play(Story(Random(seed), others=3))


@slow
@given(seeds)
def test_everything_runs_in_the_end_where_some_may_not_be_evicted(seed):
    random = Random(seed)
    play(Story(random, others=random.choice((0, 3)), requests=(*REQUESTS, *STAYING)))
