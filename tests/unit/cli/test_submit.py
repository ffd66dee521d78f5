"""`muster submit`: what is sent, what is told, how it exits."""

import io
import json
from pathlib import Path

import pytest

from tests.unit.cli.builders import ID, JOB, OTHER, accepted, accepted_all, workload, write
from tests.unit.cli.gateway import problem, stream


def test_submit_sends_the_document_with_the_key_of_the_caller(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())

    done = muster("submit", "-f", write(tmp_path, JOB), "--idempotency-key", "nightly")

    assert (done.code, done.err) == (0, "")
    assert ID in done.out
    (seen,) = gateway.requests("POST /v1/workloads")
    assert seen.body == JOB
    assert seen.headers["Idempotency-Key"] == "nightly"
    assert seen.headers["Authorization"] == "Bearer mk_test"


def test_submit_sends_many_documents_each_with_a_key_of_its_own(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads:batch", accepted_all(ID, OTHER))

    done = muster(
        "submit", "-f", write(tmp_path, JOB, JOB), "--idempotency-key", "n", "-o", "name"
    )

    assert done.out.split() == [ID, OTHER]
    (seen,) = gateway.requests("POST /v1/workloads:batch")
    assert seen.body == {
        "items": [{"idempotency_key": key, "spec": JOB} for key in ("n-1", "n-2")]
    }


@pytest.mark.parametrize("key", ["", " ", "a\nb", "t\u00e4glich", "k ", "k" * 201])
def test_what_cannot_be_an_idempotency_key_is_refused_and_never_made_another(
    muster, gateway, tmp_path, key
):
    gateway.on("POST /v1/workloads", accepted())

    done = muster("submit", "-f", write(tmp_path, JOB), "--idempotency-key", key)

    assert 2 == done.code
    assert "--idempotency-key must be 1 to 200 printable ASCII characters" in done.err
    assert [] == gateway.seen


def test_the_number_behind_an_idempotency_key_counts_with_it(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())

    one = muster("submit", "-f", write(tmp_path, JOB), "--idempotency-key", "k" * 199)
    two = muster("submit", "-f", write(tmp_path, JOB, JOB), "--idempotency-key", "k" * 199)

    assert (0, 2) == (one.code, two.code)
    assert "with its number" in two.err


def test_hundreds_of_documents_are_sent_a_hundred_at_a_time_in_order(muster, gateway, tmp_path):
    names = [f"{number:026}" for number in range(250)]
    parts = [names[:100], names[100:200], names[200:]]
    gateway.on("POST /v1/workloads:batch", *(accepted_all(*part) for part in parts))

    done = muster("submit", "-f", write(tmp_path, *[JOB] * 250), "-o", "name")

    assert done.out.split() == names
    seen = gateway.requests("POST /v1/workloads:batch")
    assert [100, 100, 50] == [len(one.body["items"]) for one in seen]


def test_where_the_whole_is_refused_each_is_sent_for_itself_by_the_same_key(
    muster, gateway, tmp_path
):
    gateway.on("POST /v1/workloads:batch", problem(400, "not valid"))
    gateway.on("POST /v1/workloads", accepted(ID), accepted(OTHER))

    done = muster("submit", "-f", write(tmp_path, JOB, JOB), "-o", "name")

    (batch,) = gateway.requests("POST /v1/workloads:batch")
    each = gateway.requests("POST /v1/workloads")
    assert (done.code, done.out.split()) == (0, [ID, OTHER])
    assert [one["idempotency_key"] for one in batch.body["items"]] == [
        one.headers["Idempotency-Key"] for one in each
    ]


def test_the_same_error_of_many_documents_is_told_three_times(muster, gateway, tmp_path):
    error = {"field": "queue", "value": "x", "rule": "is not a queue"}
    no = problem(400, "queue: is not a queue", errors=[error])
    gateway.on("POST /v1/workloads:batch", no)
    gateway.on("POST /v1/workloads", no)

    done = muster("submit", "-f", write(tmp_path, *[JOB] * 7))

    assert done.code == 5
    assert done.err.count("queue: is not a queue (given: x)") == 3
    assert "error: No\n" in done.err
    assert "The same of 4 more documents: queue: is not a queue\n" in done.err


def test_a_key_that_made_another_workload_is_told_and_the_others_are_accepted(
    muster, gateway, tmp_path
):
    answers = accepted_all(ID, OTHER)
    answers.body["items"][0] |= {"status": 422, "state": "conflicted"}
    gateway.on("POST /v1/workloads:batch", answers)

    done = muster("submit", "-f", write(tmp_path, JOB, JOB), "-o", "name")

    assert (done.code, done.out.split()) == (5, [OTHER])
    assert f"the same idempotency key made workload {ID} of another body" in done.err


def test_without_permission_the_first_is_told_and_no_more_are_sent(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads:batch", problem(403, "not yours"))
    gateway.on("POST /v1/workloads", problem(403, "not yours"))

    done = muster("submit", "-f", write(tmp_path, *[JOB] * 300))

    assert done.code == 4
    assert 1 == len(gateway.requests("POST /v1/workloads"))
    assert 1 == len(gateway.requests("POST /v1/workloads:batch"))


def test_submit_reads_json_from_standard_input(muster, gateway, monkeypatch):
    gateway.on("POST /v1/workloads", accepted())
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([JOB])))

    assert muster("submit", "-f", "-").code == 0
    assert gateway.seen[0].body == JOB


def test_a_rejected_document_is_told_by_field_and_the_others_go_on(muster, gateway, tmp_path):
    error = {"field": "pod_sets[0].gpu.count", "value": "-1", "rule": "must be at least 0"}
    gateway.on("POST /v1/workloads:batch", problem(400, "not valid", errors=[error]))
    gateway.on("POST /v1/workloads", problem(400, "not valid", errors=[error]), accepted(OTHER))

    done = muster("submit", "-f", write(tmp_path, JOB, JOB), "-o", "name")

    assert done.code == 5
    assert done.out.split() == [OTHER]
    assert "pod_sets[0].gpu.count: must be at least 0 (given: -1)" in done.err


def test_a_dry_run_asks_for_one_and_exits_with_five_when_it_would_be_rejected(
    muster, gateway, tmp_path
):
    error = {"field": "queue", "value": "x", "rule": "is not a queue"}
    verdict = {"dry_run": True, "valid": False, "state": "rejected", "errors": [error]}
    gateway.on("POST /v1/workloads", verdict)

    done = muster("submit", "-f", write(tmp_path, JOB), "--dry-run")

    assert done.code == 5
    assert "queue: is not a queue (given: x)" in done.err
    assert done.err.count("is not a queue") == 1
    assert gateway.seen[0].query == {"dryRun": "true"}


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("succeeded", "", 0),
        ("failed", "failed", 100),
        ("cancelled", "", 103),
        ("rejected", "", 5),
    ],
)
def test_wait_exits_by_how_the_workload_ended(muster, gateway, state: str, reason: str, code: int):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(f"GET /v1/workloads/{ID}", workload("running"), workload(state, reason=reason))

    done = muster("submit", "-f", write(Path.cwd(), JOB), "--wait")

    assert done.code == code
    assert state in done.out


def test_wait_exits_with_101_when_the_time_is_up(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(f"GET /v1/workloads/{ID}", workload("queued"))

    done = muster("submit", "-f", write(tmp_path, JOB), "--wait", "--timeout", "0.2s")

    assert done.code == 101
    assert "1 of 1 have not ended" in done.err


def test_the_worst_end_of_many_gives_the_exit_code(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads:batch", accepted_all(ID, OTHER))
    gateway.on(f"GET /v1/workloads/{ID}", workload("failed"))
    gateway.on(f"GET /v1/workloads/{OTHER}", workload("succeeded", OTHER))

    assert muster("submit", "-f", write(tmp_path, JOB, JOB), "--wait").code == 100


def test_of_a_rejection_and_a_failure_the_higher_code_is_given(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads:batch", problem(400, "not valid"))
    gateway.on("POST /v1/workloads", problem(400, "not valid"), accepted())
    gateway.on(f"GET /v1/workloads/{ID}", workload("failed"))

    assert 100 == muster("submit", "-f", write(tmp_path, JOB, JOB), "--wait").code


def test_a_rejection_counts_where_the_others_succeed(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads:batch", problem(400, "not valid"))
    gateway.on("POST /v1/workloads", problem(400, "not valid"), accepted())
    gateway.on(f"GET /v1/workloads/{ID}", workload("succeeded"))

    assert 5 == muster("submit", "-f", write(tmp_path, JOB, JOB), "--wait").code


def test_watch_tells_each_event(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())
    gateway.on(f"GET /v1/workloads/{ID}", workload("queued"), workload("succeeded"))
    event = {"workload_id": ID, "state": "placed", "message": "on node-1", "at_ms": 1000}
    gateway.on(f"GET /v1/workloads/{ID}/events", stream((7, event)))

    done = muster("submit", "-f", write(tmp_path, JOB), "--watch")

    assert done.code == 0
    assert "placed" in done.err
    assert "on node-1" in done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: [", "neither YAML nor JSON"),
        ("just text", "must be a mapping"),
        ("", "no document was given"),
    ],
)
def test_a_file_that_is_no_document_is_a_usage_error(muster, tmp_path, text: str, told: str):
    (tmp_path / "bad.yaml").write_text(text)

    done = muster("submit", "-f", "bad.yaml")

    assert done.code == 2
    assert told in done.err


def test_a_file_that_does_not_exist_is_a_usage_error(muster):
    done = muster("submit", "-f", "nowhere.yaml")

    assert done.code == 2
    assert "nowhere.yaml cannot be read" in done.err


def test_an_operator_says_for_which_team(muster, gateway, tmp_path):
    told = "this key belongs to no team; name one by ?team="
    gateway.on("POST /v1/workloads", problem(403, told), accepted())

    without = muster("submit", "-f", write(tmp_path, JOB))
    done = muster("submit", "-f", write(tmp_path, JOB), "-t", "vision")

    assert (without.code, done.code) == (4, 0)
    assert "--team" in without.err
    assert gateway.seen[1].query == {"team": "vision"}
