"""Eviction plans and the reservations that they make."""

from __future__ import annotations

from typing import Any

import pytest

from services.placement.agreement import held_in_memory
from services.placement.handlers import PlacementHandler
from services.placement.reservations import SAVE
from shared.core.lifecycle import State
from shared.core.model import GpuRequest, Level, TopologyRequest
from shared.events.nodes import NodeRemoved
from shared.events.plans import (
    EvictionPlanAccepted,
    EvictionPlanRefused,
    PlannedVictim,
    ProposeEvictionPlan,
    ReservationExpired,
)
from shared.events.pods import EvictPods, PodsFinished, PodsGone, PodsRunning
from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    ReprioritiseWorkload,
    WorkloadEvicted,
    WorkloadPlaced,
    WorkloadRequeued,
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


def a_world(*, gpus: int = 8, quota: int = 0, **node: Any) -> Driver:
    """One node, and a cohort in which the borrower uses all that it may."""
    driver = Driver()
    quota = quota or gpus
    driver.send(
        reported(a_node(gpus=gpus, **node)),
        a_quota("all", quota, kind="cohort"),
        a_quota("borrower", quota, parent="all"),
        a_quota("owner", quota, parent="all"),
    )
    return driver


def run(driver: Driver, name: str, *, queue: str = "borrower", **spec: Any) -> None:
    """Let a workload run."""
    driver.send(nominated(a_workload(name, queue=queue, **spec)))
    driver.send(pod_fact(PodsRunning, name))
    assert driver.state(name) is State.RUNNING


def ask(driver: Driver, name: str = "p", *, strict: bool = False, **spec: Any) -> list[Any]:
    """Let a workload of the owner wait."""
    spec.setdefault("queue", "owner")
    out = driver.send(nominated(a_workload(name, **spec), strict=strict))
    assert driver.state(name) is State.QUEUED
    return out


def a_plan(driver: Driver, *victims: str, name: str = "p", **changed: Any) -> ProposeEvictionPlan:
    """The plan to evict `victims` for `name`."""
    record = driver.record(name)
    planned = tuple(
        PlannedVictim(
            workload_id=one, version=driver.record(one).version, attempt=1, rule="reclaim"
        )
        for one in victims
    )
    fields: dict[str, Any] = {
        "plan_id": f"plan-{name}",
        "workload_id": name,
        "version": record.version,
        "nomination": 1,
        "flavor": "h100",
        "rule": "reclaim",
        "victims": planned,
    }
    return ProposeEvictionPlan(**(fields | changed))


def gone(name: str, attempt: int = 1, **more: Any) -> Any:
    return pod_fact(PodsGone, name, attempt, **more)


def full_world(**preemptor: Any) -> Driver:
    """Two workloads of 4 GPUs fill the node; `p` wants 8 and waits."""
    driver = a_world()
    run(driver, "a", gpus=4, team="blue")
    run(driver, "b", gpus=4, team="blue")
    ask(driver, **({"gpus": 8} | preemptor))
    return driver


def test_a_plan_evicts_reserves_and_places_when_the_last_victim_is_gone():
    driver = full_world()

    out = driver.send(a_plan(driver, "a", "b"))

    assert ["EvictionPlanAccepted", *["WorkloadEvicted", "EvictPods"] * 2] == kinds(out)
    assert [driver.state(one) for one in "abp"] == [State.EVICTING, State.EVICTING, State.QUEUED]
    assert ["WorkloadRequeued"] == kinds(driver.send(gone("a")))
    out = driver.send(gone("b"))
    assert ["WorkloadRequeued", "WorkloadPlaced", "BindWorkload"] == kinds(out)
    assert driver.state("p") is State.PLACED
    assert len(driver.handler.desk.reservations) == 0
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
    driver = a_world(gpus=16)
    driver.send(a_quota("all", 8, kind="cohort", version=2))
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
    before = driver.handler.desk.cluster.digest()

    (refused,) = driver.send(a_plan(driver, "a", "b", **change))

    assert isinstance(refused, EvictionPlanRefused)
    assert refused.reason == reason
    assert before == driver.handler.desk.cluster.digest()
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
    (expired,) = driver.wait(1)

    assert isinstance(expired, ReservationExpired)
    assert expired.reason == "timed-out"
    assert 0 == len(driver.handler.desk.reservations)
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


SHARE = GpuRequest(milli=600, memory_mib=40_000)
SMALL = GpuRequest(milli=300, memory_mib=10_000)
SLICE = GpuRequest(mig_profile="1g.10gb", mig_count=1)
HALF = GpuRequest(mig_profile="3g.40gb", mig_count=1)


@pytest.mark.parametrize(
    ("running", "wanted", "team"),
    [
        (SHARE, SHARE, "red"),
        (SHARE, SHARE, "blue"),
        (SMALL, SHARE, "blue"),
        (SHARE, GpuRequest(count=1), "red"),
        (GpuRequest(count=1), SHARE, "red"),
    ],
)
def test_shares_of_a_gpu_are_kept_from_all_others(running: Any, wanted: Any, team: str):
    driver = a_world(gpus=1)
    run(driver, "a", gpu=running, team="blue")
    run(driver, "z", gpu=GpuRequest(), team="blue")
    if running is SMALL:
        run(driver, "b", gpu=SHARE, team="blue")
    ask(driver, gpu=wanted, team=team)

    out = driver.send(a_plan(driver, "b" if running is SMALL else "a"))
    assert isinstance(out[0], EvictionPlanAccepted)
    for number in range(3):
        thief = a_workload(f"t{number}", gpu=SMALL, queue="borrower", team="blue")
        driver.send(nominated(thief))
    driver.send(gone("b" if running is SMALL else "a"))

    assert driver.state("p") is State.PLACED


@pytest.mark.parametrize("wanted", [SLICE, HALF])
def test_slices_of_a_gpu_are_kept_from_all_others(wanted: Any):
    driver = a_world(gpus=0, mig=1, quota=1)
    for name in "abcdefg":
        run(driver, name, gpu=SLICE, team="blue")
    ask(driver, gpu=wanted)
    record = driver.record("p")

    for victims in (("a",), ("a", "b", "c", "d"), tuple("abcdefg")):
        (*_, last) = driver.send(a_plan(driver, *victims))
        if not isinstance(last, EvictionPlanRefused):
            break
    assert driver.handler.desk.reservations.of("p") is not None
    thief = nominated(a_workload("thief", gpu=SLICE, queue="borrower", team="blue"))
    for victim in victims:
        driver.send(gone(victim), thief)

    assert record.state is State.PLACED


def test_what_memory_holds_beyond_the_ledger_is_what_is_reserved():
    driver = a_world()
    run(driver, "a", gpu=SHARE)
    run(driver, "b", gpus=3)
    before = held_in_memory(driver.handler.desk.cluster)
    ask(driver, gpus=8)
    driver.send(a_plan(driver, "a", "b"))
    desk = driver.handler.desk

    assert before != held_in_memory(desk.cluster)
    assert before == held_in_memory(desk.cluster, list(desk.reservations.pieces()))


def test_a_row_is_written_with_the_plan_and_removed_with_the_placing():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    saved = [one for one in driver.outcome.writes if one.sql == SAVE]
    assert [["p"]] == [one.arguments[0] for one in saved]
    driver.send(gone("a"))
    assert not any("reservation" in one.sql for one in driver.outcome.writes)
    driver.send(gone("b"))

    deleted = [one for one in driver.outcome.writes if "DELETE FROM placement.res" in one.sql]
    assert [(["p"],)] == [one.arguments for one in deleted]


def test_the_same_history_gives_the_same_bytes():
    def tell() -> list[bytes]:
        driver = full_world()
        driver.send(a_plan(driver, "a", "b"))
        driver.send(gone("b"), gone("a"))
        return [row.value for unit in driver.units for row in unit.outbox]

    assert tell() == tell()
    assert isinstance(full_world().handler, PlacementHandler)


def test_a_workload_is_placed_only_once_when_victims_go_in_one_batch():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    out = driver.send(gone("a"), gone("b"))

    assert 1 == sum(isinstance(one, WorkloadPlaced) for one in out)
