"""The service preemption beside placement: who is evicted for whom, and when."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as changed

from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.value import replace
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from shared.events.nodes import (
    NodeRemoved,
)
from shared.events.organisation import PriorityClassApplied, TeamApplied
from shared.events.plans import EvictionPlanAccepted, EvictionPlanRefused, ReservationExpired
from shared.events.pods import PodsResized, PodsRunning
from shared.events.quotas import DebtsTold, NominationWithdrawn
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    PlacementRefused,
    ReprioritiseWorkload,
    WorkloadEvicted,
)
from tests.support.placement_driver import (
    a_node,
    a_workload,
    command,
    kinds,
    nominated,
    pod_fact,
    queued,
    reported,
)
from tests.unit.preemption.world import AT_ONCE, Cell


def a_cell(**fields: object) -> Cell:
    """Two queues that own 4 GPUs each; the borrower has all eight."""
    cell = Cell()
    cell.queue("owner", 4)
    cell.queue("borrower", 4, **fields)
    cell.run("a", "borrower", gpus=4, team="blue")
    cell.run("b", "borrower", gpus=4, team="blue")
    return cell


def test_a_queue_gets_its_nominal_quota_back_and_the_victim_hears_why():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)

    out = cell.turn(1)

    assert ["EvictionPlanAccepted", "WorkloadEvicted", "EvictPods"] == kinds(out)
    (evicted,) = (one for one in out if isinstance(one, WorkloadEvicted))
    assert evicted.preemption is not None
    assert (evicted.preemption.rule, evicted.preemption.workload_id) == ("reclaim", "p")
    cell.leave(evicted.workload_id)
    assert cell.driver.state("p") is State.PLACED
    assert {} == cell.handler.memory.flights
    assert cell.driver.state(evicted.workload_id) is State.QUEUED


def test_inside_a_queue_the_lower_priority_goes():
    cell = Cell()
    cell.queue("q", 8)
    cell.run("a", "q", gpus=4, priority=5)
    cell.run("b", "q", gpus=4, priority=9)
    cell.ask("p", "q", gpus=4, priority=7)

    cell.turn(1)

    assert [State.EVICTING, State.RUNNING] == cell.states("ab")


def test_nobody_goes_for_an_equal_a_borrower_or_against_the_policy():
    cell = a_cell()
    cell.queue("owner", 4, version=2, policy=QueuePolicy(reclaim=Reclaim.NEVER, fair_share=False))
    cell.ask("p", "owner", gpus=4)
    cell.ask("e", "borrower", gpus=4)

    assert [] == cell.turn(1)


def test_nobody_is_searched_for_who_is_announced_before_there_is_room_for_him():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    cell.send(NominationWithdrawn(workload_id="p", nomination=1))
    cell.hear(NominationWithdrawn(workload_id="p", nomination=1))

    again = nominated(a_workload("p", queue="owner", gpus=4), number=2)
    cell.hear(changed(again, next_of_own=True))
    assert cell.handler.next_due_ms() is None

    cell.hear(changed(again, nomination=3))
    assert cell.handler.next_due_ms() is not None


def test_that_an_unknown_node_is_gone_does_not_make_its_first_report_old():
    cell = Cell(nodes=0)
    cell.hear(NodeRemoved(node="n7", generation=2), reported(a_node("n7", gpus=1), generation=2))

    assert cell.handler.world.cluster.nodes["n7"].inventory


def test_a_workload_that_can_never_fit_is_not_looked_at():
    cell = a_cell()
    refused = PlacementRefused(
        workload_id="p",
        team="red",
        queue="owner",
        nomination=1,
        reason=Reason.NO_MATCHING_NODE,
        message="",
        next_step="",
    )
    cell.hear(nominated(a_workload("p", queue="owner", gpus=4)), refused)

    assert cell.handler.next_due_ms() is None


def test_two_that_wait_get_two_plans_in_their_order_and_no_victim_twice():
    cell = a_cell()
    cell.ask("q", "owner", gpus=2, order=2)
    cell.ask("p", "owner", gpus=1, order=1)

    cell.turn(1)

    assert ["p"] == [one.workload_id for one in cell.plans]
    victims = [victim.workload_id for plan in cell.plans for victim in plan.victims]
    assert len(victims) == 1, "what the first victim leaves is enough for both"
    cell.leave(*victims)
    assert [State.PLACED, State.PLACED] == cell.states("pq")


def test_nobody_is_evicted_for_room_that_comes_free_anyhow():
    cell = a_cell()
    cell.send(command(CancelWorkload, "a"))
    cell.ask("p", "owner", gpus=4)

    assert [] == cell.turn(1)
    cell.leave("a")
    assert cell.driver.state("p") is State.PLACED


def test_a_victim_within_its_minimum_run_time_goes_when_that_is_over():
    cell = a_cell(policy=QueuePolicy(min_runtime_seconds=60, cooldown_seconds=0))
    cell.driver.now_ms += 1
    cell.ask("p", "owner", gpus=4)

    assert [] == [one for _ in range(55) for one in cell.turn(1)]
    assert "EvictionPlanAccepted" in kinds([one for _ in range(10) for one in cell.turn(1)])


def test_the_delay_of_the_preemptors_queue_is_kept():
    cell = a_cell()
    policy = QueuePolicy(preemption_delay_seconds=20)
    cell.queue("owner", 4, version=2, policy=policy)
    cell.ask("p", "owner", gpus=4)

    assert [] == [one for _ in range(19) for one in cell.turn(1)]
    assert "EvictionPlanAccepted" in kinds([one for _ in range(3) for one in cell.turn(1)])


def test_a_victim_is_left_alone_for_its_cooldown():
    cell = a_cell(policy=QueuePolicy(min_runtime_seconds=0, cooldown_seconds=600))
    cell.ask("p", "owner", gpus=4)
    cell.turn(1)
    victim = cell.plans[0].victims[0].workload_id
    cell.leave(victim)
    cell.send(command(CancelWorkload, "p"))
    cell.leave("p")
    record = cell.driver.record(victim)
    cell.both(nominated(record.workload, number=2))
    cell.send(*_running(cell, victim))
    other = next(iter({"a", "b"} - {victim}))
    cell.ask("r", "owner", gpus=4)

    cell.turn(1)

    assert [other] == [one.workload_id for one in cell.plans[-1].victims]
    assert cell.driver.state(victim) is State.RUNNING


def _running(cell: Cell, name: str):
    return [pod_fact(PodsRunning, name, cell.driver.record(name).attempt)]


@pytest.mark.parametrize("name", ["system", "inference-production"])
def test_a_protected_class_is_never_evicted(name: str):
    cell = Cell()
    cell.queue("owner", 4)
    cell.queue("borrower", 4)
    cell.hear(PriorityClassApplied(name="system", version=1, value=0, protected=True))
    cell.run("a", "borrower", gpus=8, priority_class=name)
    cell.ask("p", "owner", gpus=4)

    assert [] == cell.turn(1)


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ("training-batch", "inference-production", State.RUNNING),
        ("inference-production", "training-batch", State.EVICTING),
    ],
)
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("reloaded", [False, True])
async def test_the_class_that_it_has_now_protects_or_does_not(
    before, after, state, runs, reloaded
):
    cell = Cell()
    cell.queue("owner", 4)
    cell.queue("borrower", 4)
    change = command(ReprioritiseWorkload, "a", priority_class=after, priority=3)
    if runs:
        cell.run("a", "borrower", gpus=8, priority_class=before)
    else:
        cell.driver.send(queued(a_workload("a", queue="borrower", gpus=8, priority_class=before)))
    cell.send(change)
    if not runs:
        cell.run("a", "borrower", gpus=8, priority_class=before)
    if reloaded:
        await cell.reload()
    cell.ask("p", "owner", gpus=4)

    cell.turn(1)

    assert [state] == cell.states("a")
    if state is State.EVICTING:
        assert [after] == [one.priority_class for one in cell.plans[-1].victims]


def test_inside_a_queue_the_priority_of_what_runs_is_that_of_now():
    cell = Cell()
    cell.queue("q", 8)
    cell.run("a", "q", gpus=4, priority=5)
    cell.run("b", "q", gpus=4, priority=5)
    cell.send(command(ReprioritiseWorkload, "a", priority_class="high", priority=9))
    cell.send(command(ReprioritiseWorkload, "b", priority_class="low", priority=1))
    cell.ask("p", "q", gpus=4, priority=3)

    cell.turn(1)

    assert [State.RUNNING, State.EVICTING] == cell.states("ab")


def test_a_team_loses_no_more_than_its_budget_allows_in_an_hour():
    cell = a_cell()
    cell.hear(TeamApplied(name="blue", version=1, default_queue="q", loss_gpu_seconds_per_hour=50))
    cell.turn(10)  # each has lost 40 GPU-seconds by now
    cell.ask("p", "owner", gpus=4)
    cell.turn(0)
    assert 1 == len(cell.plans)
    cell.leave(cell.plans[0].victims[0].workload_id)
    cell.queue("borrower", 0, version=2)
    cell.queue("owner", 8, version=2)
    cell.ask("r", "owner", gpus=4)

    cell.turn(1)

    assert 1 == len(cell.plans)


def test_a_refused_plan_is_made_anew_for_the_world_of_now():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms + 1_000)))
    gone = plan.victims[0].workload_id
    cell.send(command(HoldWorkload, gone))

    (refused,) = cell.send(plan)
    assert isinstance(refused, EvictionPlanRefused)
    cell.turn(1)

    assert 0 == len(cell.plans), "the one that is held leaves room enough"
    cell.leave(gone)
    assert cell.driver.state("p") is State.PLACED


def test_an_expired_reservation_frees_its_preemptor_for_another_plan():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    cell.turn(1)

    cell.turn(100)

    assert {} == cell.handler.memory.flights
    assert "p" in cell.handler.planner.lines


def test_a_preemptor_that_is_cancelled_is_looked_for_no_more():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)

    cell.send(command(CancelWorkload, "p"))

    assert cell.handler.next_due_ms() is None


def test_an_answer_that_never_comes_is_waited_for_only_a_minute():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    assert 1 == len(cell.decide(list(cell.handler.due(cell.driver.now_ms + 1_000))))

    cell.driver.now_ms += 61_000
    cell.ask("other", "owner", gpus=8)
    cell.decide(list(cell.handler.due(cell.driver.now_ms)))

    assert "p" in {one.workload_id for one in cell.handler.memory.flights.values()} | {"p"}
    assert "p" in cell.handler.planner.lines


@pytest.mark.parametrize("moment", ["running", "refused", "proposed", "accepted"])
async def test_a_restart_at_any_moment_changes_nothing(moment: str):
    cell = a_cell()
    if moment == "running":
        await cell.reload()
    cell.ask("p", "owner", gpus=4)
    if moment == "refused":
        await cell.reload()
    plans = cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    assert 1 == len(plans)
    if moment == "proposed":
        await cell.reload()
        assert cell.handler.next_due_ms() is None, "it knows that it has asked"
    out = cell.send(*plans)
    assert isinstance(out[0], EvictionPlanAccepted)
    if moment == "accepted":
        await cell.reload()
        assert cell.handler.next_due_ms() is None
    cell.leave(plans[0].victims[0].workload_id)

    assert cell.driver.state("p") is State.PLACED
    assert {} == cell.handler.memory.flights


async def test_after_everything_is_over_nothing_is_remembered():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    cell.turn(1)
    for name in "abp":
        cell.send(command(CancelWorkload, name))
    for name in "ab":
        if name in cell.driver.handler.state.records.alive:
            cell.leave(name)
    await cell.reload()

    memory = cell.handler.memory
    assert ({}, {}, {}, {}) == (memory.offers, memory.stands, memory.placements, memory.flights)


def test_the_world_of_the_search_is_that_of_placement_when_nothing_is_in_flight():
    cell = a_cell()
    cell.handler.world.refresh()

    assert cell.handler.world.cluster.digest() == cell.driver.handler.state.cluster.digest()


def test_placement_that_reserves_elsewhere_is_believed():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)

    out = cell.turn(1)

    (accepted,) = (one for one in out if isinstance(one, EvictionPlanAccepted))
    (flight,) = cell.handler.memory.flights.values()
    assert accepted.placement == flight.placement
    assert not any(isinstance(one, ReservationExpired) for one in out)
    assert AT_ONCE.min_runtime_seconds == 0


@pytest.mark.parametrize("reloaded", [False, True])
async def test_of_an_elastic_gang_only_the_surplus_goes(reloaded: bool):
    cell = Cell()
    cell.queue("owner", 4)
    cell.queue("borrower", 4)
    gang = a_workload("a", gpus=1, pod_count=8, queue="borrower", team="blue")
    pod_set = replace(gang.spec.pod_sets[0], min_count=2)
    cell.both(nominated(replace(gang, spec=replace(gang.spec, pod_sets=(pod_set,)))))
    cell.send(*_running(cell, "a"))
    cell.ask("p", "owner", gpus=2)

    cell.turn(1)
    if reloaded:
        await cell.reload()
    (victim,) = cell.plans[0].victims
    assert 6 == victim.pods_kept
    cell.send(pod_fact(PodsResized, "a", number=1, pods=6))

    assert [State.RUNNING, State.PLACED] == cell.states("ap")
    cell.handler.world.refresh()
    assert cell.handler.world.cluster.digest() == cell.driver.handler.state.cluster.digest()


def test_room_that_one_preemptor_gets_is_not_another_ones():
    cell = Cell()
    cell.queue("owner", 8)
    cell.queue("borrower", 0)
    cell.run("a", "borrower", gpus=4, team="blue")
    cell.run("b", "borrower", gpus=4, team="blue")
    cell.ask("p", "owner", gpus=4, order=1)
    cell.ask("q", "owner", gpus=4, order=2)

    out = cell.turn(1)

    assert 2 == sum(isinstance(one, EvictionPlanAccepted) for one in out)
    assert [State.EVICTING] * 2 == cell.states("ab")


def test_who_got_a_no_is_looked_at_again_within_seconds():
    cell = a_cell()
    never = QueuePolicy(reclaim=Reclaim.NEVER, fair_share=False)
    cell.queue("owner", 4, version=2, policy=never)
    cell.ask("p", "owner", gpus=4)
    assert [] == cell.turn(1)

    cell.queue("owner", 4, version=3)

    assert "EvictionPlanAccepted" in kinds([one for _ in range(9) for one in cell.turn(1)])


def test_debts_are_heard_once_and_nobody_goes_for_an_equal_share():
    cell = Cell(nodes=1)
    cell.queue("owner", 8)
    for name in ("a", "b"):
        cell.queue(name, 0)
    cell.run("w", "a", gpus=8)
    cell.ask("p", "b", gpus=8)

    before = cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    debts = {"a": 900_000, "b": -900_000}
    cell.hear(DebtsTold(debts=debts, at_ms=cell.driver.now_ms))
    cell.hear(DebtsTold(debts={"a": 0}, at_ms=cell.driver.now_ms - 1))

    tree = cell.handler.world.tree
    assert before == []
    assert {name: tree.node(name).debt for name in debts} == debts


async def test_debts_outlive_a_restart():
    cell = Cell(nodes=1)
    cell.queue("owner", 8)
    cell.hear(DebtsTold(debts={"owner": 7}, at_ms=cell.driver.now_ms))

    await cell.reload()

    assert cell.handler.world.tree.node("owner").debt == 7
