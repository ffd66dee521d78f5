"""Who may not be evicted goes on elsewhere for others: when, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from services.preemption.handler import PreemptionHandler
from shared.core.model.lifecycle import State
from shared.core.quota.queue_policy import QueuePolicy
from shared.events.nodes import KeptFor, NodesKept
from shared.events.organisation import CohortApplied, TeamApplied
from shared.events.plans import EvictionPlanRefused, ProposeEvictionPlan
from shared.events.pods import PodsFinished
from shared.events.quotas import DebtsTold
from shared.events.workloads import CancelWorkload, WorkloadEvicted
from tests.support.placement_driver import a_node, command, kinds, pod_fact, reported
from tests.unit.preemption.world import Cell, Still


def broken_up(*, moves_per_hour: int = 60, **small: Any) -> Cell:
    """Two nodes with two GPUs in use on each, by who owns them; `p` wants one of them whole."""
    cell = Cell(nodes=2)
    cell.handler = PreemptionHandler(clock=Still(), moves_per_hour=moves_per_hour)
    cell.hear(*(reported(a_node(f"n{number}")) for number in range(2)))
    cell.hear(CohortApplied(name="all", version=1))
    cell.queue("small", 4, **small)
    cell.queue("owner", 12)
    for name, gpus, queue in (("a", 2, "small"), ("f", 6, "owner"), ("b", 2, "small")):
        cell.run(name, queue, gpus=gpus)
    cell.send(pod_fact(PodsFinished, "f", succeeded=True))
    return cell


def test_small_work_goes_on_elsewhere_for_who_needs_a_whole_node():
    cell = broken_up()
    cell.ask("p", "owner", gpus=8)

    out = cell.turn(1)
    (plan,) = cell.plans
    (moved,) = plan.victims
    assert (plan.rule, moved.rule, moved.pods_kept) == ("move", "move", 0)
    assert ["EvictionPlanAccepted", "WorkloadEvicted", "EvictPods"] == kinds(out)
    assert 2 == len(cell.handler.memory.flights), "the preemptor's and the mover's"
    cell.leave(moved.workload_id)

    assert [State.PLACED] * 2 == [cell.driver.state(one) for one in ("p", moved.workload_id)]
    assert {} == cell.handler.memory.flights
    assert [] == cell.turn(1)


@pytest.mark.parametrize(
    ("queue", "moved"),
    [
        pytest.param("owner", ["a"], id="what is owed"),
        pytest.param("third", [], id="who borrows too leaves it alone"),
    ],
)
def test_somebody_is_moved_from_a_node_that_is_kept_for_who_borrows(queue: str, moved: list[str]):
    cell = broken_up()
    cell.queue("borrower", 0)
    cell.queue("third", 0)
    cell.ask("guest", "borrower", gpus=8, order=1)
    cell.ask("p", queue, gpus=8)
    node = cell.driver.placement("a").pods[0].node
    cell.hear(NodesKept(kept=(KeptFor(workload_id="guest", pin=1, nodes=(node,)),)))

    plans = cell.decide(list(cell.handler.due(cell.driver.now_ms)))

    assert moved == [one.workload_id for plan in plans for one in plan.victims]


async def test_what_is_in_flight_and_what_was_moved_outlives_a_restart():
    cell = broken_up(moves_per_hour=1)
    cell.ask("p", "owner", gpus=8)
    cell.turn(1)
    await cell.reload()

    assert 2 == len(cell.handler.memory.flights)
    assert 1 == len(cell.handler.memory.moves)
    cell.leave(cell.plans[0].victims[0].workload_id)
    assert {} == cell.handler.memory.flights


@pytest.mark.parametrize(
    ("small", "spec"),
    [
        ({"policy": QueuePolicy(min_runtime_seconds=600)}, {}),
        ({}, {"moves_per_hour": 0}),
    ],
)
def test_nobody_is_moved_within_his_minimum_run_time_or_beyond_the_budget(small: Any, spec: Any):
    cell = broken_up(**small, **spec)
    cell.ask("p", "owner", gpus=8)

    assert [] == cell.turn(1)
    assert [State.RUNNING] * 2 == cell.states("ab")


def test_moves_are_looked_for_once_a_minute_only():
    cell = broken_up(policy=QueuePolicy(min_runtime_seconds=20, cooldown_seconds=0))
    cell.ask("p", "owner", gpus=8)

    assert [] == cell.turn(1)
    assert [] == cell.turn(30), "its minimum run time is over, but it was looked at just before"
    assert [] != cell.turn(40)


def test_who_had_more_than_its_part_lately_has_nobody_moved():
    cell = broken_up()
    cell.queue("owner", 0, version=2)
    cell.hear(DebtsTold(debts={"owner": 1_000}, at_ms=1))
    cell.ask("p", "owner", gpus=8)

    assert [] == cell.turn(1)


def test_who_may_not_ask_does_not_use_up_the_one_look_of_a_turn():
    cell = broken_up()
    cell.queue("debtor", 0)
    cell.hear(DebtsTold(debts={"debtor": 1_000}, at_ms=1))
    cell.ask("d", "debtor", gpus=7)
    cell.ask("p", "owner", gpus=8)

    assert [] != cell.turn(1)
    assert ["p"] == [one.workload_id for one in cell.plans]


def test_the_loss_budget_of_a_team_holds_for_moves_too():
    cell = broken_up()
    cell.hear(
        TeamApplied(name="red", version=1, default_queue="small", loss_gpu_seconds_per_hour=1)
    )
    cell.ask("p", "owner", gpus=8)

    assert [] == cell.turn(10)


def test_a_mover_that_runs_again_while_others_still_stop_counts_where_it_is():
    """A borrower goes besides, and takes its time: meanwhile the mover's new place is taken."""
    cell = Cell(nodes=2)
    for queue, gpus in (("small", 2), ("debtor", 0), ("owner", 14)):
        cell.queue(queue, gpus)
    for name, queue, gpus in (
        ("d", "debtor", 6),
        ("b", "small", 2),
        ("c", "owner", 2),
        ("e", "debtor", 4),
    ):
        cell.run(name, queue, gpus=gpus)
    cell.ask("p", "owner", gpus=8)

    cell.turn(1)
    (plan,) = cell.plans
    assert ("reclaim", ["reclaim", "move"]) == (plan.rule, [one.rule for one in plan.victims])
    cell.leave("b")
    cell.handler.world.refresh()

    assert [State.PLACED, State.EVICTING, State.QUEUED] == cell.states("bdp")
    assert (
        cell.driver.placement("b") == cell.handler.world.occupants.tenants.running["b"].placement
    )
    assert [{"d": 0}] == [one.victims for one in cell.handler.memory.flights.values()]
    cell.leave("d")
    assert [State.PLACED, State.PLACED, State.RUNNING] == cell.states("bpe")


def test_a_plan_that_placement_refuses_leaves_nothing_in_flight():
    cell = broken_up()
    cell.ask("p", "owner", gpus=8)
    cell.driver.wait(1)
    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    assert isinstance(plan, ProposeEvictionPlan)
    assert 2 == len(cell.handler.memory.flights)

    cell.send(command(CancelWorkload, plan.victims[0].workload_id))
    out = cell.send(plan)

    assert [EvictionPlanRefused] == [type(one) for one in out]
    assert {} == cell.handler.memory.flights


def test_a_mover_that_is_cancelled_while_it_stops_is_in_flight_no_more():
    cell = broken_up()
    cell.ask("p", "owner", gpus=8)
    out = cell.turn(1)
    (evicted,) = (one for one in out if isinstance(one, WorkloadEvicted))

    cell.send(command(CancelWorkload, evicted.workload_id))
    assert ["p"] == [one.workload_id for one in cell.handler.memory.flights.values()]
    cell.leave(evicted.workload_id)

    assert cell.driver.state("p") is State.PLACED
