"""`muster logs`, and what `muster run` shows of the work's own output."""

import pytest

from tests.unit.cli.builders import ID, accepted, workload
from tests.unit.cli.gateway import Answer, problem

LOGS = f"GET /v1/workloads/{ID}/logs"
NOT_KEPT = problem(409, "there are no logs: pods of a simulated cluster run nothing")


def written(text: str) -> Answer:
    return Answer(text=text, kind="text/plain")


@pytest.fixture(autouse=True)
def pace(monkeypatch):
    """Those who follow look often."""
    monkeypatch.setattr("muster.cli.waiting.POLL_SECONDS_MAX", 0.02)
    monkeypatch.setattr("muster.cli.running.following.TELL_SECONDS", 0.01)
    monkeypatch.setattr("muster.cli.running.output.AGAIN_SECONDS", 0.01)


def test_logs_are_written_as_they_are_and_each_wish_is_sent(muster, gateway):
    gateway.on(LOGS, written("epoch 1\nno end"))

    done = muster("logs", ID, "-f", "--pod", "3", "--previous", "--tail", "9", "--since", "10m")

    assert (0, "epoch 1\nno end", "") == (done.code, done.out, done.err)
    wishes = {"rank": "3", "tail": "9", "sinceSeconds": "600"}
    assert {"follow": "true", "previous": "true", **wishes} == gateway.seen[0].query


def test_by_name_and_without_wishes_nothing_is_sent_besides(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()]})
    gateway.on(LOGS, written("a\n"))

    assert "a\n" == muster("logs", "train").out
    assert {} == gateway.requests(LOGS)[0].query


def test_a_cluster_without_logs_is_told_with_exit_code_5(muster, gateway):
    gateway.on(LOGS, NOT_KEPT)

    done = muster("logs", ID)

    assert (5, "") == (done.code, done.out)
    assert "there are no logs: pods of a simulated cluster run nothing" in done.err


@pytest.mark.parametrize("since", ["0", "soon"])
def test_since_must_be_a_length_of_time(muster, gateway, since):
    assert 2 == muster("logs", ID, "--since", since).code
    assert [] == gateway.seen


def test_run_shows_the_output_on_stdout_and_all_else_on_stderr(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    placed = [workload("placed", attempt=1)] * 3
    gateway.on(
        f"GET /v1/workloads/{ID}", *placed, *[workload(attempt=1)] * 5, workload("succeeded")
    )
    gateway.on(LOGS, written("loss 0.1\n"))

    done = muster("run", "--", "python", "train.py")

    assert (0, "loss 0.1\n") == (done.code, done.out)
    assert "train is running on node-1." in done.err
    assert [{"follow": "true"}] == [one.query for one in gateway.requests(LOGS)]


def test_run_follows_each_attempt(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    states = [workload(attempt=1)] * 9 + [workload("queued")] * 9 + [workload(attempt=2)] * 9
    gateway.on(f"GET /v1/workloads/{ID}", *states, workload("succeeded"))
    gateway.on(LOGS, written("first\n"), written("second\n"))

    assert "first\nsecond\n" == muster("run", "--", "true").out


def test_run_goes_on_with_the_output_after_an_outage(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(f"GET /v1/workloads/{ID}", *[workload(attempt=1)] * 9, workload("succeeded"))
    gateway.on(LOGS, problem(503, "away"), problem(502, "away"), written("a\n"))

    assert (0, "a\n") == ((done := muster("run", "--", "true")).code, done.out)


def test_run_says_once_that_there_is_no_output_and_goes_on(muster, gateway):
    gateway.on("POST /v1/workloads", accepted())
    states = [workload(attempt=1)] * 9 + [workload("queued")] * 9 + [workload(attempt=2)] * 9
    gateway.on(f"GET /v1/workloads/{ID}", *states, workload("failed", reason="Error"))
    gateway.on(LOGS, NOT_KEPT)

    done = muster("run", "--", "true")

    assert 100 == done.code
    assert 1 == done.err.count("No output is shown")
    assert 2 == len(gateway.requests(LOGS))
