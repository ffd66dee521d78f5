"""`muster submit`: what admission says within a second, why it ended, what was there before."""

import json

import pytest

from tests.unit.cli.builders import ID, JOB, OTHER, accepted, accepted_all, workload, write
from tests.unit.cli.gateway import Answer, problem

TOO_LARGE = "pod_sets[0].gpu.count: no node has 16 GPUs; ask for at most 8"


def rejected(identifier: str = ID) -> dict:
    return workload("rejected", identifier, reason="NeverFits", message=TOO_LARGE)


@pytest.mark.parametrize("pages", [1, 3])
def test_what_admission_rejects_at_once_exits_with_five_and_the_reason(
    muster, gateway, tmp_path, pages
):
    gateway.on("POST /v1/workloads", accepted())
    waits = [{"items": [workload("received")]}] * (pages - 1)
    gateway.on("GET /v1/workloads", *waits, {"items": [rejected()]})

    done = muster("submit", "-f", write(tmp_path, JOB))

    assert 5 == done.code
    assert f"{ID}  train  rejected: NeverFits: {TOO_LARGE}\n" == done.err
    assert "rejected" in done.out
    assert ID == gateway.requests("GET /v1/workloads")[0].query["id"]


def test_what_is_queued_is_shown_so_and_exits_with_zero(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on("GET /v1/workloads", {"items": [workload("queued")]})

    done = muster("submit", "-f", write(tmp_path, JOB), "-o", "json")

    assert (0, "") == (done.code, done.err)
    assert "queued" == json.loads(done.out)["items"][0]["state"]


@pytest.mark.parametrize("answer", [{"items": [workload("received")]}, problem(503, "away")])
def test_without_a_verdict_in_time_it_is_accepted(muster, gateway, tmp_path, monkeypatch, answer):
    monkeypatch.setattr("muster.cli.verdicts.VERDICT_SECONDS", 0.05)
    gateway.on("POST /v1/workloads", accepted())
    gateway.on("GET /v1/workloads", answer)

    done = muster("submit", "-f", write(tmp_path, JOB), "-o", "json")

    assert (0, "") == (done.code, done.err)
    assert "received" == json.loads(done.out)["items"][0]["state"]


def test_of_several_the_same_reason_is_told_three_times(muster, gateway, tmp_path):
    ids = ["w" + letter * 26 for letter in "abcde"]
    gateway.on("POST /v1/workloads:batch", accepted_all(*ids))
    gateway.on("GET /v1/workloads", {"items": [rejected(one) for one in ids]})

    done = muster("submit", "-f", write(tmp_path, *[JOB] * 5))

    assert 5 == done.code
    assert [*ids[:3], "2"] == [line.split()[0] for line in done.err.splitlines()]


@pytest.mark.parametrize(
    ("state", "code"), [("failed", 100), ("rejected", 5), ("cancelled", 103), ("succeeded", 0)]
)
def test_wait_tells_the_reason_of_whatever_did_not_succeed(muster, gateway, tmp_path, state, code):
    gateway.on("POST /v1/workloads", accepted())
    why = {"reason": "failed", "pod_reason": "OOMKilled", "message": "exit code 137 of rank 3"}
    ended = workload(state, **why)
    gateway.on(f"GET /v1/workloads/{ID}", ended)

    done = muster("submit", "-f", write(tmp_path, JOB), "--wait")

    assert code == done.code
    told = f"{ID}  train  {state}: failed (OOMKilled): exit code 137 of rank 3" in done.err
    assert told == (state != "succeeded")


def test_a_repeated_key_says_already_submitted_and_todays_state(muster, gateway, tmp_path):
    before = {"id": ID, "state": "running", "name": "train", "replayed": True}
    gateway.on("POST /v1/workloads", Answer(before, 202))
    gateway.on("GET /v1/workloads", {"items": [workload("running")]})

    done = muster("submit", "-f", write(tmp_path, JOB), "--idempotency-key", "nightly")

    assert 0 == done.code
    assert f"{ID}  train  already submitted, now running\n" == done.err
    assert "running" in done.out


def test_a_repeated_key_of_rejected_work_exits_with_five_again(muster, gateway, tmp_path):
    answers = accepted_all(ID, OTHER)
    answers.body["items"][0] |= {"state": "rejected", "replayed": True}
    gateway.on("POST /v1/workloads:batch", answers)
    gateway.on("GET /v1/workloads", {"items": [rejected(), workload("queued", OTHER)]})

    done = muster("submit", "-f", write(tmp_path, JOB, JOB), "--idempotency-key", "nightly")

    assert 5 == done.code
    assert "already submitted, now rejected" in done.err
    assert TOO_LARGE in done.err
