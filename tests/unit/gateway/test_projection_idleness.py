"""Facts of idle work as events and records."""

import json

from services.gateway.projection.projection import Projection
from services.gateway.projection.projection_sql import PREEMPTIONS
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.events import idleness, workloads
from tests.unit.gateway.test_projection import fact, rows_of, told


def a_notice(**changed: object) -> idleness.IdlenessNoticed:
    fields: dict = {
        "workload_id": "w1",
        "team": "red",
        "queue": "q",
        "attempt": 1,
        "since_ms": 0,
        "until_ms": 60_000,
        "utilization_percent": 3,
        "percent_below": 5,
        "release_at_ms": 120_000,
    }
    return idleness.IdlenessNoticed(**(fields | changed))


def test_a_warning_of_idleness_is_an_event_that_changes_no_state():
    rows = rows_of(a_notice(), a_notice(reminder=True))

    (event,) = rows["event"]
    assert (event["version"], event["state"], event["reason"]) == (0, "running", "idle")
    assert "used 3 % at most since 1970-01-01 00:00:00Z" in event["message"]
    assert "released at about 1970-01-01 00:02:00Z" in event["message"]
    assert json.loads(event["detail"])["next_step"] == "use its GPUs, or it is stopped and held"
    assert "workload" not in rows


def test_a_policy_that_never_releases_promises_nothing():
    (event,) = rows_of(a_notice(release_at_ms=0))["event"]

    assert "released" not in event["message"]


def test_the_end_of_idleness_is_told_in_words():
    (event,) = rows_of(
        idleness.IdlenessEnded(
            workload_id="w1",
            team="red",
            queue="q",
            attempt=1,
            since_ms=0,
            ended_at_ms=9,
            reason=Reason.UNSEEN,
        )
    )["event"]

    assert (event["state"], event["reason"]) == ("running", "not-idle")
    assert "nothing is known" in event["message"]


def test_a_release_of_idle_work_is_a_record_without_a_preemptor():
    idle = workloads.IdleRelease(plan_id="p", since_ms=1, until_ms=2, utilization_percent=0)
    evicted = fact(workloads.WorkloadEvicted, 4, State.EVICTING, reason=Reason.IDLE, idle=idle)

    writes = Projection().decide([told(evicted, 1)], 0).writes

    (record,) = [one for one in writes if one.sql == PREEMPTIONS]
    plan, preemptor, team, _, _, rule, _, _, victims, *_ = [one[0] for one in record.arguments]
    assert (plan, preemptor, team, rule) == ("p", "", "red", "idle")
    assert [("w1", "idle")] == [(one["workload_id"], one["rule"]) for one in json.loads(victims)]
