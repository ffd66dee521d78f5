"""Who may not borrow neither borrows nor has others evicted so that he could: all services."""

from __future__ import annotations

from shared.core.lifecycle import State
from shared.core.model import GpuChoice
from shared.core.team_policy import AtLimit, Budget
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
