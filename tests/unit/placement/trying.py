"""Something to try: a driver with nodes, room that is taken and given back, and what came out."""

from __future__ import annotations

from shared.core.model.lifecycle import State
from shared.events.pods import PodsFinished
from shared.events.workloads import PlacementRefused, WorkloadPlaced
from tests.support.placement_driver import (
    Driver,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)


def placed(payloads):
    """Names of the workloads placed, in order."""
    return [one.workload_id for one in payloads if isinstance(one, WorkloadPlaced)]


def refusals(payloads):
    """(name, reason) of what was refused, in order."""
    return [(one.workload_id, one.reason) for one in payloads if isinstance(one, PlacementRefused)]


def driver_with(*nodes, quota=1_000):
    """A driver with quota and some nodes."""
    driver = Driver()
    driver.send(a_quota(gpus=quota), *(reported(node) for node in nodes))
    return driver


def fill(driver, gpus=8, name="full"):
    """Take `gpus` GPUs away."""
    driver.send(nominated(a_workload(name, gpus=gpus)))
    assert State.PLACED is driver.state(name)


def free(driver, name="full"):
    """Give back what `fill` took; what came out."""
    return driver.send(pod_fact(PodsFinished, name, succeeded=True))
