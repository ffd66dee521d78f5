"""A full node, a preemptor that waits, and the plan that would help it."""

from __future__ import annotations

from typing import Any

from shared.core.model.lifecycle import State
from shared.events.plans import (
    PlannedVictim,
    ProposeEvictionPlan,
)
from shared.events.pods import PodsGone, PodsRunning
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)


def a_world(*, gpus: int = 8, quota: int = 0, **node: Any) -> Driver:
    """One node, and a cohort in which all that there is belongs to the owner."""
    driver = Driver()
    quota = quota or gpus
    driver.send(
        reported(a_node(gpus=gpus, **node)),
        a_quota("all", 0, kind="cohort"),
        a_quota("borrower", 0, parent="all"),
        a_quota("owner", quota, parent="all"),
    )
    return driver


def run(driver: Driver, name: str, *, queue: str = "borrower", **spec: Any) -> None:
    """Let a workload run."""
    driver.send(nominated(a_workload(name, queue=queue, **spec)))
    driver.send(pod_fact(PodsRunning, name))
    assert driver.state(name) is State.RUNNING


def ask(driver: Driver, name: str = "p", *, strict: bool = False, **spec: Any) -> list[Any]:
    """Let a workload of the owner wait."""
    spec.setdefault("queue", "owner")
    out = driver.send(nominated(a_workload(name, **spec), strict=strict))
    assert driver.state(name) is State.QUEUED
    return out


def a_plan(driver: Driver, *victims: str, name: str = "p", **changed: Any) -> ProposeEvictionPlan:
    """The plan to evict `victims` for `name`."""
    record = driver.record(name)
    planned = tuple(
        PlannedVictim(
            workload_id=one, version=driver.record(one).version, attempt=1, rule="reclaim"
        )
        for one in victims
    )
    fields: dict[str, Any] = {
        "plan_id": f"plan-{name}",
        "workload_id": name,
        "version": record.version,
        "nomination": 1,
        "flavor": "h100",
        "rule": "reclaim",
        "victims": planned,
    }
    return ProposeEvictionPlan(**(fields | changed))


def gone(name: str, attempt: int = 1, **more: Any) -> Any:
    return pod_fact(PodsGone, name, attempt, **more)


def full_world(**preemptor: Any) -> Driver:
    """Two workloads of 4 GPUs fill the node; `p` wants 8 and waits."""
    driver = a_world()
    run(driver, "a", gpus=4, team="blue")
    run(driver, "b", gpus=4, team="blue")
    ask(driver, **({"gpus": 8} | preemptor))
    return driver
