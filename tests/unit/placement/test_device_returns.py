"""Devices on the ladder: their nodes, their way back, and what bounds what rules do."""

from __future__ import annotations

from typing import Any

from services.placement.nodes.device_health import HealthPolicy
from shared.core.health.events import HealthEventKind as Kind
from shared.core.health.xid import XidClass
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest
from shared.core.model.value import replace
from shared.events.nodes import (
    CheckGpu,
    DeviceHealthChanged,
    NodeCordoned,
    RestoreDevice,
    SwitchingGpu,
)
from shared.events.pods import EvictPods
from shared.events.workloads import WorkloadEvicted
from tests.support.placement_driver import Driver, a_node, a_quota, a_workload, reported
from tests.unit.placement.test_device_health import (
    PROBATION_SECONDS,
    S,
    fleet,
    gpus_of,
    only,
    running,
    steps,
    told,
    xid,
)


def test_the_second_gpu_of_a_node_within_ten_minutes_drains_the_node():
    driver = fleet(nodes=1, gpus=4)
    running(driver, a_workload("w1", gpus=1))
    ((_, gpu),) = gpus_of(driver, "w1")
    first, second = ((gpu + 1) % 4, (gpu + 2) % 4)
    driver.send(xid(119, gpu=first))
    assert driver.state("w1") is State.RUNNING

    out = driver.send(xid(119, gpu=second))

    (cordoned,) = only(out, NodeCordoned)
    assert cordoned.message.endswith("XID 119, the second of its node within 10 minutes")
    assert driver.state("w1") is State.EVICTING
    assert ("n1", second, S.DRAINING) in steps(out)


def test_where_the_breaker_keeps_the_node_the_gpu_goes_alone():
    driver = fleet(nodes=2)
    driver.send(xid(119, gpu=0))

    out = driver.send(xid(119, gpu=0, node="n2"), xid(119, gpu=1, node="n2"))

    assert not only(out, NodeCordoned)
    assert ("n2", 1, S.QUARANTINED) in steps(out)


def test_an_error_of_memory_takes_the_grace_of_what_is_being_stopped():
    driver = fleet(nodes=1)
    running(driver, a_workload("w1", gpus=1, grace_seconds=300))
    ((_, gpu),) = gpus_of(driver, "w1")
    driver.send(xid(119, gpu=gpu))

    (stop,) = only(driver.send(xid(48, gpu=gpu)), EvictPods)

    assert stop.grace_seconds < 10


def probation(driver: Driver) -> Any:
    driver.send(xid(119))
    (command,) = only(driver.send(told(Kind.RETURNED)), CheckGpu)
    return command


def test_a_device_that_was_reset_is_checked_and_returns_when_that_passes():
    driver = fleet(nodes=1, gpus=1)
    command = probation(driver)

    assert (command.node, command.gpu, command.uuid) == ("n1", 0, "n1-0")
    out = driver.send(told(Kind.CHECK_PASSED, 20))
    assert steps(out) == [("n1", 0, S.HEALTHY)]
    (fact,) = only(out, DeviceHealthChanged)
    assert fact.message == "GPU 0 of node n1 is healthy: its check passed in 20 s"


def test_a_check_that_fails_sends_it_back():
    driver = fleet(nodes=1, gpus=1)
    probation(driver)

    assert steps(driver.send(told(Kind.CHECK_FAILED, 1))) == [("n1", 0, S.QUARANTINED)]
    assert steps(driver.wait(PROBATION_SECONDS + 1)) == []


def test_a_check_that_passes_without_a_reset_returns_nothing():
    driver = fleet(nodes=1, gpus=1)
    driver.send(xid(119))

    assert steps(driver.send(told(Kind.CHECK_PASSED, 20))) == []


def test_an_operator_restores_one_device_and_leaves_the_others():
    driver = fleet(nodes=1)
    driver.send(xid(119, gpu=1))
    driver.wait(600)
    driver.send(xid(119, gpu=2))

    command = RestoreDevice(node="n1", gpu=1, by="ops (operator)", note="replaced")
    out = driver.send(command, RestoreDevice(node="n1", gpu=5))

    assert steps(out) == [("n1", 1, S.HEALTHY)]
    (fact,) = only(out, DeviceHealthChanged)
    assert fact.message == "GPU 1 of node n1 is healthy: ops (operator): replaced"
    (kept,) = driver.kept_nodes()
    assert kept.switching == (SwitchingGpu(node="n1", gpu=2),)


def test_another_device_in_the_place_of_one_that_was_out_is_told():
    driver = fleet(nodes=1, gpus=1)
    driver.send(told(Kind.ROW_REMAP_FAILURE, 1))
    node = a_node("n1", gpus=1)
    other = tuple(replace(gpu, uuid="GPU-new") for gpu in node.gpus)

    out = driver.send(reported(replace(node, gpus=other), generation=2))

    assert steps(out) == [("n1", 0, S.HEALTHY)]


def test_a_site_has_classes_of_its_own():
    driver = Driver(health=HealthPolicy(overrides={109: XidClass.APP}))
    driver.send(reported(a_node("n1", gpus=1)), a_quota())

    assert steps(driver.send(xid(109))) == []
    assert steps(driver.send(xid(119)))[0] == ("n1", 0, S.DRAINING)


def test_the_breaker_counts_devices_on_a_drained_node_once():
    driver = fleet(nodes=3)
    driver.send(xid(79, gpu=0))

    out = driver.send(xid(119, gpu=1), xid(119, gpu=2))
    (fact,) = driver.send(xid(119, gpu=0, node="n2"))

    assert ("n1", 2, S.QUARANTINED) in steps(out)
    assert (fact.node, fact.done) == ("n2", False)


def test_a_silent_driver_drains_no_node_while_the_breaker_is_open():
    driver = fleet(nodes=2)
    driver.send(xid(79, gpu=0))
    driver.send(told(Kind.UNRESPONSIVE, gpu=-1, node="n2"))

    assert only(driver.wait(300), NodeCordoned) == []
    driver.wait(3_000)
    (cordoned,) = only(driver.wait(600), NodeCordoned)
    assert cordoned.node == "n2"


def test_what_observes_drains_no_node():
    driver = fleet(nodes=1, acts=False)
    driver.send(told(Kind.UNRESPONSIVE, gpu=-1))

    assert only(driver.wait(301), NodeCordoned) == []


def two_instances(*, acts: bool = True) -> tuple[Driver, dict[str, int]]:
    """Two workloads on instances of one GPU: their slices."""
    driver = Driver(health=HealthPolicy(acts=acts))
    driver.send(reported(a_node("n1", gpus=0, mig=1)), a_quota())
    instance = GpuRequest(mig_profile="1g.10gb", mig_count=1)
    running(driver, a_workload("w1", gpu=instance), a_workload("w2", gpu=instance))
    masks = {}
    for name in ("w1", "w2"):
        ((share,),) = (pod.shares for pod in driver.placement(name).pods)
        masks[name] = share.mask
    assert not masks["w1"] & masks["w2"]
    return driver, masks


def test_an_error_of_an_instance_moves_its_work_and_leaves_its_neighbours():
    driver, masks = two_instances()

    out = driver.send(xid(94, instance=3, mask=masks["w2"]))

    assert steps(out) == [("n1", 0, S.SUSPECT)]
    (evicted,) = only(out, WorkloadEvicted)
    assert evicted.message == "instance 3 of GPU 0 of node n1 failed: XID 94"
    assert (driver.state("w1"), driver.state("w2")) == (State.RUNNING, State.EVICTING)


def test_of_an_unknown_instance_and_while_it_observes_nothing_is_moved():
    unknown, _ = two_instances()
    observing, masks = two_instances(acts=False)

    assert steps(unknown.send(xid(94, instance=3))) == [("n1", 0, S.SUSPECT)]
    (fact,) = observing.send(xid(94, instance=3, mask=masks["w1"]))

    assert (fact.after, fact.done) == (S.SUSPECT, False)
    assert {State.RUNNING} == {one.state(name) for one in (unknown, observing) for name in masks}
