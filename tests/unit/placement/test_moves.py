"""Who goes on elsewhere for a preemptor: its new place is kept, and it starts there at once."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest, GpuShare, Placement, PodPlacement
from shared.core.model.value import replace
from shared.events.nodes import NodeRemoved
from shared.events.plans import EvictionPlanAccepted, PlannedVictim, ReservationExpired
from shared.events.pods import PodsFinished
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    WorkloadEvicted,
    WorkloadPlaced,
)
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
from tests.unit.placement.evicting import a_plan, ask, gone, run


def broken_up() -> Driver:
    """Two nodes with two GPUs in use on each, by owners; `p` wants one of them whole."""
    driver = Driver()
    driver.send(
        reported(a_node("n1")),
        reported(a_node("n2")),
        a_quota("all", 0, kind="cohort"),
        a_quota("small", 6, parent="all"),
        a_quota("owner", 10, parent="all"),
    )
    for name, gpus in (("a", 2), ("filler", 6), ("b", 2)):
        run(driver, name, queue="small" if name != "filler" else "owner", gpus=gpus)
    driver.send(pod_fact(PodsFinished, "filler", succeeded=True))
    ask(driver, gpus=8)
    assert node_of(driver, "a") != node_of(driver, "b")
    return driver


def node_of(driver: Driver, name: str) -> str:
    return driver.placement(name).pods[0].node


def at(driver: Driver, name: str, node: str, *gpus: int) -> Placement:
    """Where `name` is, but on these GPUs of another node."""
    placement = driver.placement(name)
    (pod,) = placement.pods
    shares = tuple(
        replace(share, index=index) for share, index in zip(pod.shares, gpus, strict=True)
    )
    return replace(placement, pods=(replace(pod, node=node, shares=shares),))


def moving(driver: Driver, name: str, to: Placement, **more: Any) -> PlannedVictim:
    record = driver.record(name)
    return PlannedVictim(
        workload_id=name,
        version=record.version,
        attempt=record.attempt,
        rule="move",
        moves_to=to,
        **more,
    )


def the_move(driver: Driver) -> Any:
    """The plan to move `b` beside `a`."""
    to = at(driver, "b", node_of(driver, "a"), 6, 7)
    return a_plan(driver, victims=(moving(driver, "b", to),), rule="move")


def test_the_mover_and_the_preemptor_start_in_the_unit_in_which_its_pods_are_gone():
    driver = broken_up()
    left, kept = node_of(driver, "b"), node_of(driver, "a")

    accepted, evicted, _ = driver.send(the_move(driver))
    out = driver.send(gone("b"))

    assert isinstance(accepted, EvictionPlanAccepted)
    assert isinstance(evicted, WorkloadEvicted)
    assert evicted.reason == "moved"
    assert f"for workload p of team red (queue owner); it goes on at {kept}" in evicted.message
    assert evicted.preemption is not None
    assert ("p", "move") == (evicted.preemption.workload_id, evicted.preemption.rule)
    placed = {one.workload_id: one for one in out if isinstance(one, WorkloadPlaced)}
    assert {"p", "b"} == placed.keys()
    assert [kept] == [pod.node for pod in placed["b"].placement.pods]
    assert [left] == [pod.node for pod in placed["p"].placement.pods]
    assert (2, 0) == (driver.record("b").attempt, driver.record("b").failures)
    assert len(driver.handler.state.reservations) == 0


def test_nobody_else_is_given_the_new_place_or_the_quota_of_a_mover():
    driver = broken_up()
    driver.send(the_move(driver))

    driver.send(nominated(a_workload("thief", gpus=6, queue="small")))
    driver.send(nominated(a_workload("fits", gpus=2, queue="small")))

    assert driver.state("thief") is State.QUEUED
    assert driver.state("fits") is State.PLACED, "four GPUs are nobody's beside a"
    assert {6, 7}.isdisjoint(
        share.index for pod in driver.placement("fits").pods for share in pod.shares
    )
    driver.send(gone("b"))
    assert [State.PLACED] * 2 == [driver.state("p"), driver.state("b")]


def test_the_preemptor_gets_no_quota_from_a_mover():
    driver = broken_up()
    driver.send(a_quota("owner", 5, parent="all", version=2))

    out = driver.send(the_move(driver))

    assert ["EvictionPlanRefused"] == kinds(out)
    assert driver.state("b") is State.RUNNING


def test_a_mover_that_ends_while_it_stops_gives_its_new_place_back():
    driver = broken_up()
    driver.send(the_move(driver))

    out = driver.send(pod_fact(PodsFinished, "b", succeeded=True))

    assert ["WorkloadSucceeded", "ReservationExpired", "WorkloadPlaced", "BindWorkload"] == kinds(
        out
    )
    assert driver.state("p") is State.PLACED
    assert len(driver.handler.state.reservations) == 0


@pytest.mark.parametrize(
    ("order", "state"),
    [(CancelWorkload, State.CANCELLED), (HoldWorkload, State.HELD)],
)
def test_what_its_owner_wants_of_a_mover_goes_before_its_move(order: Any, state: State):
    driver = broken_up()
    driver.send(the_move(driver))
    driver.send(command(order, "b"))

    driver.send(gone("b"))

    assert driver.state("b") is state
    assert driver.state("p") is State.PLACED
    assert len(driver.handler.state.reservations) == 0


def test_a_mover_whose_new_node_is_lost_waits_in_its_queue_and_the_preemptor_starts():
    driver = broken_up()
    driver.send(the_move(driver))

    out = driver.send(NodeRemoved(node=node_of(driver, "a"), generation=2))
    assert ["b"] == [one.workload_id for one in out if isinstance(one, ReservationExpired)]
    driver.send(gone("b"))

    assert (State.QUEUED, "") == (driver.state("b"), driver.record("b").deadline_kind)
    assert driver.state("p") is State.PLACED


@pytest.mark.parametrize("shut", ["held", "draining"])
def test_nobody_moves_on_in_a_queue_that_was_shut_meanwhile(shut: str):
    driver = broken_up()
    driver.send(the_move(driver))
    more: dict[str, Any] = {shut: True}
    driver.send(a_quota("small", 6, parent="all", version=2, **more))

    out = driver.send(gone("b"))

    assert ["no-longer-fits"] == [one.reason for one in out if isinstance(one, ReservationExpired)]
    assert [State.QUEUED, State.PLACED] == [driver.state("b"), driver.state("p")]


def test_a_preemptor_that_leaves_does_not_stop_a_move_that_began():
    driver = broken_up()
    driver.send(the_move(driver))

    driver.send(command(CancelWorkload, "p"))
    driver.send(gone("b"))

    assert (State.CANCELLED, State.PLACED) == (driver.state("p"), driver.state("b"))


def test_a_mover_waits_for_who_is_still_at_its_new_place_and_no_longer_than_the_plan_holds():
    """`b` goes where `a` was, `a` where nobody was: each waits for its own place only."""
    driver = broken_up()
    driver.send(reported(a_node("n3", gpus=4)))
    a, b = node_of(driver, "a"), node_of(driver, "b")
    there = driver.placement("a").pods[0].shares
    moves = (
        moving(driver, "a", at(driver, "a", "n3", 0, 1)),
        moving(driver, "b", at(driver, "b", a, *(share.index for share in there))),
    )
    driver.send(a_plan(driver, victims=moves, rule="move"))

    driver.send(gone("b"))
    assert (State.QUEUED, "reservation") == (driver.state("b"), driver.record("b").deadline_kind)
    assert driver.state("p") is State.PLACED, f"{b} is empty"
    driver.send(gone("a"))

    assert (a, "n3") == (node_of(driver, "b"), node_of(driver, "a"))


def test_a_mover_that_waits_too_long_for_its_new_place_gives_it_up():
    driver = broken_up()
    driver.send(reported(a_node("n3", gpus=4)))
    a = node_of(driver, "a")
    there = driver.placement("a").pods[0].shares
    moves = (
        moving(driver, "a", at(driver, "a", "n3", 0, 1)),
        moving(driver, "b", at(driver, "b", a, *(share.index for share in there))),
    )
    driver.send(a_plan(driver, victims=moves, rule="move"))
    driver.send(gone("b"))

    out = driver.wait(driver.record("b").deadline_ms - driver.now_ms)

    assert ["timed-out"] == [one.reason for one in out if isinstance(one, ReservationExpired)]
    assert (State.QUEUED, "") == (driver.state("b"), driver.record("b").deadline_kind)


@pytest.mark.parametrize("what", ["taken", "pods", "charge"])
def test_a_move_that_cannot_be_is_refused_and_nothing_is_done(what: str):
    driver = broken_up()
    to = at(driver, "b", node_of(driver, "a"), 6, 7)
    if what == "taken":
        to = at(driver, "b", node_of(driver, "a"), *_gpus(driver, "a"))
    elif what == "pods":
        pod = PodPlacement(
            rank=1,
            node="n1",
            pod_set="main",
            shares=(GpuShare(index=5, mask=0xFF, milli=1_000, memory_mib=0),),
        )
        to = replace(to, pods=(*to.pods, pod))
    else:
        to = replace(to, charge=replace(to.charge, gpu_milli=3_000))

    out = driver.send(a_plan(driver, victims=(moving(driver, "b", to),), rule="move"))

    assert ["EvictionPlanRefused"] == kinds(out)
    assert driver.state("b") is State.RUNNING
    assert len(driver.handler.state.reservations) == 0


def _gpus(driver: Driver, name: str) -> list[int]:
    return [share.index for share in driver.placement(name).pods[0].shares]


@pytest.mark.parametrize("last", ["v1", "v2"])
@pytest.mark.parametrize("movers", [("m1", "m2"), ("m2", "m1")])
def test_two_go_on_together_on_a_gpu_that_another_team_is_leaving(last: str, movers: tuple):
    """While one of those who leave is still there, the rest of the GPU is kept only once."""
    driver = Driver()
    half = GpuRequest(milli=500, memory_mib=10_000)
    driver.send(
        reported(a_node("n1", gpus=1)),
        a_quota("all", 0, kind="cohort"),
        a_quota("small", 2, parent="all"),
        a_quota("owner", 2, parent="all"),
    )
    for name in ("v1", "v2"):
        run(driver, name, queue="small", team="blue", gpu=half)
    driver.send(reported(a_node("n2", gpus=1)))
    for name in ("m1", "m2"):
        run(driver, name, queue="small", team="red", gpu=half)
    ask(driver, gpus=1)
    victims = [
        PlannedVictim(
            workload_id=one, version=driver.record(one).version, attempt=1, rule="reclaim"
        )
        for one in ("v1", "v2")
    ]
    victims += [moving(driver, one, at(driver, one, "n1", 0)) for one in movers]
    driver.send(a_plan(driver, victims=tuple(victims)))
    first = next(one for one in ("v1", "v2") if one != last)

    driver.send(gone(first))
    assert {0: 1_000} == {
        index: use.milli for index, use in driver.handler.state.cluster.nodes["n1"].uses.items()
    }
    driver.send(gone(last))
    driver.send(gone("m1"), gone("m2"))

    assert ["n1", "n1", "n2"] == [node_of(driver, one) for one in ("m1", "m2", "p")]
    assert 0 == len(driver.handler.state.reservations)
