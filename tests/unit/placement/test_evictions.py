"""Eviction plans and the reservations that they make."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.model.lifecycle import State
from shared.core.model.nouns import Level, TopologyRequest
from shared.events.nodes import NodeRemoved
from shared.events.plans import (
    EvictionPlanAccepted,
    EvictionPlanRefused,
    PlannedVictim,
    ProposeEvictionPlan,
    ReservationExpired,
)
from shared.events.pods import EvictPods, PodsFinished
from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    ReprioritiseWorkload,
    WorkloadEvicted,
    WorkloadRequeued,
)
from tests.support.placement_driver import (
    a_node,
    a_quota,
    a_workload,
    command,
    kinds,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.evicting import a_plan, a_world, ask, full_world, gone, run


def test_a_plan_evicts_reserves_and_places_when_the_last_victim_is_gone():
    driver = full_world()

    out = driver.send(a_plan(driver, "a", "b"))

    assert ["EvictionPlanAccepted", *["WorkloadEvicted", "EvictPods"] * 2] == kinds(out)
    assert [driver.state(one) for one in "abp"] == [State.EVICTING, State.EVICTING, State.QUEUED]
    assert ["WorkloadRequeued"] == kinds(driver.send(gone("a")))
    out = driver.send(gone("b"))
    assert ["WorkloadRequeued", "WorkloadPlaced", "BindWorkload"] == kinds(out)
    assert driver.state("p") is State.PLACED
    assert len(driver.handler.state.reservations) == 0
    assert driver.record("p").deadline_kind == "bind"


def test_the_victim_hears_who_why_since_when_and_when_it_may_come_back():
    driver = full_world(expected_duration_seconds=3600, team="red")

    _, evicted, _, _, _ = driver.send(a_plan(driver, "a", "b"))

    assert isinstance(evicted, WorkloadEvicted)
    assert evicted.preemption is not None
    assert ("p", "red", "owner", "reclaim", "plan-p") == (
        evicted.preemption.workload_id,
        evicted.preemption.team,
        evicted.preemption.queue,
        evicted.preemption.rule,
        evicted.preemption.plan_id,
    )
    assert evicted.reason == "preempted"
    assert evicted.back_at_ms == driver.now_ms + 30_000 + 3_600_000
    assert "workload p of team red (queue owner, rule reclaim)" in evicted.message


def test_preempted_is_not_failed_eats_no_retry_and_is_tried_again_at_once():
    driver = full_world(gpus=8)
    driver.send(a_plan(driver, "a", "b"))

    failed = pod_fact(PodsFinished, "a", succeeded=False, reason="Killed", message="SIGTERM")
    (requeued,) = driver.send(failed)

    assert isinstance(requeued, WorkloadRequeued)
    assert (requeued.reason, requeued.state) == ("preempted", State.QUEUED)
    assert (0, "") == (driver.record("a").failures, driver.record("a").deadline_kind)


def test_pods_are_stopped_with_the_grace_of_each_victim_and_the_room_waits_for_the_longest():
    driver = a_world()
    run(driver, "a", gpus=4, grace_seconds=5)
    run(driver, "b", gpus=4, grace_seconds=600)
    ask(driver, gpus=8)

    out = driver.send(a_plan(driver, "a", "b"))

    assert [5, 600] == [one.grace_seconds for one in out if isinstance(one, EvictPods)]
    (accepted,) = (one for one in out if isinstance(one, EvictionPlanAccepted))
    assert accepted.expires_at_ms == driver.now_ms + 660_000


def test_nobody_else_is_given_what_is_reserved_whether_free_now_or_later():
    driver = a_world()
    run(driver, "a", gpus=4)
    ask(driver, gpus=6)  # two of its six GPUs are free now

    driver.send(a_plan(driver, "a"))
    out = driver.send(nominated(a_workload("thief", gpus=2, queue="borrower", team="blue")))
    assert ["WorkloadPlaced", "BindWorkload"] == kinds(out), "two GPUs are nobody's"
    out = driver.send(nominated(a_workload("late", gpus=1, queue="borrower", team="blue")))
    assert ["PlacementRefused"] == kinds(out)
    driver.send(gone("a"), nominated(a_workload("later", gpus=1, queue="borrower")))

    assert driver.state("p") is State.PLACED
    assert [driver.state(one) for one in ("late", "later")] == [State.QUEUED] * 2


def test_the_quota_that_victims_leave_is_the_preemptors_at_every_level():
    driver = a_world(gpus=16, quota=8)
    run(driver, "a", gpus=8)
    ask(driver, gpus=8)  # there are eight GPUs, but the cohort has no quota left

    driver.send(a_plan(driver, "a"))
    driver.send(nominated(a_workload("thief", gpus=1, queue="borrower")))
    assert driver.state("thief") is State.QUEUED
    driver.send(gone("a"))

    assert (driver.state("p"), driver.state("thief")) == (State.PLACED, State.QUEUED)


def test_what_victims_leave_beyond_the_need_is_everybodys():
    driver = a_world()
    run(driver, "a", gpus=8)
    ask(driver, gpus=2)
    driver.send(nominated(a_workload("other", gpus=6, queue="borrower", team="red")))

    driver.send(a_plan(driver, "a"))
    driver.send(gone("a"))

    assert [driver.state("p"), driver.state("other")] == [State.PLACED] * 2


def test_two_plans_of_one_cohort_stand_side_by_side():
    driver = full_world(gpus=4)
    ask(driver, "q", gpus=4)

    first = driver.send(a_plan(driver, "a"))
    second = driver.send(a_plan(driver, "b", name="q"))

    assert [kinds(first)[0], kinds(second)[0]] == ["EvictionPlanAccepted"] * 2
    driver.send(gone("b"))
    assert (driver.state("q"), driver.state("p")) == (State.PLACED, State.QUEUED)
    driver.send(gone("a"))
    assert driver.state("p") is State.PLACED


def test_a_victim_of_another_plan_is_taken():
    driver = full_world(gpus=4)
    ask(driver, "q", gpus=4)
    late = a_plan(driver, "a", name="q")
    driver.send(a_plan(driver, "a"))

    (refused,) = driver.send(late)

    assert isinstance(refused, EvictionPlanRefused)
    assert (refused.reason, refused.message) == ("victim-changed", "a does not run any more")


def test_a_victim_that_ends_well_before_its_eviction_leaves_its_room_all_the_same():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    driver.send(pod_fact(PodsFinished, "a", succeeded=True))
    driver.send(gone("b", succeeded=True))

    assert [driver.state("a"), driver.state("b")] == [State.SUCCEEDED] * 2
    assert driver.state("p") is State.PLACED


def test_a_victim_that_ended_before_the_plan_came_spoils_it():
    driver = full_world()
    plan = a_plan(driver, "a", "b")
    driver.send(pod_fact(PodsFinished, "a", succeeded=True))

    (refused,) = driver.send(plan)

    assert isinstance(refused, EvictionPlanRefused)
    assert refused.reason == "victim-changed"
    assert driver.state("b") is State.RUNNING


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 7}, "preemptor-changed"),
        ({"flavor": "a100"}, "preemptor-changed"),
        ({"workload_id": "nobody"}, "preemptor-changed"),
        ({"workload_id": "a"}, "preemptor-changed"),
        (
            {"victims": (PlannedVictim(workload_id="a", version=9, attempt=1),)},
            "victim-changed",
        ),
        (
            {"victims": (PlannedVictim(workload_id="a", version=3, attempt=1),)},
            "no-longer-fits",
        ),
        (
            {"victims": (PlannedVictim(workload_id="a", version=3, attempt=1),) * 2},
            "victim-changed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_plan_for_another_world_changes_nothing(change: dict[str, Any], reason: str):
    driver = full_world()
    before = driver.handler.state.cluster.digest()

    (refused,) = driver.send(a_plan(driver, "a", "b", **change))

    assert isinstance(refused, EvictionPlanRefused)
    assert refused.reason == reason
    assert before == driver.handler.state.cluster.digest()
    assert [driver.state("a"), driver.state("b")] == [State.RUNNING] * 2


def test_a_plan_that_would_break_the_topology_is_refused():
    driver = a_world(gpus=4, quota=8, rack="r1")
    driver.send(reported(a_node("n2", gpus=4, rack="r2")))
    run(driver, "a", gpus=4)
    run(driver, "b", gpus=4)
    ask(driver, gpus=4, pod_count=2, topology=TopologyRequest(required=Level.RACK))

    (refused,) = driver.send(a_plan(driver, "a", "b"))

    assert refused.reason == "no-longer-fits"


@pytest.mark.parametrize(
    ("message", "state"),
    [
        (command(CancelWorkload, "p"), State.CANCELLED),
        (command(HoldWorkload, "p"), State.HELD),
        (command(ReprioritiseWorkload, "p", priority_class="", priority=9), State.QUEUED),
        (NominationWithdrawn(workload_id="p", nomination=1), State.QUEUED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_preemptor_that_leaves_gives_the_room_back_and_that_is_told(message: Any, state: State):
    driver = full_world()
    driver.send(nominated(a_workload("next", gpus=8, queue="borrower", team="blue"), order=9))
    driver.send(a_plan(driver, "a", "b"))

    out = driver.send(message)

    (expired,) = (one for one in out if isinstance(one, ReservationExpired))
    assert (expired.reason, expired.plan_id) == ("preemptor-left", "plan-p")
    assert driver.state("p") is state
    driver.send(gone("a"), gone("b"))
    assert driver.state("next") is State.PLACED


def test_a_reservation_that_times_out_is_told_and_its_preemptor_waits_on():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    assert [] == driver.wait(89)
    expired, waits = driver.wait(1)

    assert isinstance(expired, ReservationExpired)
    assert expired.reason == "timed-out"
    assert "p" == waits.workload_id
    assert "promised_start_ms" in waits.evidence
    assert 0 == len(driver.handler.state.reservations)
    driver.send(gone("a"), gone("b"))
    assert driver.state("p") is State.PLACED, "as anybody would be"


def test_a_reservation_on_a_node_that_is_lost_is_given_up():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    out = driver.send(NodeRemoved(node="n1", generation=2))

    assert ["no-longer-fits"] == [one.reason for one in out if isinstance(one, ReservationExpired)]


def test_a_quota_lowered_meanwhile_ends_in_a_refund_not_in_a_broken_ledger():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))
    driver.send(a_quota("owner", 4, parent="all", version=2))

    out = driver.send(gone("a"), gone("b"))

    assert ["no-longer-fits"] == [one.reason for one in out if isinstance(one, ReservationExpired)]
    assert driver.state("p") is State.QUEUED


def test_another_nomination_keeps_the_reservation_as_long_as_its_flavor_is_permitted():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))
    workload = driver.record("p").workload

    assert [] == driver.send(nominated(workload, number=2))
    out = driver.send(nominated(workload, number=3, flavors=("a100",)))

    assert isinstance(out[0], ReservationExpired)


def test_behind_a_strict_head_with_a_reservation_nobody_is_placed():
    driver = a_world()
    run(driver, "a", gpus=8)
    ask(driver, gpus=4, strict=True)
    driver.send(a_plan(driver, "a"))

    driver.send(nominated(a_workload("second", gpus=1, queue="owner"), order=5, strict=True))
    driver.send(reported(a_node("n2")))
    assert driver.state("second") is State.QUEUED
    driver.send(gone("a"))

    assert [driver.state("p"), driver.state("second")] == [State.PLACED] * 2


def test_a_plan_that_came_too_late_is_refused_however_often():
    """Preemption gave its word for the class of before; this one may be protected."""
    driver = full_world()
    late = a_plan(driver, "a", "b")
    driver.send(command(ReprioritiseWorkload, "a", priority_class="vital", priority=0))

    refused = [driver.send(late)[0] for _ in range(4)]

    assert ["victim-changed"] * 4 == [one.reason for one in refused]
    assert [State.RUNNING] * 2 == [driver.state(one) for one in "ab"]


def test_quota_that_a_victim_will_leave_over_is_nobodys_before_it_does():
    driver = a_world(gpus=16, quota=8)
    run(driver, "a", gpus=8)
    ask(driver, gpus=4)
    driver.send(a_plan(driver, "a"))

    driver.send(nominated(a_workload("other", gpus=4, queue="borrower")))
    assert driver.state("other") is State.QUEUED
    driver.send(gone("a"))

    assert [driver.state("p"), driver.state("other")] == [State.PLACED] * 2


def test_behind_a_head_of_a_strict_queue_that_has_room_before_it_was_ever_refused_others_wait():
    driver = a_world()
    run(driver, "a", gpus=8)
    head = nominated(a_workload("p", queue="owner", gpus=8), strict=True)
    plan = ProposeEvictionPlan(
        plan_id="plan-p",
        workload_id="p",
        version=1,
        nomination=1,
        flavor="h100",
        rule="reclaim",
        victims=(PlannedVictim(workload_id="a", version=driver.record("a").version, attempt=1),),
    )

    driver.send(head, plan)
    driver.send(nominated(a_workload("q", queue="owner", gpus=1), strict=True))
    driver.send(gone("a"))

    assert (driver.state("p"), driver.state("q")) == (State.PLACED, State.QUEUED)


def test_a_gpu_that_is_gone_when_the_last_victim_is_gives_the_room_back():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))
    driver.send(reported(a_node(gpus=7), generation=2))
    driver.send(gone("a"))

    out = driver.send(gone("b"))

    assert ["no-longer-fits"] == [one.reason for one in out if isinstance(one, ReservationExpired)]
    assert driver.state("p") is State.QUEUED
