"""A lost node whose machine is off: what is held there is given back without its kubelet."""

from __future__ import annotations

from typing import Any

from shared.core.model.lifecycle import State
from shared.events.nodes import FenceNode, GpuHealthReported, NodeRemoved, UncordonNode
from shared.events.pods import EvictPods, PodsGone, PodsRunning
from shared.events.workloads import CancelWorkload
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    kinds,
    nominated,
    pod_fact,
    reported,
)

OPS = "key ops (operator)"


def running(*names: str, **spec: Any) -> Driver:
    """One workload, which runs on all GPUs of nodes of these names."""
    driver = Driver()
    driver.send(*(reported(a_node(name)) for name in names), a_quota())
    driver.send(nominated(a_workload(pod_count=8 * len(names), **spec)))
    driver.send(pod_fact(PodsRunning, "w1"))
    return driver


def lost(name: str, generation: int = 2) -> GpuHealthReported:
    return GpuHealthReported(
        node=name, gpu=-1, healthy=False, generation=generation, reason="NotReady"
    )


def fence(name: str = "n1", generation: int = 2, **more: Any) -> FenceNode:
    return FenceNode(node=name, generation=generation, by=OPS, **more)


def fences(payloads: list[Any]) -> list[tuple[str, ...]]:
    return [one.fenced_nodes for one in payloads if isinstance(one, EvictPods)]


def test_the_binder_is_told_whose_pods_go_without_their_kubelet_and_then_they_go_elsewhere():
    driver = running("n1")
    assert [()] == fences(driver.send(lost("n1")))

    cordoned, stop = driver.send(fence(note="power is cut"))
    driver.send(reported(a_node("n2")))
    (requeued,) = driver.send(pod_fact(PodsGone, "w1"))
    driver.send(nominated(a_workload(pod_count=8), number=2))

    text = "node n1 is fenced by key ops (operator), its machine is off: power is cut"
    assert ("fenced", text, "power is cut") == (cordoned.reason, cordoned.message, cordoned.note)
    assert (("n1",), 1, "node-lost") == (stop.fenced_nodes, stop.grace_seconds, stop.reason)
    assert (State.QUEUED, "node-lost") == (requeued.state, requeued.reason)
    assert {"n2"} == {pod.node for pod in driver.placement().pods}


def test_of_a_gang_only_the_node_that_is_fenced_is_named_and_again_each_time():
    driver = running("n1", "n2")
    driver.send(lost("n1"), lost("n2"))

    first = driver.send(fence("n2"))
    again = driver.send(fence("n2"))
    both = driver.send(fence("n1"))

    assert [[("n2",)], [("n2",)], [("n1",)]] == [fences(one) for one in (first, again, both)]


def test_what_is_cancelled_there_keeps_its_grace_on_nodes_that_are_heard():
    driver = running("n1", "n2", grace_seconds=40)
    driver.send(command(CancelWorkload, "w1"), lost("n2"))

    (stop,) = (one for one in driver.send(fence("n2")) if isinstance(one, EvictPods))

    assert (("n2",), 40) == (stop.fenced_nodes, stop.grace_seconds)
    assert State.CANCELLING is driver.state()


def test_a_node_that_is_back_is_left_alone():
    driver = running("n1")
    driver.send(lost("n1"))
    driver.send(reported(a_node("n1"), 3))

    assert [] == driver.send(fence(generation=2))
    assert [] == driver.send(fence(generation=3))


def test_a_node_that_left_the_cluster_has_no_pods_any_more():
    driver = running("n1")
    driver.send(NodeRemoved(node="n1", generation=2))

    assert [] == driver.send(fence())


def test_a_fence_that_comes_before_the_news_of_the_loss_stops_what_runs_there():
    driver = running("n1")

    out = driver.send(fence(generation=2))

    assert ["NodeCordoned", "WorkloadEvicted", "EvictPods", "EvictPods"] == kinds(out)
    assert [(), ("n1",)] == fences(out)
    assert "node-lost" == driver.record().reason
    assert [] == driver.send(lost("n1"))


def test_nothing_starts_on_it_when_it_is_back_until_somebody_uncordons_it():
    driver = running("n1")
    driver.send(lost("n1"), fence())
    driver.send(pod_fact(PodsGone, "w1"))

    driver.send(reported(a_node("n1"), 3), nominated(a_workload(pod_count=8), number=2))
    waiting = driver.state()
    driver.send(UncordonNode(node="n1"))

    assert (State.QUEUED, State.PLACED) == (waiting, driver.state())
