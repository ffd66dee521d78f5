"""A workload in any of its states, and every message about it."""

from __future__ import annotations

from shared.core.model.lifecycle import State
from shared.events.pods import (
    BindRefused,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsRunning,
)
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    ReprioritiseWorkload,
    RequestEviction,
)
from tests.support.placement_driver import (
    NEVER_SECONDS,
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    nominated,
    pod_fact,
    queued,
    reported,
)

cancel = command(CancelWorkload, "w1")
hold = command(HoldWorkload, "w1")
release = command(ReleaseWorkload, "w1")
evict = command(RequestEviction, "w1")
reprioritise = command(ReprioritiseWorkload, "w1", priority_class="high", priority=9)
bound = pod_fact(PodsBound, "w1")
running = pod_fact(PodsRunning, "w1")
succeeded = pod_fact(PodsFinished, "w1", succeeded=True)
failed = pod_fact(PodsFinished, "w1", succeeded=False, reason="OOMKilled", message="exit 137")
lost = pod_fact(
    PodsFinished,
    "w1",
    succeeded=False,
    reason="NodeLost",
    message="pod w1-1-0: NodeLost",
    lost=True,
)
gone = pod_fact(PodsGone, "w1")
gone_well = pod_fact(PodsGone, "w1", succeeded=True)
refused = pod_fact(BindRefused, "w1", reason="Conflict", message="taken", node="n1")

PATHS = {
    State.QUEUED: [],
    State.HELD: [hold],
    State.PLACED: ["nominate"],
    State.BOUND: ["nominate", bound],
    State.RUNNING: ["nominate", bound, running],
    State.EVICTING: ["nominate", running, evict],
    State.CANCELLING: ["nominate", running, cancel],
}


def at(state, **spec):
    """A driver whose workload w1 has come to `state`."""
    driver = Driver()
    workload = a_workload(**spec)
    driver.send(reported(a_node()), a_quota(), queued(workload))
    for step in PATHS[state]:
        driver.send(nominated(workload) if step == "nominate" else step)
    assert state is driver.state()
    return driver


def a_gang_below_its_size(quota=1_000, *, silent_seconds=NEVER_SECONDS, **spec):
    """A node of eight GPUs: w1 runs with four of its eight pods, "full" runs on the others."""
    driver = Driver(silent_seconds=silent_seconds)
    driver.send(reported(a_node()), a_quota(gpus=quota))
    driver.send(nominated(a_workload("full", pod_count=4)))
    driver.send(nominated(a_workload("w1", pod_count=8, min_count=4, **spec)))
    driver.send(*(pod_fact(PodsRunning, name) for name in ("full", "w1")))
    assert State.RUNNING is driver.state("w1") is driver.state("full")
    return driver
