"""`muster submit` through outages and early ends: what was accepted is never lost."""

import json
import re
from unittest import mock

import pytest

from muster.client import AsyncClient
from tests.unit.cli.builders import ID, JOB, OTHER, accepted, accepted_all, workload, write
from tests.unit.cli.gateway import Answer, problem, stream

AWAY = [problem(503, "away")] * 9
"""More than a client tries for one answer, twice over."""
GET = f"GET /v1/workloads/{ID}"


@pytest.fixture(autouse=True)
def polls(monkeypatch):
    """Those who wait ask often, and never for long nothing."""
    monkeypatch.setattr("muster.cli.waiting.POLL_SECONDS_MAX", 0.01)


@pytest.mark.parametrize("answer", [problem(503, "away"), problem(502, "away"), Answer("", 504)])
def test_wait_goes_on_through_an_outage_and_tells_it_once(muster, gateway, tmp_path, answer):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload("queued"), *[answer] * 9, workload("succeeded"))

    done = muster("submit", "-f", write(tmp_path, JOB), "--wait", "-o", "json")

    assert 0 == done.code
    assert 1 == done.err.count("Waiting goes on")
    assert 1 == done.err.count("Muster answers again.")
    assert "succeeded" == json.loads(done.out)["items"][0]["state"]


def test_who_waits_hears_ids_at_once_and_the_last_states_when_it_cannot_go_on(
    muster, gateway, tmp_path
):
    gateway.on("POST /v1/workloads:batch", accepted_all(ID, OTHER))
    gateway.on(GET, workload("running"), problem(401, "the key has expired"))
    gateway.on(f"GET /v1/workloads/{OTHER}", workload("queued", OTHER))

    done = muster("submit", "-f", write(tmp_path, JOB, JOB), "--wait")

    assert 4 == done.code
    assert [f"{ID}  train  accepted", f"{OTHER}  train  accepted"] == done.err.splitlines()[:2]
    assert "the key has expired" in done.err
    rows = [line.split()[:3] for line in done.out.splitlines()[1:]]
    assert [[ID, "train", "running"], [OTHER, "train", "queued"]] == rows


def test_who_stops_waiting_is_shown_what_was_heard_last(muster, gateway, tmp_path, monkeypatch):
    gateway.on("POST /v1/workloads", accepted())
    get = mock.AsyncMock(side_effect=[workload("running"), KeyboardInterrupt])
    monkeypatch.setattr(AsyncClient, "get", get)

    done = muster("submit", "-f", write(tmp_path, JOB), "--wait")

    assert 0 != done.code
    assert f"{ID}  train  running" in done.out


def test_the_time_ends_a_wait_also_while_nobody_answers(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, workload("queued"), problem(503, "away"))

    done = muster("submit", "-f", write(tmp_path, JOB), "--wait", "--timeout", "0.4s")

    assert 101 == done.code
    assert "1 of 1 have not ended" in done.err
    assert "queued" in done.out


def test_long_waits_tell_how_far_they_are_once_for_each_change(
    muster, gateway, tmp_path, monkeypatch
):
    monkeypatch.setattr("muster.cli.waiting.PROGRESS_SECONDS", 0.01)
    gateway.on("POST /v1/workloads:batch", accepted_all(ID, OTHER))
    gateway.on(GET, *[workload("running")] * 3, workload("succeeded"))
    gateway.on(f"GET /v1/workloads/{OTHER}", workload("succeeded", OTHER))

    done = muster("submit", "-f", write(tmp_path, JOB, JOB), "--wait")

    assert 1 == done.err.count("1 of 2 have ended: 1 running, 1 succeeded.")


def test_what_has_not_changed_is_told_again_now_and_then(muster, gateway, tmp_path, monkeypatch):
    monkeypatch.setattr("muster.cli.waiting.PROGRESS_SECONDS", 0.01)
    monkeypatch.setattr("muster.cli.waiting.PROGRESS_REPEATED", 3)
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, *[workload("running")] * 3, workload("succeeded"))

    done = muster("submit", "-f", write(tmp_path, JOB), "--wait")

    assert done.err.count("0 of 1 have ended: 1 running.") > 1


def test_watch_goes_on_behind_the_last_event_after_an_outage(muster, gateway, tmp_path):
    first, last = ({"id": one, "workload_id": ID, "state": f"state-{one}"} for one in (7, 8))
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(GET, *[workload("queued")] * 40, workload("succeeded"))
    gateway.on(f"{GET}/events", stream((7, first)), *AWAY, stream((8, last)))

    done = muster("submit", "-f", write(tmp_path, JOB), "--watch")

    assert 0 == done.code
    assert ["state-7", "state-8"] == re.findall(r"state-\d", done.err)[:2]
    asked = [one.headers.get("Last-Event-ID") for one in gateway.requests(f"{GET}/events")]
    assert {"0", "7"} == set(asked[:11])


@pytest.mark.parametrize("status", [500, 503])
def test_what_was_accepted_is_shown_when_the_rest_is_not_and_how_to_send_it(
    muster, gateway, tmp_path, status
):
    names = [f"{number:026}" for number in range(150)]
    file = write(tmp_path, *[JOB] * 150)
    failed = problem(status, "failed")
    gateway.on("POST /v1/workloads:batch", accepted_all(*names[:100]), failed)
    gateway.on("POST /v1/workloads", failed)

    done = muster("submit", "-f", file, "-o", "name")
    (key,) = re.findall(r"--idempotency-key (\w+):", done.err)
    muster("submit", "-f", file, "--idempotency-key", key)

    assert {500: 1, 503: 6}[status] == done.code
    assert names[:100] == done.out.split()
    assert names[:100] == re.findall(r"^(\d{26})  train  accepted$", done.err, re.MULTILINE)
    batches = gateway.requests("POST /v1/workloads:batch")
    assert "failed" in done.err
    keys = [item["idempotency_key"] for item in batches[0].body["items"]]
    again = next(one for one in batches[2:] if one.body["items"][0]["idempotency_key"] == keys[0])
    assert keys == [item["idempotency_key"] for item in again.body["items"]]


def test_without_permission_there_is_nothing_to_send_again(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", problem(403, "not yours"))

    done = muster("submit", "-f", write(tmp_path, JOB))

    assert 4 == done.code
    assert "--idempotency-key" not in done.err


def test_a_submission_whose_answer_is_lost_can_be_sent_again(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", problem(503, "away"))

    done = muster("submit", "-f", write(tmp_path, JOB))

    sent = gateway.seen[0].headers["Idempotency-Key"]
    assert 6 == done.code
    assert f"Run again with --idempotency-key {sent}:" in done.err
