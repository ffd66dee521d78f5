"""What a replay concludes from the log, fact by fact."""

import pytest

from operations.replay.report import lines_of, percentile, report_of
from operations.replay.tracker import Tracker
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, Workload, WorkloadKind, WorkloadSpec
from shared.core.model.units import Resources
from shared.events.envelope import Event, Received
from shared.events.quotas import QuotaRefused
from shared.events.workloads import (
    PlacementRefused,
    WorkloadPlaced,
    WorkloadQueued,
    WorkloadRejected,
    WorkloadRunning,
    WorkloadSucceeded,
)

ONE, TWO = "w" + "a" * 26, "w" + "b" * 26


@pytest.fixture
def tracker() -> Tracker:
    tracker = Tracker([ONE, TWO])
    tracker.submitted(ONE, 1000)
    tracker.submitted(TWO, 1000)
    return tracker


def tell(tracker: Tracker, payload, at_ms: int = 1100, identifier: str = "") -> None:
    event = Event(
        id=identifier or f"{type(payload).__name__}-{at_ms}",
        type="t",
        source="s",
        subject="",
        time_ms=at_ms,
        key="",
        payload=payload,
    )
    tracker.take(Received(event=event, topic="t", partition=0, offset=0), at_ms)


def queued(workload_id: str) -> WorkloadQueued:
    spec = WorkloadSpec(name="n", kind=WorkloadKind.TRAINING)
    workload = Workload(
        id=workload_id, team="t", queue="q", cell=0, priority=1, spec=spec, submitted_at_ms=0
    )
    return WorkloadQueued(workload=workload, body_hash="")


def fact(kind, workload_id: str, state: State, *, attempt: int = 1, **more):
    return kind(
        workload_id=workload_id,
        team="t",
        queue="q",
        version=2,
        state=state,
        attempt=attempt,
        priority=1,
        **more,
    )


def placed(workload_id: str, attempt: int = 1) -> WorkloadPlaced:
    placement = Placement(flavor="f", pods=(), charge=Resources(gpu_milli=500))
    made: WorkloadPlaced = fact(
        WorkloadPlaced,
        workload_id,
        State.PLACED,
        attempt=attempt,
        placement=placement,
        placed_at_ms=1,
        submitted_at_ms=1,
    )
    return made


def refused(kind, workload_id: str, reason: Reason):
    more = {"nomination": 1} if kind is PlacementRefused else {}
    return kind(
        workload_id=workload_id,
        team="t",
        queue="q",
        reason=reason,
        message="m",
        next_step="n",
        **more,
    )


def test_one_placed_and_one_waiting_with_a_reason_is_all_there_is_to_know(tracker):
    tell(tracker, queued(ONE), identifier="q1")
    tell(tracker, queued(TWO), identifier="q2")
    tell(tracker, placed(ONE), at_ms=1250)
    tell(tracker, refused(PlacementRefused, TWO, Reason.NO_CAPACITY))

    report = report_of(tracker, fleet_gpu_milli=2000)

    assert tracker.settled() == 2
    assert report == {
        "submitted": 2,
        "accepted": 2,
        "rejected": 0,
        "placed": 1,
        "waiting": {"InsufficientCapacity": 1},
        "lost": 0,
        "duplicated": 0,
        "allocated_percent": 25.0,
        "submit_to_placed_p50_ms": 250,
        "submit_to_placed_p99_ms": 250,
        "workloads_per_second": 4.0,
    }
    assert "     1 InsufficientCapacity" in "\n".join(lines_of(report))


def test_silence_about_a_submission_is_a_loss(tracker):
    tell(tracker, queued(ONE))

    assert report_of(tracker, 1000)["lost"] == 2


def test_a_rejection_is_an_answer(tracker):
    rejected = WorkloadRejected(
        workload_id=ONE, team="t", name="n", kind="k", body_hash="", errors=(), message=""
    )
    tell(tracker, rejected)
    tell(tracker, refused(QuotaRefused, TWO, Reason.WAITING_FOR_QUOTA))

    report = report_of(tracker, 1000)

    assert (report["rejected"], report["lost"]) == (1, 0)


@pytest.mark.parametrize("effect", [queued, placed])
def test_two_effects_of_one_submission_are_a_duplicate(tracker, effect):
    tell(tracker, effect(ONE), identifier="a")
    tell(tracker, effect(ONE), identifier="b")

    assert report_of(tracker, 1000)["duplicated"] == 1


def test_a_copy_of_one_fact_and_a_second_attempt_are_no_duplicates(tracker):
    tell(tracker, queued(ONE), identifier="q")
    tell(tracker, queued(ONE), identifier="q")
    tell(tracker, placed(ONE), identifier="p")
    tell(tracker, placed(ONE, attempt=2), identifier="p2")

    assert report_of(tracker, 1000)["duplicated"] == 0


def test_what_has_ended_holds_nothing_and_waits_for_nothing(tracker):
    tell(tracker, queued(ONE))
    tell(tracker, placed(ONE))
    tell(tracker, fact(WorkloadRunning, ONE, State.RUNNING, running_at_ms=1))
    tell(tracker, fact(WorkloadSucceeded, ONE, State.SUCCEEDED))

    assert report_of(tracker, 1000)["allocated_percent"] == 0
    assert tracker.counts()["running"] == 0
    assert tracker.counts()["ended"] == 1


def test_the_work_of_others_is_passed_over(tracker):
    tell(tracker, queued("w" + "z" * 26))

    assert tracker.counts()["accepted"] == 0


@pytest.mark.parametrize(("percent", "value"), [(50, 5), (99, 10), (100, 10), (1, 1)])
def test_a_percentile_is_a_value_that_occurred(percent: int, value: int):
    assert percentile(list(range(1, 11)), percent) == value
    assert percentile([], percent) == 0
