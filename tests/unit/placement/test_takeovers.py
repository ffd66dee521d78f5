"""The ledger says which GPUs pods really have, once their kubelets have said so."""

from __future__ import annotations

from typing import Any

from services.placement.nodes.takeovers import ROWS
from services.placement.state.allocations import LedgerRows
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest
from shared.core.model.value import replace
from shared.events.nodes import (
    NodeDevicesDisputed,
    NodeDevicesLearned,
    NodeDevicesSettled,
    NodeRemoved,
    UncordonNode,
)
from shared.events.plans import ReservationExpired
from shared.events.pods import PodDevices, PodDevicesTold, PodsGone, PodsRunning
from shared.events.workloads import CancelWorkload, RequestEviction
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
from tests.unit.placement.evicting import a_plan, full_world


def world(*names: str, node: Any = None, **spec: Any) -> Driver:
    """Workloads that run on one node of four GPUs, each of one GPU unless it is said."""
    driver = Driver()
    driver.send(reported(node or a_node(gpus=4)), a_quota())
    for name in names:
        driver.send(nominated(a_workload(name, **spec)))
        driver.send(pod_fact(PodsRunning, name))
    return driver


def told(name: str, *indexes: int, rank: int = 0, node: str = "n1", attempt: int = 1) -> Any:
    """Its kubelet says that it has the GPUs that the inventory has at these indexes."""
    devices = tuple(f"{node}-{index}" for index in indexes)
    return pod_fact(PodDevicesTold, name, attempt, pods=(PodDevices(rank=rank, devices=devices),))


def holds(driver: Driver, name: str = "w1", rank: int = 0) -> set[int]:
    (pod,) = (one for one in driver.placement(name).pods if one.rank == rank)
    return {share.index for share in pod.shares}


def others(driver: Driver, *names: str) -> list[int]:
    """Indexes that none of these holds."""
    held = set().union(*(holds(driver, name) for name in names))
    return sorted(set(range(4)) - held)


def ledger(driver: Driver) -> tuple[list[str], int, list[tuple[str, int]]]:
    """What the last unit gives back, how many rows, and what it charges: (workload, GPU)."""
    (write,) = (one for one in driver.outcome.writes if "change_ledger" in one.sql)
    released, rows, charged = write.arguments[2], write.arguments[5], write.arguments[6]
    return released, rows, sorted(zip(charged, write.arguments[10], strict=True))


def rows(driver: Driver) -> list[str]:
    return [one.sql.split()[0] for one in driver.outcome.writes if ROWS.table in one.sql]


def test_where_the_ledger_was_right_it_is_only_noted_and_again_changes_nothing():
    driver = world("w1")
    (index,) = holds(driver)

    assert [] == driver.send(told("w1", index))
    assert ["INSERT"] == rows(driver)
    assert [] == driver.send(told("w1", index))
    assert [] == driver.outcome.writes


def test_two_pods_exchange_their_gpus_in_one_unit_and_one_fact():
    driver = world("w1", "w2")
    (one,), (two,) = holds(driver, "w1"), holds(driver, "w2")
    versions = [driver.record(name).version for name in ("w1", "w2")]

    (fact,) = driver.send(told("w1", two))
    after = ledger(driver)
    again = driver.send(told("w2", one), told("w1", two))

    assert ({two}, {one}) == (holds(driver, "w1"), holds(driver, "w2"))
    assert (["w1", "w2"], 2, [("w1", two), ("w2", one)]) == after
    assert isinstance(fact, NodeDevicesLearned)
    assert [
        ("w1", 1, driver.placement("w1")),
        ("w2", 1, driver.placement("w2")),
    ] == [(held.workload_id, held.attempt, held.placement) for held in fact.workloads]
    assert versions == [driver.record(name).version for name in ("w1", "w2")]
    assert [] == again


def test_reports_of_one_unit_follow_each_other_and_are_written_once():
    driver = world("w1", "w2", "w3")
    one, two, three = ({*holds(driver, name)}.pop() for name in ("w1", "w2", "w3"))

    driver.send(told("w1", two), told("w2", three), told("w3", one))

    assert [{two}, {three}, {one}] == [holds(driver, name) for name in ("w1", "w2", "w3")]
    released, count, charged = ledger(driver)
    assert (["w1", "w2", "w3"], 3) == (sorted(released), count)
    assert [("w1", two), ("w2", three), ("w3", one)] == charged


def test_a_gang_keeps_what_it_has_on_other_nodes():
    driver = Driver()
    driver.send(reported(a_node("n1")), reported(a_node("n2")), a_quota())
    driver.send(nominated(a_workload("w1", gpus=6, pod_count=2)))
    driver.send(pod_fact(PodsRunning, "w1"))
    first, second = driver.placement().pods
    free = sorted({*range(8)} - {share.index for share in first.shares})
    kept = sorted(share.index for share in first.shares)[2:]

    driver.send(told("w1", *free, *kept, node=first.node))

    assert {*free, *kept} == holds(driver)
    assert second == driver.placement().pods[1]
    assert (["w1"], 12) == ledger(driver)[:2]


def test_a_report_of_an_attempt_that_is_over_changes_nothing():
    driver = world("w1")
    free = others(driver, "w1")[0]

    assert [] == driver.send(told("w1", free, attempt=2))
    assert [] == driver.send(told("w9", free))
    driver.send(command(RequestEviction, "w1"))
    driver.send(pod_fact(PodsGone, "w1"), told("w1", free))
    assert State.QUEUED is driver.state()


def test_who_is_being_stopped_is_moved_as_well():
    driver = world("w1", "w2")
    (two,) = holds(driver, "w2")
    driver.send(command(CancelWorkload, "w2"))

    driver.send(told("w1", two))
    driver.send(pod_fact(PodsGone, "w2"))

    assert {two} == holds(driver, "w1")
    assert State.CANCELLED is driver.state("w2")


def test_whose_kubelet_has_told_keeps_his_gpu_and_it_takes_no_new_work():
    driver = world("w1", "w2")
    (one,), (two,) = holds(driver, "w1"), holds(driver, "w2")
    driver.send(told("w2", two))

    (fact,) = driver.send(told("w1", two))
    kept = driver.kept_nodes()
    again = driver.send(told("w1", two))
    driver.send(command(CancelWorkload, "w2"))
    driver.send(pod_fact(PodsGone, "w2"))
    for name in ("w3", "w4", "w5"):
        driver.send(nominated(a_workload(name)))

    assert isinstance(fact, NodeDevicesDisputed)
    text = f"pod w1-1-0: its kubelet gave it GPU {two} (n1-{two}), which is somebody else's"
    assert ((two,), "w1", 1, 0, text) == (
        fact.gpus, fact.workload_id, fact.attempt, fact.rank, fact.message,
    )  # fmt: skip
    assert [(("n1", two),)] == [tuple((g.node, g.gpu) for g in one.switching) for one in kept]
    assert ({one}, []) == (holds(driver, "w1"), again)
    assert [State.PLACED, State.PLACED, State.QUEUED] == [
        driver.state(name) for name in ("w3", "w4", "w5")
    ]

    driver.send(UncordonNode(node="n1"))

    assert State.PLACED is driver.state("w5")
    assert {two} == holds(driver, "w5")


def test_a_pod_of_a_gang_that_has_ended_keeps_nothing_from_others():
    driver = world("gang", pod_count=2)
    driver.send(nominated(a_workload("w1")))
    driver.send(pod_fact(PodsRunning, "w1"))
    (first,), (second,) = holds(driver, "gang", 0), holds(driver, "gang", 1)
    driver.send(told("gang", first), told("gang", second, rank=1))
    (before,) = holds(driver, "w1")

    ended = driver.send(pod_fact(PodDevicesTold, "gang", pods=(PodDevices(rank=0, devices=()),)))
    noted = rows(driver)
    driver.send(told("w1", first))
    double = driver.send(told("w1", second))

    assert ([], ["INSERT"]) == (ended, noted)
    assert [{first}, {before}, {second}] == [
        holds(driver, "w1"), holds(driver, "gang", 0), holds(driver, "gang", 1),
    ]  # fmt: skip
    assert ["NodeDevicesDisputed"] == kinds(double)


def test_another_number_of_gpus_is_disputed():
    driver = world("w1", gpus=2)
    index = min(holds(driver))

    (fact,) = driver.send(told("w1", index))

    assert isinstance(fact, NodeDevicesDisputed)
    assert holds(driver) == {*fact.gpus}
    assert "1 GPU by its kubelet and 2 by the ledger" in fact.message


def test_where_the_inventory_names_no_gpu_nobody_moves_and_names_are_noted():
    node = a_node(gpus=4)
    nameless = replace(node, gpus=tuple(replace(gpu, uuid="") for gpu in node.gpus))
    driver = world("w1", "w2", node=nameless)
    before = holds(driver, "w1"), holds(driver, "w2")

    first = driver.send(told("w1", 3))
    noted = rows(driver)
    double = driver.send(told("w2", 3))

    assert (before, [], ["INSERT"]) == (
        (holds(driver, "w1"), holds(driver, "w2")), first, noted,
    )  # fmt: skip
    assert ["NodeDevicesDisputed"] == kinds(double)


def test_shares_and_instances_are_not_taken_over():
    driver = world("w1", gpu=GpuRequest(milli=500, memory_mib=1_000))

    assert [] == driver.send(told("w1", 3))
    assert [] == driver.outcome.writes


def test_a_machine_that_left_takes_what_was_told_with_it():
    driver = world("w1", "w2")
    (two,) = holds(driver, "w2")
    driver.send(told("w2", two))
    driver.send(told("w1", two))

    driver.send(NodeRemoved(node="n1", generation=2))
    gone = rows(driver)
    driver.send(pod_fact(PodsGone, "w1"), pod_fact(PodsGone, "w2"))
    driver.send(reported(a_node(gpus=4), 3), a_quota(version=2))
    for number in range(4):
        driver.send(nominated(a_workload(f"x{number}")))

    assert ["DELETE"] == gone
    assert [State.PLACED] * 4 == [driver.state(f"x{number}") for number in range(4)]


def test_room_that_is_reserved_where_gpus_change_hands_is_given_up():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))
    has = sorted(holds(driver, "b"))

    out = driver.send(told("a", *has))

    assert {"NodeDevicesLearned", "ReservationExpired"} <= {*kinds(out)}
    (expired,) = (one for one in out if isinstance(one, ReservationExpired))
    assert "other GPUs free" in expired.message
    assert {*has} == holds(driver, "a")


def test_rows_of_who_was_charged_in_this_unit_are_not_given_back():
    """They are not written yet."""
    driver = world("w1", "w2")
    first, second = driver.placement("w1"), driver.placement("w2")
    workload, rows_of_unit = driver.record("w1").workload, LedgerRows()

    rows_of_unit.charge(workload, 1, first)
    rows_of_unit.recharge(workload, 1, second)
    fresh = (rows_of_unit.released, rows_of_unit.released_rows, len(rows_of_unit.charged))
    other = LedgerRows()
    other.recharge(workload, 1, second)
    other.recharge(workload, 1, first)

    assert ([], 0, 1) == fresh
    assert second.pods[0].shares[0].index == rows_of_unit.charged[0][4]
    assert (["w1"], 1, 1) == (other.released, other.released_rows, len(other.charged))
    assert first.pods[0].shares[0].index == other.charged[0][4]


def nameless(node: Any) -> Any:
    """The same node where a device plugin counts its GPUs and no agent names them yet."""
    return replace(node, gpus=tuple(replace(gpu, uuid="") for gpu in node.gpus))


def test_an_inventory_that_names_gpus_moves_the_ledger_to_what_kubelets_told_before():
    node = a_node(gpus=4)
    driver = world("w1", "w2", "w3", node=nameless(node))
    before = {name: holds(driver, name) for name in ("w1", "w2", "w3")}
    (one,), (two,) = before["w1"], before["w2"]
    driver.send(told("w1", two), told("w2", one))
    assert before == {name: holds(driver, name) for name in before}, "no name says where it is"

    out = driver.send(reported(node, 2))
    charged = ledger(driver)
    again = driver.send(reported(node, 3))

    assert ["NodeDevicesLearned"] == kinds(out)
    assert [{two}, {one}, before["w3"]] == [holds(driver, name) for name in before]
    assert (["w1", "w2"], 2, [("w1", two), ("w2", one)]) == charged
    assert [] == again
    assert [State.RUNNING] * 3 == [driver.state(name) for name in before]


def test_who_has_told_nothing_makes_room_for_who_has():
    node = a_node(gpus=4)
    driver = world("w1", "w2", node=nameless(node))
    (one,), (two,) = holds(driver, "w1"), holds(driver, "w2")
    driver.send(told("w1", two))

    driver.send(reported(node, 2))

    assert {two} == holds(driver, "w1")
    assert {one} == holds(driver, "w2")


def test_an_inventory_with_the_names_that_are_known_asks_nobody():
    node = a_node(gpus=4)
    driver = world("w1", node=node)
    driver.send(told("w1", *holds(driver)))

    driver.send(reported(replace(node, cordoned=True), 2))

    assert [] == rows(driver)


def test_a_kubelet_that_restarts_lists_no_gpu_and_disputes_nothing_by_what_it_told_before():
    node = nameless(a_node(gpus=4))
    driver = world("w1", node=node)
    driver.send(told("w1", 3))
    driver.send(reported(replace(node, gpus=()), 2))

    assert [] == driver.send(told("w1", 3))
    assert [] == rows(driver)
    assert [] == driver.send(reported(node, 3))
    assert [] == rows(driver)


def test_what_is_told_while_no_gpu_is_listed_is_read_when_they_are_listed_again():
    node = a_node(gpus=4)
    driver = world("w1", "w2", node=node)
    (one,), (two,) = holds(driver, "w1"), holds(driver, "w2")
    driver.send(reported(replace(node, gpus=()), 2))

    assert [] == driver.send(told("w1", one), told("w1", two), told("w2", one))
    assert ["INSERT"] == rows(driver)
    out = driver.send(reported(node, 3))

    assert ["NodeDevicesLearned"] == kinds(out)
    assert [{two}, {one}] == [holds(driver, "w1"), holds(driver, "w2")]
    assert [] == driver.send(reported(node, 4))
    assert [] == rows(driver)


def test_all_gpus_that_are_disputed_are_told_and_that_they_take_work_again():
    driver = world("w1", "w2", gpu=GpuRequest(count=2))
    (first,) = driver.send(told("w1", *list(holds(driver, "w1"))[:1]))
    (second,) = driver.send(told("w2", *list(holds(driver, "w2"))[:1]))

    settled = driver.send(UncordonNode(node="n1"))
    again = driver.send(UncordonNode(node="n1"))

    assert sorted(holds(driver, "w1")) == sorted(first.disputed)
    assert (0, 1, 2, 3) == second.disputed
    assert [NodeDevicesSettled(node="n1")] == settled
    assert [] == again
    driver.send(told("w1", *list(holds(driver, "w1"))[:1]))
    gone = driver.send(NodeRemoved(node="n1", generation=2))
    assert NodeDevicesSettled(node="n1") in gone
