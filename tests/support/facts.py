"""Facts as other services tell them, each with its topic: for tests of those who read them."""

from __future__ import annotations

from typing import Any

from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import (
    GpuChoice,
    Placement,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.events import topics, workloads

Fact = tuple[topics.Topic, workloads.Wire]


def queued(
    identifier: str,
    team: str = "red",
    *,
    pods: PodSet,
    at_ms: int,
    priority: int = 0,
    seconds: int | None = None,
    products: tuple[str, ...] = (),
    priority_class: str = "",
) -> Fact:
    """A training of its team, accepted at `at_ms`; `seconds` is what its owner expects."""
    spec = WorkloadSpec(
        name=f"n-{identifier}",
        kind=WorkloadKind.TRAINING,
        pod_sets=(pods,),
        expected_duration_seconds=seconds,
        gpu_choice=GpuChoice(products=products),
        priority_class=priority_class,
    )
    workload = Workload(
        id=identifier,
        team=team,
        queue=team,
        cell=0,
        priority=priority,
        spec=spec,
        submitted_at_ms=at_ms,
    )
    return topics.QUEUE_FACTS, workloads.WorkloadQueued(workload=workload, body_hash="h")


def common(identifier: str, version: int, state: State, team: str = "red") -> dict[str, Any]:
    """What every fact about a workload's state holds."""
    base: dict[str, Any] = {"workload_id": identifier, "team": team, "queue": team, "priority": 0}
    return base | {"version": version, "state": state, "attempt": 1}


def started(
    identifier: str,
    team: str = "red",
    *,
    placement: Placement,
    at_ms: int,
    submitted_at_ms: int,
    priority: int = 0,
) -> list[Fact]:
    """Placed and running in one moment, as versions 2 and 3."""
    placed = workloads.WorkloadPlaced(
        **common(identifier, 2, State.PLACED, team) | {"priority": priority},
        placement=placement,
        placed_at_ms=at_ms,
        submitted_at_ms=submitted_at_ms,
    )
    runs = workloads.WorkloadRunning(
        **common(identifier, 3, State.RUNNING, team) | {"priority": priority}, running_at_ms=at_ms
    )
    return [(topics.WORKLOAD_FACTS, placed), (topics.WORKLOAD_FACTS, runs)]


def refused(identifier: str, message: str, next_step: str, evidence: dict[str, int]) -> Fact:
    """No room for a workload of red, with what that was seen by."""
    fact = workloads.PlacementRefused(
        workload_id=identifier,
        team="red",
        queue="red",
        nomination=1,
        reason=Reason.NO_CAPACITY,
        message=message,
        next_step=next_step,
        evidence=evidence,
    )
    return topics.WORKLOAD_FACTS, fact
