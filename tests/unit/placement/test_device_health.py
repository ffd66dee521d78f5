"""Devices on the ladder: what an error of the driver does to new work and to old work."""

from __future__ import annotations

from typing import Any

import pytest

from services.placement.nodes.device_health import HealthPolicy
from shared.core.health.device import DeviceState
from shared.core.health.events import HealthEventKind as Kind
from shared.core.health.ladder import DAY_MS, LadderLimits
from shared.core.health.trends import Trend
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.value import replace
from shared.events.nodes import (
    DeviceHealthChanged,
    HealthEventReported,
    NodeCordoned,
    NodeRemoved,
    SwitchingGpu,
    TrendEnded,
    TrendFound,
    UncordonNode,
)
from shared.events.pods import EvictPods, PodsFinished, PodsGone
from shared.events.workloads import WorkloadEvicted, WorkloadRequeued
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.evicting import run

S = DeviceState
PROBATION_SECONDS = 600


def fleet(nodes: int = 2, gpus: int = 8, *, acts: bool = True) -> Driver:
    limits = LadderLimits(probation_ms=1000 * PROBATION_SECONDS)
    driver = Driver(health=HealthPolicy(acts=acts, limits=limits))
    driver.send(*(reported(a_node(f"n{one}", gpus=gpus)) for one in range(1, nodes + 1)))
    driver.send(a_quota())
    return driver


def told(kind: Kind, code: int = 0, gpu: int = 0, node: str = "n1", **more: Any) -> Any:
    return HealthEventReported(node=node, gpu=gpu, kind=kind, at_ms=1, code=code, **more)


def xid(code: int, gpu: int = 0, node: str = "n1", **more: Any) -> Any:
    return told(Kind.XID, code, gpu, node, **more)


def steps(out: list[Any]) -> list[tuple[str, int, DeviceState]]:
    found = (one for one in out if isinstance(one, DeviceHealthChanged))
    return [(one.node, one.gpu, one.after) for one in found]


def only(out: list[Any], kind: type[Any]) -> list[Any]:
    return [one for one in out if isinstance(one, kind)]


def running(driver: Driver, *workloads: Any) -> None:
    for one in workloads:
        driver.send(nominated(one))
        run(driver, one.id)


def gone(driver: Driver, name: str) -> list[Any]:
    return driver.send(pod_fact(PodsGone, name, driver.record(name).attempt))


def gpus_of(driver: Driver, name: str) -> set[tuple[str, int]]:
    pods = driver.placement(name).pods
    return {(pod.node, share.index) for pod in pods for share in pod.shares}


def test_an_error_of_memory_moves_the_work_at_once_with_its_place_kept():
    driver = fleet()
    running(driver, a_workload("w1", gpus=8, grace_seconds=300), a_workload("w2", gpus=8))
    ((bad, _), *_) = sorted(gpus_of(driver, "w1"))
    out = driver.send(xid(48, gpu=3, node=bad))

    (evicted,) = only(out, WorkloadEvicted)
    (stop,) = only(out, EvictPods)
    assert (evicted.workload_id, evicted.reason) == ("w1", Reason.DEVICE_UNHEALTHY)
    assert evicted.message == f"GPU 3 of node {bad} is taken out of service: XID 48"
    assert stop.grace_seconds < 10
    assert steps(out) == [(bad, 3, S.DRAINING)]

    after = gone(driver, "w1")

    (quarantined,) = only(after, DeviceHealthChanged)
    assert quarantined.message == (
        f"GPU 3 of node {bad} is quarantined: XID 48; reset the GPU, then it is on probation"
    )
    (requeued,) = only(after, WorkloadRequeued)
    assert requeued.workload_id == "w1"
    assert steps(after) == [(bad, 3, S.QUARANTINED)]
    assert driver.state("w2") is State.RUNNING


def test_another_error_gives_the_work_its_grace():
    driver = fleet(nodes=1)
    running(driver, a_workload("w1", gpus=1, grace_seconds=300))
    ((_, gpu),) = gpus_of(driver, "w1")

    (stop,) = only(driver.send(xid(119, gpu=gpu)), EvictPods)

    assert stop.grace_seconds == 300


def test_only_the_device_is_drained_and_its_neighbours_take_work():
    driver = fleet(nodes=1)
    running(driver, a_workload("w1", gpus=1), a_workload("w2", gpus=1))
    ((_, gpu),) = gpus_of(driver, "w1")

    driver.send(xid(119, gpu=gpu))
    driver.send(nominated(a_workload("w3", gpus=7)), nominated(a_workload("w4", gpus=6)))

    assert [driver.state(name) for name in ("w1", "w2", "w3", "w4")] == [
        State.EVICTING, State.RUNNING, State.QUEUED, State.PLACED,
    ]  # fmt: skip
    assert ("n1", gpu) not in gpus_of(driver, "w4")


def test_an_error_of_the_application_leaves_the_device_and_the_work():
    driver = fleet(nodes=1)
    running(driver, a_workload("w1", gpus=8))

    assert driver.send(xid(13), xid(31), xid(63)) == []
    assert driver.state("w1") is State.RUNNING


def test_errors_of_many_applications_are_the_devices():
    driver = fleet(nodes=1, gpus=1)
    out: list[Any] = []
    for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
        running(driver, a_workload(name, gpus=1, team=team))
        out = driver.send(xid(13))
        if name != "c":
            assert out == []
            driver.send(pod_fact(PodsFinished, name, succeeded=True))

    assert steps(out) == [("n1", 0, S.DRAINING)]


def test_a_gpu_that_fell_off_its_bus_drains_its_node_until_an_operator_gives_it_back():
    driver = fleet()
    running(driver, a_workload("w1", gpus=8), a_workload("w2", gpus=8))
    ((bad, _), *_) = sorted(gpus_of(driver, "w1"))

    out = driver.send(xid(79, gpu=2, node=bad))

    (cordoned,) = only(out, NodeCordoned)
    assert (cordoned.node, cordoned.reason, cordoned.evicted) == (bad, Reason.DRAINED, 1)
    assert "XID 79" in cordoned.message
    gone(driver, "w1")
    assert driver.state("w1") is State.QUEUED
    out = driver.send(UncordonNode(node=bad))
    assert steps(out) == [(bad, 2, S.HEALTHY)]
    driver.wait(5)
    driver.send(nominated(a_workload("w1", gpus=8), number=2))
    assert gpus_of(driver, "w1") == {(bad, gpu) for gpu in range(8)}


def test_a_device_comes_back_after_its_reset_and_its_probation():
    driver = fleet(nodes=1, gpus=1)
    assert steps(driver.send(xid(119))) == [("n1", 0, S.DRAINING), ("n1", 0, S.QUARANTINED)]
    driver.send(nominated(a_workload("w1", gpus=1)))
    assert driver.state("w1") is State.QUEUED

    assert steps(driver.send(told(Kind.RECOVERY_ACTION, 0))) == [("n1", 0, S.PROBATION)]
    assert driver.state("w1") is State.QUEUED

    assert steps(driver.wait(PROBATION_SECONDS)) == [("n1", 0, S.HEALTHY)]
    assert driver.state("w1") is State.PLACED


def test_a_sign_during_probation_takes_it_out_again():
    driver = fleet(nodes=1, gpus=1)
    driver.send(xid(119))
    driver.send(told(Kind.RETURNED))

    assert steps(driver.send(xid(119))) == [("n1", 0, S.DRAINING), ("n1", 0, S.QUARANTINED)]
    assert steps(driver.wait(PROBATION_SECONDS + 1)) == []


def test_a_machine_that_was_started_anew_resets_the_devices_that_were_out():
    driver = fleet(nodes=1)
    driver.send(xid(119, gpu=1), xid(119, gpu=2))

    driver.wait(1)

    out = driver.send(told(Kind.BOOTED, gpu=-1))

    assert steps(out) == [("n1", 1, S.PROBATION), ("n1", 2, S.PROBATION)]


def test_the_third_quarantine_in_a_week_is_the_last():
    driver = fleet(nodes=1, gpus=1)
    for _ in range(2):
        driver.send(xid(119))
        driver.send(told(Kind.RETURNED))
        driver.wait(PROBATION_SECONDS)

    assert steps(driver.send(xid(119)))[-1] == ("n1", 0, S.FAILED)
    assert steps(driver.send(told(Kind.RETURNED))) == []
    assert steps(driver.send(UncordonNode(node="n1"))) == [("n1", 0, S.HEALTHY)]


def test_a_suspect_device_takes_work_and_is_healthy_after_a_day():
    driver = fleet(nodes=1, gpus=1)

    assert steps(driver.send(xid(74))) == [("n1", 0, S.SUSPECT)]
    driver.send(nominated(a_workload("w1", gpus=1)))
    assert driver.state("w1") is State.PLACED
    run(driver, "w1")
    assert steps(driver.wait(DAY_MS / 1000)) == [("n1", 0, S.HEALTHY)]


def test_a_lost_device_is_out_at_once_and_on_probation_when_it_returns():
    driver = fleet(nodes=1)
    running(driver, a_workload("w1", gpus=8))

    assert steps(driver.send(told(Kind.LOST, gpu=4))) == [("n1", 4, S.LOST)]
    assert driver.state("w1") is State.EVICTING
    gone(driver, "w1")
    assert driver.state("w1") is State.QUEUED
    assert steps(driver.send(told(Kind.RETURNED, gpu=4))) == [("n1", 4, S.PROBATION)]


def test_another_device_in_its_place_is_not_concerned():
    driver = fleet(nodes=1)

    assert driver.send(xid(119, uuid="GPU-of-before"), xid(119, node="n9")) == []


def test_what_observes_tells_and_does_nothing():
    driver = fleet(nodes=1, acts=False)
    running(driver, a_workload("w1", gpus=8))

    (fact,) = driver.send(xid(48))

    assert (fact.before, fact.after, fact.done) == (S.HEALTHY, S.DRAINING, False)
    assert not fact.breaker, "it is the mode that keeps it"
    assert fact.message == "GPU 0 of node n1 would be draining: XID 48"
    assert driver.state("w1") is State.RUNNING


def test_the_breaker_keeps_a_wrong_rule_from_emptying_the_fleet():
    driver = fleet(nodes=2)
    out = driver.send(*(xid(119, gpu=gpu) for gpu in range(8)))
    assert len(steps(out)) == 16

    (fact,) = driver.send(xid(119, gpu=0, node="n2"))

    assert (fact.done, fact.breaker) == (False, True)
    driver.wait(3_600)
    assert [one.done for one in driver.send(xid(119, gpu=0, node="n2"))][:1] == [True]


def test_what_is_out_is_told_to_those_who_look_for_victims():
    driver = fleet(nodes=1)

    driver.send(xid(119, gpu=5))

    (kept,) = driver.kept_nodes()
    assert kept.switching == (SwitchingGpu(node="n1", gpu=5),)


def test_a_node_that_left_takes_its_devices_with_it():
    driver = fleet(nodes=1, gpus=1)
    driver.send(xid(119))
    driver.send(NodeRemoved(node="n1", generation=2))
    driver.send(reported(a_node("n1", gpus=1), generation=3))
    driver.send(nominated(a_workload("w1", gpus=1)))

    assert driver.state("w1") is State.PLACED


def test_a_node_whose_driver_stays_silent_is_drained_after_five_minutes():
    driver = fleet(nodes=1)
    running(driver, a_workload("w1", gpus=8))
    assert driver.send(told(Kind.UNRESPONSIVE, gpu=-1)) == []
    assert driver.wait(299) == []

    (cordoned,) = only(driver.wait(1), NodeCordoned)

    assert cordoned.message == "node n1 is drained: its driver does not answer for 5 minutes"
    assert driver.state("w1") is State.EVICTING


def test_a_driver_that_answers_again_in_time_drains_nothing():
    driver = fleet(nodes=1)
    driver.send(told(Kind.UNRESPONSIVE, gpu=-1))
    driver.wait(200)

    assert driver.send(told(Kind.RETURNED, gpu=-1)) == []
    assert driver.wait(200) == []


def test_a_sign_is_of_the_device_with_its_uuid_whatever_its_number():
    driver = fleet(nodes=1)

    out = driver.send(xid(119, gpu=0, uuid="n1-5"))

    assert steps(out)[0] == ("n1", 5, S.DRAINING)


def test_where_a_node_does_not_name_its_gpus_the_number_counts():
    driver = fleet(nodes=0)
    node = a_node("n1", gpus=2)
    unnamed = tuple(replace(gpu, uuid="") for gpu in node.gpus)
    driver.send(reported(replace(node, gpus=unnamed)))

    assert steps(driver.send(xid(119, gpu=1, uuid="GPU-x")))[0] == ("n1", 1, S.DRAINING)


def test_a_start_of_the_machine_before_the_error_resets_nothing():
    driver = fleet(nodes=1, gpus=1)
    driver.wait(100)
    driver.send(xid(119))
    driver.wait(60)

    assert steps(driver.send(told(Kind.BOOTED, 120, gpu=-1))) == []
    assert steps(driver.send(told(Kind.BOOTED, 30, gpu=-1))) == [("n1", 0, S.PROBATION)]


def test_a_new_device_in_the_place_of_a_broken_one_takes_work():
    driver = fleet(nodes=1, gpus=1)
    driver.send(told(Kind.ROW_REMAP_FAILURE, 1))
    driver.send(nominated(a_workload("w1", gpus=1)))
    assert driver.state("w1") is State.QUEUED
    node = a_node("n1", gpus=1)
    other = tuple(replace(gpu, uuid="GPU-new") for gpu in node.gpus)

    driver.send(reported(replace(node, gpus=other), generation=2))

    assert driver.state("w1") is State.PLACED


def test_what_observes_evicts_nothing_of_a_lost_device():
    driver = fleet(nodes=1, acts=False)
    running(driver, a_workload("w1", gpus=8))

    (fact,) = driver.send(told(Kind.LOST))

    assert (fact.after, fact.done, driver.state("w1")) == (S.LOST, False, State.RUNNING)


def test_lost_devices_count_for_the_breaker():
    driver = fleet(nodes=2)
    driver.send(*(told(Kind.LOST, gpu=gpu) for gpu in range(8)))

    (fact,) = driver.send(told(Kind.LOST, node="n2"))

    assert (fact.after, fact.done) == (S.LOST, False)


def test_a_row_that_cannot_be_replaced_while_it_drains_takes_the_device_out_for_good():
    driver = fleet(nodes=1, gpus=1)
    running(driver, a_workload("w1", gpus=1))
    driver.send(xid(119))
    driver.send(told(Kind.ROW_REMAP_FAILURE, 1))

    assert steps(gone(driver, "w1")) == [("n1", 0, S.FAILED)]


def test_a_device_that_is_out_already_may_still_drain_its_node():
    driver = fleet(nodes=1, gpus=4)
    running(driver, a_workload("w1", gpus=1))
    ((_, gpu),) = gpus_of(driver, "w1")
    other = (gpu + 1) % 4
    driver.send(xid(119, gpu=other))

    (cordoned,) = only(driver.send(xid(79, gpu=other)), NodeCordoned)

    assert "XID 79" in cordoned.message
    assert driver.state("w1") is State.EVICTING


@pytest.mark.parametrize("trend", Trend)
def test_a_trend_is_only_told(trend):
    driver = fleet(nodes=1, gpus=2)
    running(driver, a_workload("w1", gpus=1))
    found = [
        TrendFound(node="n1", gpu=gpu, trend=trend, value=9, limit=1, since_ms=1) for gpu in (0, 1)
    ]

    assert driver.send(*found) == []
    assert driver.send(TrendEnded(node="n1", gpu=0, trend=trend, since_ms=1)) == []

    driver.send(nominated(a_workload("w2", gpus=1)))
    assert [driver.state(name) for name in ("w1", "w2")] == [State.RUNNING, State.PLACED]
