"""Idle GPUs change their mode by command, one at a time, and take no work meanwhile."""

from __future__ import annotations

import pytest

from services.placement.backfill.promises import Promises
from services.placement.nodes.switching import EXPIRES_SECONDS, REST_SECONDS
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest
from shared.core.model.value import replace
from shared.events.nodes import (
    GpuHealthReported,
    KeptFor,
    NodeRemoved,
    ReconfigureGpu,
    SwitchingGpu,
)
from shared.events.pods import PodsFinished, PodsRunning
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)

SECONDS = 60
ALL_OF_A_GPU = GpuRequest(mig_profile="7g.80gb", mig_count=1)


def asked(told):
    return [one for one in told if isinstance(one, ReconfigureGpu)]


@pytest.fixture
def driver():
    """Four whole GPUs and two in MIG mode; a gang waits for six in MIG mode."""
    driver = fleet_of_both()
    driver.send(nominated(a_workload("gang", gpu=ALL_OF_A_GPU, pod_count=6)))
    return driver


def fleet_of_both():
    driver = Driver(mig_switch_seconds=SECONDS)
    driver.send(a_quota(), reported(a_node("n1", gpus=4, mig=2)))
    return driver


def switched(generation=2, **more):
    """The node with GPU 0 in MIG mode."""
    node = a_node("n1", gpus=4, mig=2, **more)
    gpus = (replace(node.gpus[0], mig=True), *node.gpus[1:])
    return reported(replace(node, gpus=gpus), generation)


def test_an_idle_gpu_is_asked_to_switch_and_no_other_until_it_has(driver):
    (command,) = asked(driver.due())

    assert (command.node, command.gpu, command.mig, command.uuid) == ("n1", 0, True, "n1-0")
    assert command.expires_at_ms == driver.now_ms + EXPIRES_SECONDS * 1000
    assert asked(driver.wait(SECONDS)) == []

    driver.send(switched())
    assert [one.gpu for one in asked(driver.wait(SECONDS))] == [1]


def test_a_gpu_that_switches_takes_no_work(driver):
    driver.due()

    driver.send(*(nominated(a_workload(f"w{n}")) for n in range(4)))

    assert [driver.state(f"w{n}") for n in range(4)].count(State.PLACED) == 3


def test_a_gpu_whose_time_is_up_is_used_again_and_nothing_is_asked_for_an_hour(driver):
    driver.due()
    names = [f"w{n}" for n in range(4)]
    driver.send(*(nominated(a_workload(name)) for name in names))
    driver.send(*(pod_fact(PodsRunning, name) for name in names))

    driver.wait(EXPIRES_SECONDS)

    assert [driver.state(name) for name in names].count(State.QUEUED) == 0
    driver.send(*(pod_fact(PodsFinished, name, succeeded=True) for name in names))
    assert asked(driver.wait(REST_SECONDS - 1)) == []
    assert len(asked(driver.wait(SECONDS))) == 1


def test_other_reports_of_the_node_do_not_end_a_switch(driver):
    driver.due()

    driver.send(reported(a_node("n1", gpus=4, mig=2, cpu_milli=65_000), 2))
    driver.send(GpuHealthReported(node="n1", gpu=1, healthy=False, generation=3))

    assert list(driver.handler.fleet.switches) == [("n1", 0)]
    assert not driver.handler.state.cluster.nodes["n1"].uses[0].usable
    driver.send(switched(4))
    assert driver.handler.fleet.switches == {}


def test_others_hear_which_gpu_switches_and_when_it_has(driver):
    driver.due()
    begun = driver.kept_nodes()
    driver.send(reported(a_node("n1", gpus=4, mig=2, cpu_milli=65_000), 2))
    assert driver.kept_nodes() == []
    driver.send(switched(3))

    (one,) = begun
    assert one.switching == (SwitchingGpu(node="n1", gpu=0),)
    assert [()] == [one.switching for one in driver.kept_nodes()]


def test_a_node_that_leaves_takes_its_switch_along(driver):
    driver.due()

    driver.send(NodeRemoved(node="n1", generation=2))

    assert driver.handler.fleet.switches == {}


def test_a_switch_stands_in_the_row_of_its_node(driver):
    driver.due()

    (row,) = [row for write in driver.outcome.writes for row in write.arguments[0] if "n1" in row]
    assert "switch_until_ms" in row


def test_idle_gpus_go_to_who_waits_for_the_other_mode_and_to_nobody_else():
    driver = fleet_of_both()
    driver.send(nominated(a_workload("large", gpus=4)))
    assert asked(driver.due()) == []

    driver.send(nominated(a_workload("w2", gpus=1)))

    assert driver.state("w2") is State.QUEUED
    (command,) = asked(driver.wait(SECONDS))
    assert (command.gpu, command.mig) == (4, False)


def test_who_waits_for_no_room_gets_no_gpu_of_the_other_mode():
    driver = Driver(mig_switch_seconds=SECONDS)
    driver.send(a_quota(held=True), reported(a_node("n1", gpus=4, mig=2)))

    driver.send(nominated(a_workload("gang", gpu=ALL_OF_A_GPU, pod_count=4)))

    assert driver.state("gang") is State.QUEUED
    assert asked(driver.due()) == []


def test_gpus_of_a_node_that_is_kept_for_somebody_stay_as_they_are(driver):
    kept = KeptFor(workload_id="w9", pin=1, nodes=("n1",))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Promises, "kept", lambda _: (kept,))
        assert asked(driver.due()) == []
    assert len(asked(driver.wait(SECONDS))) == 1


def test_without_an_interval_nothing_ever_switches():
    driver = Driver()
    driver.send(a_quota(), reported(a_node("n1", gpus=4, mig=2)))

    assert driver.handler.next_due_ms() is None


def test_a_switch_that_is_open_when_switching_is_turned_off_ends_in_its_time(driver):
    driver.due()
    off = Driver()
    off.now_ms = driver.now_ms
    off.send(a_quota(), reported(driver.handler.fleet.present["n1"]))
    off.send(*(nominated(a_workload(f"w{number}")) for number in range(4)))
    off.send(nominated(a_workload("gang", gpu=ALL_OF_A_GPU, pod_count=6)))
    assert State.QUEUED is off.state("w3")

    told = off.wait(EXPIRES_SECONDS)

    assert State.PLACED is off.state("w3")
    assert [] == asked(told), "nothing is asked of anybody"
    assert off.handler.fleet.switches == {}
    (row,) = [row for write in off.outcome.writes for row in write.arguments[0] if "n1-0" in row]
    assert "switch_until_ms" not in row
    assert off.handler.cell.switching.next_due_ms() is None
