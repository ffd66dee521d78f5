"""Who may not borrow neither borrows nor has others evicted so that he could: all services."""

from __future__ import annotations

from typing import Any

from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuChoice
from shared.core.model.team_policy import AtLimit, Budget
from shared.events import organisation
from shared.events.quotas import FlavorQuota
from tests.support.placement_driver import FLAVOR, a_workload, gpu_limit
from tests.support.three_services import OTHER, PRODUCTS, Services

HOURS_SECONDS = 3_600


def test_who_spent_his_budget_takes_nothing_from_borrowers_of_what_he_does_not_own():
    owned = {"red": 0, "blue": 0, "grey": 8, "green": 0}
    services = Services(owned, nodes=1, others={"red": 8, "green": 8}, other_nodes=1)
    flavors = [(FLAVOR, 0), (OTHER, 8)]
    services.tell(
        organisation.QueueApplied(
            name="red",
            version=2,
            team="red",
            cohort="all",
            flavors=tuple(
                FlavorQuota(flavor=name, nominal=gpu_limit(count)) for name, count in flavors
            ),
        ),
        organisation.TeamApplied(
            name="red",
            version=1,
            default_queue="red",
            budget=Budget(gpu_hours_per_month=0, at_limit=AtLimit.NOMINAL),
        ),
    )
    for number in range(8):
        services.submit(a_workload(f"b{number}", queue="blue", team="blue"), HOURS_SECONDS)
        choice = GpuChoice(products=(PRODUCTS[OTHER],))
        green = a_workload(f"g{number}", queue="green", team="green", gpu_choice=choice)
        services.submit(green, HOURS_SECONDS)
    services.wait(100)

    services.submit(a_workload("r", queue="red", team="red"), HOURS_SECONDS)
    services.wait(300)

    assert services.driver.state("r") is State.QUEUED
    assert services.evictions == 0


def served(**borrower: Any) -> tuple[Services, list[str]]:
    """Two queues of one cohort own 8 GPUs each; one wants 16, then the other what it owns."""
    services = Services({"owner": 8, "borrower": 8}, nodes=2)
    for number in range(16):
        one = a_workload(f"b{number}", queue="borrower", team="blue", **borrower)
        services.submit(one, 10 * HOURS_SECONDS)
    services.wait(100)
    names = [f"o{number}" for number in range(8)]
    for name in names:
        services.submit(a_workload(name, queue="owner"), HOURS_SECONDS)
    services.wait(100)
    return services, names


def test_work_that_nobody_may_evict_leaves_others_what_they_own():
    services, owned = served(preemptible=False)

    assert services.states(*owned) == {State.RUNNING}
    assert services.evictions == 0
    states = [services.driver.state(f"b{number}") for number in range(16)]
    assert states.count(State.RUNNING) == 8


def test_what_others_borrow_is_given_back():
    services, owned = served()

    assert services.states(*owned) == {State.RUNNING}
    assert services.evictions == 8
