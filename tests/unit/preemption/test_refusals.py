"""Why nobody is evicted: told when the obstacle changes, for the first of each class, once."""

from __future__ import annotations

import pytest

from services.preemption.records import ToldObstacle
from services.preemption.refusals import _is_new
from shared.core.model.reason import Reason
from shared.core.model.value import replace
from shared.core.preemption.eligibility.plan import Obstacle
from shared.core.preemption.victims.telling import NEXT_STEP
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from shared.events.organisation import TeamApplied
from shared.events.plans import EvictionPlanAccepted, EvictionPlanRefused, ReservationExpired
from shared.events.pods import PodsRunning
from shared.events.workloads import CancelWorkload, HoldWorkload, ReleaseWorkload
from tests.support.placement_driver import a_workload, command, nominated, pod_fact
from tests.unit.preemption.world import AT_ONCE, Cell

PATIENT = QueuePolicy(min_runtime_seconds=600, cooldown_seconds=0)


def a_cell(policy: QueuePolicy = AT_ONCE, **spec: object) -> Cell:
    """The lender owns 8 GPUs, and the borrower has them all."""
    cell = Cell()
    cell.queue("lender", 8)
    cell.queue("borrower", 0, policy=policy)
    cell.run("a", "borrower", gpus=8, team="blue", **spec)
    return cell


def obstacles(cell: Cell) -> list[tuple[str, Obstacle]]:
    return [(one.workload_id, one.obstacle) for one in cell.refusals]


def wait(cell: Cell, seconds: int) -> None:
    for _ in range(seconds):
        cell.turn(1)


def test_who_waits_for_work_that_is_not_preemptible_hears_so_once_however_long_he_waits():
    cell = a_cell(preemptible=False)
    cell.ask("p", "lender", gpus=8)

    wait(cell, 300)

    (told,) = cell.refusals
    assert ("p", "red", "lender", 1) == (told.workload_id, told.team, told.queue, told.version)
    assert (Obstacle.NOT_EVICTABLE, "h100", 0) == (
        told.obstacle,
        told.flavor,
        told.retry_at_ms,
    )
    assert (
        "h100: nothing there may be evicted for it; 8 GPUs do not run, are not preemptible, or are"
        " going already."
    ) == told.message
    assert NEXT_STEP[Obstacle.NOT_EVICTABLE] == told.next_step
    assert {"evictable_gpu_milli": 0, "spared_not_evictable_gpu_milli": 8_000} == told.evidence


def test_of_a_crowd_of_equals_the_first_hears_it_and_the_next_when_he_is_first():
    cell = a_cell(preemptible=False)
    for number, name in enumerate("pqr"):
        cell.ask(name, "lender", order=number, gpus=8)
    wait(cell, 20)
    assert [("p", Obstacle.NOT_EVICTABLE)] == obstacles(cell)

    cell.send(command(CancelWorkload, "p"))
    wait(cell, 20)

    assert ["p", "q"] == [one for one, _ in obstacles(cell)]


def test_a_time_that_is_over_is_told_and_what_is_next_in_the_way_at_once():
    cell = a_cell(policy=PATIENT)
    delayed = QueuePolicy(preemption_delay_seconds=20)
    cell.queue("lender", 8, version=2, policy=delayed)
    cell.ask("p", "lender", gpus=8)
    began_ms = cell.handler.memory.stands["a"].running_at_ms

    wait(cell, 30)

    assert [Obstacle.DELAY, Obstacle.MIN_RUNTIME] == [one.obstacle for one in cell.refusals]
    assert began_ms + 600_000 == cell.refusals[1].retry_at_ms


def test_another_obstacle_is_told_after_a_minute_of_quiet():
    cell = a_cell(policy=PATIENT)
    cell.ask("p", "lender", gpus=8)
    cell.turn(1)
    never = QueuePolicy(reclaim=Reclaim.NEVER, fair_share=False)
    cell.queue("lender", 8, version=2, policy=never)

    wait(cell, 50)
    early = obstacles(cell)
    wait(cell, 20)

    assert [("p", Obstacle.MIN_RUNTIME)] == early
    assert [*early, ("p", Obstacle.POLICY)] == obstacles(cell)


def test_a_spent_loss_budget_is_told():
    cell = a_cell()
    cell.hear(TeamApplied(name="blue", version=1, default_queue="q", loss_gpu_seconds_per_hour=50))
    wait(cell, 10)
    cell.ask("p", "lender", gpus=8)

    cell.turn(1)

    assert [("p", Obstacle.LOSS_BUDGET)] == obstacles(cell)
    assert "8 GPUs would exceed the loss budget of their team" in cell.refusals[0].message


def test_after_a_plan_that_came_to_nothing_the_same_obstacle_is_told_anew():
    cell = a_cell(policy=PATIENT)
    cell.ask("p", "lender", gpus=8)
    cell.turn(1)
    cell.queue("borrower", 0, version=2)
    cell.driver.now_ms += 10_000
    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    cell.queue("borrower", 0, version=3, policy=PATIENT)

    common: dict = {"workload_id": "p", "team": "red", "queue": "lender", "message": ""}
    cell.hear(EvictionPlanRefused(plan_id=plan.plan_id, reason=Reason.VICTIM_CHANGED, **common))
    wait(cell, 9)

    assert [("p", Obstacle.MIN_RUNTIME)] * 2 == obstacles(cell)


async def test_a_restart_tells_nothing_twice():
    cell = a_cell(preemptible=False)
    cell.ask("p", "lender", gpus=8)
    cell.turn(1)

    await cell.reload()
    wait(cell, 20)

    assert [("p", Obstacle.NOT_EVICTABLE)] == obstacles(cell)


def test_who_is_queued_again_hears_it_again_for_that_version():
    cell = a_cell(preemptible=False)
    cell.ask("p", "lender", gpus=8)
    cell.turn(1)
    cell.send(command(HoldWorkload, "p"))
    cell.send(command(ReleaseWorkload, "p"))
    workload = cell.driver.record("p").workload
    cell.both(nominated(workload, number=2))

    wait(cell, 20)

    assert [("p", 1), ("p", 3)] == [(one.workload_id, one.version) for one in cell.refusals]


def test_that_others_are_going_already_takes_back_what_was_told():
    cell = a_cell(policy=PATIENT)
    cell.ask("p", "lender", gpus=4)
    cell.turn(1)
    cell.send(command(CancelWorkload, "a"))

    wait(cell, 20)

    assert [("p", Obstacle.MIN_RUNTIME), ("p", Obstacle.FITS)] == obstacles(cell)


def test_who_follows_the_plan_of_another_hears_that_what_he_was_told_is_over():
    cell = a_cell(policy=PATIENT)
    for number, name in enumerate("pq"):
        cell.ask(name, "lender", order=2 - number, gpus=4, priority=number)
        cell.turn(1)
    cell.turn(9)
    assert {"p", "q"} == {one for one, _ in obstacles(cell)}
    cell.queue("borrower", 0, version=2)

    wait(cell, 20)

    (plan,) = cell.plans
    (follower,) = {"p", "q"} - {plan.workload_id}
    assert (follower, Obstacle.FITS) == obstacles(cell)[-1]
    assert cell.handler.memory.stands[plan.workload_id].told is None


@pytest.mark.parametrize("gpus", [2, 1], ids=["of its class", "of another class"])
def test_for_whom_a_plan_makes_room_besides_hears_that_what_he_was_told_is_over(gpus: int):
    cell = Cell()
    cell.queue("lender", 8)
    cell.queue("borrower", 0, policy=PATIENT)
    gang = a_workload("a", gpus=1, pod_count=8, queue="borrower", team="blue")
    pod_set = replace(gang.spec.pod_sets[0], min_count=2)
    cell.both(nominated(replace(gang, spec=replace(gang.spec, pod_sets=(pod_set,)))))
    cell.send(pod_fact(PodsRunning, "a", 1))
    cell.ask("q", "lender", order=2, gpus=gpus)
    wait(cell, 9)
    cell.ask("p", "lender", order=1, gpus=2)
    wait(cell, 9)
    assert [(one, Obstacle.MIN_RUNTIME) for one in "qp"] == obstacles(cell)
    cell.queue("borrower", 0, version=2)

    cell.turn(9)

    assert [("p", 1)] == [(one.workload_id, one.followers) for one in cell.plans]
    assert ("q", Obstacle.FITS) == obstacles(cell)[-1]


def test_after_a_plan_of_placement_itself_came_to_nothing_it_is_told_anew():
    cell = a_cell(policy=PATIENT)
    cell.ask("p", "lender", gpus=8)
    cell.turn(1)
    common: dict = {"plan_id": "own", "workload_id": "p", "team": "red", "queue": "lender"}
    placement = cell.driver.record("a").placement
    of_plan: dict = {"flavor": "h100", "rule": "reclaim", "victims": (), "placement": placement}
    cell.hear(EvictionPlanAccepted(**common, **of_plan, expires_at_ms=9, inline=True))
    expired: dict = {"reason": "timed-out", "message": "", "expired_at_ms": 9}

    cell.hear(ReservationExpired(**common, **expired))
    wait(cell, 9)

    assert [("p", Obstacle.MIN_RUNTIME)] * 2 == obstacles(cell)


@pytest.mark.parametrize(
    ("before", "told", "new"),
    [
        (None, ("NobodyToEvict", 0), True),
        (None, ("FitsNow", 0), False),
        (("NobodyToEvict", 0), ("NobodyToEvict", 0), False),
        (("NobodyToEvict", 0), ("NobodyToEvict", 60_000), False),
        (("NobodyToEvict", 0), ("NobodyToEvict", 60_001), True),
        (("NobodyToEvict", 0), ("FitsNow", 0), True),
        (("FitsNow", 0), ("FitsNow", 0), False),
    ],
)
def test_times_that_are_near_and_room_without_an_obstacle_are_no_news(before, told, new):
    earlier = ToldObstacle(before[0], 0, before[1]) if before else None

    assert new == _is_new(earlier, ToldObstacle(told[0], 100_000, told[1]))
