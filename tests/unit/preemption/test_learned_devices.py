"""Preemption knows who holds which GPU also where kubelets chose others than the ledger."""

from __future__ import annotations

import msgspec

from shared.events.nodes import NodeDevicesLearned
from shared.events.pods import PodDevices, PodDevicesTold
from shared.events.workloads import RequestEviction
from tests.support.placement_driver import command, pod_fact
from tests.unit.preemption.world import Cell


def a_full_cell() -> Cell:
    cell = Cell()
    cell.queue("owner", 8)
    cell.queue("borrower", 0)
    for name in ("a", "b"):
        cell.run(name, "borrower", gpus=4)
    return cell


def exchange(cell: Cell) -> None:
    """The kubelet gave to `a` what the ledger gave to `b`."""
    (pod,) = cell.driver.placement("b").pods
    devices = tuple(f"{pod.node}-{share.index}" for share in pod.shares)
    cell.send(pod_fact(PodDevicesTold, "a", pods=(PodDevices(rank=0, devices=devices),)))


def test_both_hold_what_is_told_and_a_plan_goes_through():
    cell = a_full_cell()
    before = cell.driver.placement("a")

    exchange(cell)
    exchanged = cell.driver.placement("b")
    cell.ask("p", "owner", gpus=4)
    (accepted, *_) = cell.turn()
    (plan,) = cell.plans
    victim = plan.victims[0].workload_id
    cell.leave(victim)

    memory = cell.handler.memory
    assert before.pods[0].shares == exchanged.pods[0].shares
    assert type(accepted).__name__ == "EvictionPlanAccepted"
    left = "a" if victim == "b" else "b"
    assert memory.placements[left] == cell.driver.placement(left)
    assert memory.placements["p"].pods[0].shares == cell.driver.placement("p").pods[0].shares


def test_what_is_told_again_and_of_another_attempt_changes_nothing():
    cell = a_full_cell()
    exchange(cell)
    (fact,) = (one for one in cell.said if isinstance(one, NodeDevicesLearned))
    known = dict(cell.handler.memory.placements)
    cell.hear(fact)
    same = dict(cell.handler.memory.placements)
    cell.send(command(RequestEviction, "a"))
    cell.leave("a")
    cell.hear(fact)
    waiting = dict(cell.handler.memory.placements)
    held = msgspec.structs.replace(fact.workloads[0], workload_id="b", attempt=2)
    cell.hear(msgspec.structs.replace(fact, workloads=(held,)))

    assert known == same
    assert {"b": known["b"]} == waiting == cell.handler.memory.placements
