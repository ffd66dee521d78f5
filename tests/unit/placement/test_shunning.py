"""Nodes on which nothing starts: who goes round them, when all do, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from services.placement.unit.cell_state import START_SECONDS
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.nodes.pod_failures import FailureCause
from shared.core.nodes.shunning import ShunPolicy
from shared.events.nodes import (
    CordonNode,
    NodeHeard,
    NodeRemoved,
    NodeShunned,
    NodeSilent,
    NodeUnshunned,
    UncordonNode,
)
from shared.events.plans import ReservationExpired
from shared.events.pods import (
    BindRefused,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsRunning,
    PodsUnstarted,
)
from shared.events.workloads import HoldWorkload
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
from tests.unit.placement.evicting import a_plan, a_world, ask, run

MINUTE = 60


def fleet(nodes: int = 2, gpus: int = 8, **policy: Any) -> Driver:
    driver = Driver(shun=ShunPolicy(**policy))
    driver.send(*(reported(a_node(f"n{one}", gpus=gpus)) for one in range(1, nodes + 1)))
    driver.send(a_quota())
    return driver


def node_of(driver: Driver, name: str) -> str:
    return driver.placement(name).pods[0].node


def times_out(driver: Driver, *names: str) -> list[Any]:
    """Placed already, none of them runs in time; what is told once the last pod is gone."""
    does_not_start(driver, *names)
    return driver.send(*(fact for name in names for fact in given_up(driver, name)))


def does_not_start(driver: Driver, *names: str) -> None:
    """Bound, and still not running when the time of a start is over."""
    bound = (pod_fact(PodsBound, name, driver.record(name).attempt) for name in names)
    driver.send(*bound)
    driver.wait(START_SECONDS + 1)


def given_up(driver: Driver, name: str, ranks: tuple[int, ...] = (0,)) -> list[Any]:
    """What the binder tells of an attempt that did not run in time."""
    attempt = driver.record(name).attempt
    late = pod_fact(PodsUnstarted, name, attempt, ranks=ranks)
    return [late, pod_fact(PodsGone, name, attempt)]


def only(out: list[Any], kind: type[Any]) -> list[Any]:
    return [one for one in out if isinstance(one, kind)]


def two_on_one_node(driver: Driver) -> str:
    """`a` of red and `b` of blue are placed on the same node."""
    driver.send(nominated(a_workload("a", team="red")), nominated(a_workload("b", team="blue")))
    assert node_of(driver, "a") == node_of(driver, "b")
    return node_of(driver, "a")


def test_a_workload_goes_round_the_node_on_which_it_did_not_start():
    driver = fleet()
    driver.send(nominated(a_workload("a")))
    bad = node_of(driver, "a")

    (requeued,) = times_out(driver, "a")
    driver.wait(2)
    driver.send(nominated(a_workload("a"), number=2), nominated(a_workload("z", gpus=8)))

    assert f"it did not start on {bad}" in requeued.message
    assert node_of(driver, "a") != bad
    assert node_of(driver, "z") == bad


def test_it_takes_that_node_again_if_nothing_else_has_room():
    driver = fleet(gpus=1)
    driver.send(nominated(a_workload("a")))
    bad = node_of(driver, "a")
    driver.send(nominated(a_workload("z")))
    times_out(driver, "a")
    driver.wait(2)

    driver.send(nominated(a_workload("a"), number=2))

    assert node_of(driver, "a") == bad


def test_two_workloads_that_did_not_start_shun_the_node_for_everybody():
    driver = fleet()
    bad = two_on_one_node(driver)

    (fact,) = only(times_out(driver, "a", "b"), NodeShunned)
    driver.send(*(nominated(a_workload(f"z{one}", gpus=4)) for one in range(3)))

    assert (bad, 2, 1) == (fact.node, fact.workloads, fact.rounds)
    assert driver.now_ms + MINUTE * 1000 == fact.until_ms
    assert fact.message == (
        f"node {bad} is in quarantine for 60 s,"
        " because 2 workloads did not start there within 120 s"
    )
    others = {node_of(driver, f"z{one}") for one in range(2)}
    assert bad not in others
    waits = driver.record("z2")
    assert waits.state is State.QUEUED
    assert "1 node more is in quarantine" in waits.message


def test_a_sweep_with_a_bad_image_shuns_nothing():
    driver = fleet(nodes=1)
    driver.send(*(nominated(a_workload(f"w{one}")) for one in range(8)))

    out = times_out(driver, *(f"w{one}" for one in range(8)))

    assert [] == only(out, NodeShunned)


def test_who_starts_elsewhere_afterwards_speaks_for_itself():
    driver = fleet()
    driver.send(nominated(a_workload("a")), nominated(a_workload("b")))
    bad = node_of(driver, "a")
    assert [] == only(times_out(driver, "a", "b"), NodeShunned)
    driver.wait(2)
    driver.send(nominated(a_workload("a"), number=2))
    assert node_of(driver, "a") != bad

    (fact,) = only(driver.send(pod_fact(PodsRunning, "a", 2)), NodeShunned)

    assert bad == fact.node
    assert () == driver.record("a").avoids


@pytest.mark.parametrize("kind", [PodsRunning, PodsFinished])
def test_a_start_in_between_clears_the_node(kind: type[Any]):
    driver = fleet()
    bad = two_on_one_node(driver)
    times_out(driver, "a")
    driver.send(nominated(a_workload("d")))
    assert node_of(driver, "d") == bad
    more = {"succeeded": True} if kind is PodsFinished else {}
    driver.send(pod_fact(kind, "d", **more))

    driver.send(*given_up(driver, "b"))

    assert not driver.handler.fleet.shunned


def test_the_end_of_work_that_ran_before_is_no_start():
    driver = fleet()
    driver.send(nominated(a_workload("old")))
    driver.send(pod_fact(PodsRunning, "old"))
    bad = two_on_one_node(driver)
    assert node_of(driver, "old") == bad
    times_out(driver, "a")
    driver.send(pod_fact(PodsFinished, "old", succeeded=True))

    assert 1 == len(only(driver.send(*given_up(driver, "b")), NodeShunned))


def test_the_time_ends_by_itself_and_doubles_when_nothing_starts_again():
    driver = fleet(seconds=300)
    bad = two_on_one_node(driver)
    times_out(driver, "a", "b")
    assert driver.now_ms + 300_000 == driver.handler.shunning.next_due_ms()
    assert [] == only(driver.wait(299), NodeUnshunned)
    assert driver.now_ms + 1_000 == driver.handler.next_due_ms()

    (opened,) = only(driver.wait(1), NodeUnshunned)
    other = ({"n1", "n2"} - {bad}).pop()
    driver.send(CordonNode(node=other))
    driver.send(nominated(a_workload("c", team="green")))
    assert node_of(driver, "c") == bad
    (fact,) = only(times_out(driver, "c"), NodeShunned)

    assert (bad, "expired") == (opened.node, opened.reason)
    assert (2, 3, 600_000) == (fact.rounds, fact.workloads, fact.until_ms - driver.now_ms)


def test_who_was_placed_before_it_was_shunned_does_not_make_it_longer():
    driver = fleet(seconds=1)
    bad = two_on_one_node(driver)
    driver.wait(START_SECONDS - 1)
    driver.send(nominated(a_workload("late", team="green")))
    assert node_of(driver, "late") == bad
    assert 1 == len(only(times_out(driver, "a", "b"), NodeShunned))
    assert 1 == len(only(driver.wait(2), NodeUnshunned))

    assert [] == only(times_out(driver, "late"), NodeShunned)


def test_the_first_start_there_ends_it():
    driver = fleet()
    bad = two_on_one_node(driver)
    driver.wait(START_SECONDS - 1)
    driver.send(nominated(a_workload("late", team="green")), nominated(a_workload("z", gpus=8)))
    driver.send(nominated(a_workload("waits", gpus=4)))
    assert node_of(driver, "late") == node_of(driver, "waits") == bad
    driver.wait(2)
    driver.send(*given_up(driver, "a"), *given_up(driver, "b"))
    driver.send(nominated(a_workload("next")))
    assert driver.state("next") is State.QUEUED

    out = driver.send(pod_fact(PodsRunning, "late"))

    (fact,) = only(out, NodeUnshunned)
    assert (bad, "started") == (fact.node, fact.reason)
    assert node_of(driver, "next") == bad


def test_an_operator_ends_it():
    driver = fleet()
    bad = two_on_one_node(driver)
    times_out(driver, "a", "b")

    (fact,) = only(driver.send(UncordonNode(node=bad)), NodeUnshunned)

    assert "uncordoned" == fact.reason
    assert driver.handler.shunning.next_due_ms() is None


def test_a_machine_that_was_removed_is_forgotten():
    driver = fleet()
    bad = two_on_one_node(driver)
    times_out(driver, "a", "b")

    (fact,) = only(driver.send(NodeRemoved(node=bad, generation=2)), NodeUnshunned)
    driver.send(reported(a_node(bad), 3))

    assert "removed" == fact.reason
    assert not driver.handler.fleet.shunned
    assert [] == driver.wait(2 * MINUTE)


def test_a_new_inventory_does_not_end_it():
    driver = fleet()
    bad = two_on_one_node(driver)
    times_out(driver, "a", "b")

    driver.send(reported(a_node(bad), 2))
    driver.send(nominated(a_workload("z")))

    assert node_of(driver, "z") != bad


def test_the_last_node_of_a_flavor_is_never_shunned():
    driver = fleet(nodes=1)
    two_on_one_node(driver)

    assert [] == only(times_out(driver, "a", "b"), NodeShunned)


def test_no_more_than_a_part_of_the_flavor_is_shunned():
    driver = fleet(nodes=4, gpus=2, percent_max=25)
    teams = ("red", "blue")
    names = [f"w{number}" for number in range(8)]
    for number, name in enumerate(names):
        driver.send(nominated(a_workload(name, team=teams[number % 2])))

    out = times_out(driver, *names)

    assert 1 == len(only(out, NodeShunned))


def test_it_can_be_switched_off():
    driver = fleet(seconds=0)
    two_on_one_node(driver)

    assert [] == only(times_out(driver, "a", "b"), NodeShunned)


def test_only_nodes_of_pods_that_did_not_start_are_blamed():
    driver = fleet(nodes=3)
    gang = a_workload("gang", gpus=8, pod_count=2)
    driver.send(nominated(gang))
    first, second = (pod.node for pod in driver.placement("gang").pods)
    driver.wait(START_SECONDS + 1)

    driver.send(*given_up(driver, "gang", (1,)))

    assert (second,) == driver.record("gang").avoids
    driver.wait(2)
    driver.send(nominated(gang, number=2))
    again = {pod.node for pod in driver.placement("gang").pods}
    assert second not in again
    assert first in again


def test_pods_that_the_cluster_did_not_bind_in_time_count_too():
    driver = fleet()
    bad = two_on_one_node(driver)
    refused: dict[str, Any] = {"reason": "BindTimeout", "message": "", "unstarted": (0,)}

    out = driver.send(*(pod_fact(BindRefused, name, **refused) for name in ("a", "b")))

    assert [bad] == [one.node for one in only(out, NodeShunned)]


def test_pods_that_hang_when_they_are_deleted_speak_against_the_node_already():
    driver = fleet()
    bad = two_on_one_node(driver)
    does_not_start(driver, "a", "b")

    out = driver.send(*(pod_fact(PodsUnstarted, name, ranks=(0,)) for name in ("a", "b")))

    assert [bad] == [one.node for one in only(out, NodeShunned)]
    assert [State.EVICTING] * 2 == [driver.state(name) for name in ("a", "b")]


def test_room_that_was_kept_on_a_shunned_node_is_given_up():
    driver = a_world(quota=16)
    run(driver, "a", gpus=4)
    for name, team in (("b", "red"), ("c", "blue")):
        driver.send(nominated(a_workload(name, gpus=2, team=team, queue="owner")))
    driver.send(reported(a_node("n2", gpus=1)))
    does_not_start(driver, "b", "c")
    driver.send(*given_up(driver, "b"))
    ask(driver, gpus=6)
    driver.send(a_plan(driver, "a"))

    out = driver.send(pod_fact(PodsUnstarted, "c", ranks=(0,)))

    assert 1 == len(only(out, NodeShunned))
    (expired,) = only(out, ReservationExpired)
    assert ("no-longer-fits", "node n1 takes no work any more") == (
        expired.reason,
        expired.message,
    )


def test_rows_come_and_go_with_what_they_say():
    driver = fleet()
    bad = two_on_one_node(driver)

    def rows(table: str) -> list[tuple[str, list[str]]]:
        found = [one for one in driver.outcome.writes if f"placement.{table}" in one.sql]
        return [(one.sql.split()[0], one.arguments[0]) for one in found]

    times_out(driver, "a", "b")
    assert [("INSERT", [bad])] == rows("suspicion")
    assert [("INSERT", ["a", "b"])] == rows("avoided")
    driver.wait(2)
    driver.send(nominated(a_workload("a"), number=2))
    driver.send(pod_fact(PodsRunning, "a", 2))
    assert [("DELETE", ["a"])] == rows("avoided")
    driver.send(UncordonNode(node=bad))
    assert [("DELETE", [bad])] == rows("suspicion")
    assert ["WorkloadHeld"] == kinds(driver.send(command(HoldWorkload, "b")))


def refuses(driver: Driver, name: str, node: str) -> list[Any]:
    """The kubelet of a node would not take a pod of the workload."""
    fact = pod_fact(
        PodsFinished, name, driver.record(name).attempt, succeeded=False, lost=True, node=node,
        reason="UnexpectedAdmissionError", cause=FailureCause.KUBELET_REFUSED,
    )  # fmt: skip
    return driver.send(fact)


def test_a_node_whose_kubelet_refuses_a_pod_rests_at_once_and_longer_each_time():
    driver = fleet()
    driver.send(nominated(a_workload("a", max_retries=0)))
    bad = node_of(driver, "a")

    out = refuses(driver, "a", bad)
    (first,) = only(out, NodeShunned)
    record = (driver.state("a"), driver.record("a").failures, driver.record("a").avoids)
    driver.wait(31)
    driver.send(nominated(a_workload("b")))
    (again,) = only(refuses(driver, "b", bad), NodeShunned)

    assert (first.node, first.until_ms - driver.now_ms + 31_000) == (bad, 30_000)
    assert first.message == (
        f"node {bad} is in quarantine for 30 s, because its kubelet refused a pod"
    )
    assert record == (State.QUEUED, 0, (bad,))
    assert (again.rounds, again.until_ms - driver.now_ms) == (2, 60_000)


def test_the_only_node_does_not_rest_but_its_work_waits():
    driver = fleet(nodes=1)
    driver.send(nominated(a_workload("a")))

    out = refuses(driver, "a", "n1")

    assert only(out, NodeShunned) == []
    assert "tried again in" in out[-1].message
    assert out[-1].reason == "kubelet-refused"


def test_a_node_whose_agent_is_silent_takes_nothing_new_until_it_is_heard():
    driver = fleet(nodes=2)
    (told,) = driver.send(NodeSilent(node="n1", since_ms=0, silent_ms=35_000))
    assert driver.send(NodeSilent(node="n1", since_ms=0, silent_ms=35_000)) == []
    driver.send(nominated(a_workload("w1", gpus=8)), nominated(a_workload("w2", gpus=8)))

    assert told.message == (
        "node n1 is in quarantine until its agent is heard: it has told nothing for 35 s"
    )
    assert (node_of(driver, "w1"), driver.state("w2")) == ("n2", State.QUEUED)

    (heard,) = only(driver.send(NodeHeard(node="n1")), NodeUnshunned)

    assert heard.reason == Reason.HEARD
    assert node_of(driver, "w2") == "n1"
    assert driver.send(NodeHeard(node="n1")) == []


def test_what_runs_on_a_silent_node_stays():
    driver = fleet(nodes=1)
    driver.send(nominated(a_workload("w1")))
    run(driver, "w1")

    driver.send(NodeSilent(node="n1", since_ms=0, silent_ms=35_000))

    assert driver.state("w1") is State.RUNNING


def test_a_start_on_a_silent_node_does_not_end_its_silence():
    driver = fleet(nodes=1)
    driver.send(nominated(a_workload("w1")))
    driver.send(NodeSilent(node="n1", since_ms=0, silent_ms=35_000))
    run(driver, "w1")
    driver.send(nominated(a_workload("w2")))

    assert driver.state("w2") is State.QUEUED
    driver.send(NodeHeard(node="n1"))
    assert driver.state("w2") is State.PLACED


def test_a_silent_node_is_tried_again_after_a_day():
    driver = fleet(nodes=1)
    driver.send(NodeSilent(node="n1", since_ms=0, silent_ms=35_000))

    (told,) = only(driver.wait(86_400), NodeUnshunned)

    assert told.reason == Reason.EXPIRED
