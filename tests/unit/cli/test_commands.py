"""Every command: what it asks, what it shows, how it exits."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.gateway import Answer, FakeGateway, problem, stream

ID = "w" + "a" * 26
OTHER = "w" + "b" * 26
JOB = {"name": "train", "kind": "training", "pod_sets": [{"gpu": {"count": 8}}]}


def workload(state: str = "running", identifier: str = ID, **more) -> dict:
    return {
        "id": identifier,
        "name": "train",
        "team": "vision",
        "queue": "vision",
        "kind": "training",
        "state": state,
        "gpu_milli": 8000,
        "pods": 1,
        "priority": 100,
        "nodes": ["node-1"],
        "reason": "",
        "submitted_at_ms": 1,
        **more,
    }


def accepted(identifier: str = ID) -> Answer:
    body = {"id": identifier, "state": "received", "name": "train"}
    return Answer(body, 202, {"Location": f"/v1/workloads/{identifier}"})


def write(folder: Path, *documents: dict) -> str:
    path = folder / "jobs.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


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
    gateway.on("POST /v1/workloads", accepted(ID), accepted(OTHER))

    done = muster(
        "submit", "-f", write(tmp_path, JOB, JOB), "--idempotency-key", "n", "-o", "name"
    )

    assert done.out.split() == [ID, OTHER]
    keys = [one.headers["Idempotency-Key"] for one in gateway.requests("POST /v1/workloads")]
    assert keys == ["n-1", "n-2"]


def test_submit_reads_json_from_standard_input(muster, gateway, monkeypatch):
    gateway.on("POST /v1/workloads", accepted())
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([JOB])))

    assert muster("submit", "-f", "-").code == 0
    assert gateway.seen[0].body == JOB


def test_a_rejected_document_is_told_by_field_and_the_others_go_on(muster, gateway, tmp_path):
    error = {"field": "pod_sets[0].gpu.count", "value": "-1", "rule": "must be at least 0"}
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
        ("failed", "PodFailed", 100),
        ("failed", "Preempted", 104),
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
    gateway.on("POST /v1/workloads", accepted(ID), accepted(OTHER))
    gateway.on(f"GET /v1/workloads/{ID}", workload("failed"))
    gateway.on(f"GET /v1/workloads/{OTHER}", workload("succeeded", OTHER))

    assert muster("submit", "-f", write(tmp_path, JOB, JOB), "--wait").code == 100


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


def test_an_unknown_option_is_a_usage_error(muster):
    assert muster("queue", "--nonsense").code == 2


def test_queue_shows_live_workloads_as_a_table_with_numbers_for_people(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    done = muster("queue", "-t", "vision")

    header, row = done.out.splitlines()
    assert " ".join(header.split()) == "ID NAME TEAM KIND STATE GPUS PRIORITY AGE REASON"
    assert ["train", "vision", "training", "running", "8", "100"] == row.split()[1:7]
    query = gateway.seen[0].query
    assert query["team"] == "vision"
    assert set(query["state"].split(",")) >= {"queued", "running"}


def test_queue_follows_the_pages_to_the_end(muster, gateway):
    gateway.on(
        "GET /v1/workloads",
        {"items": [workload()], "next_cursor": "c2"},
        {"items": [workload(identifier=OTHER)], "next_cursor": ""},
    )

    done = muster("queue", "--all", "-o", "name")

    assert done.out.split() == [ID, OTHER]
    assert [one.query.get("cursor") for one in gateway.seen] == [None, "c2"]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_give_the_same_items(muster, gateway, form: str):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    done = muster("queue", "-o", form)

    assert yaml.safe_load(done.out) == {"items": [workload()]}


def test_wide_shows_more_than_table(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    assert "node-1" in muster("queue", "-o", "wide").out
    assert "node-1" not in muster("queue").out


def test_nothing_is_told_on_stderr_so_that_pipes_stay_clean(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [], "next_cursor": ""})

    done = muster("queue")

    assert (done.code, done.out) == (0, "")
    assert "Nothing runs or waits." in done.err


def test_status_finds_a_workload_by_its_name(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})
    gateway.on(f"GET /v1/workloads/{ID}", workload())

    done = muster("status", "train", "-o", "json")

    assert json.loads(done.out) == workload()
    assert gateway.seen[0].query["name"] == "train"


def test_status_shows_times_and_devices_for_people(muster, gateway):
    share = {"index": 3, "mask": 0, "milli": 250, "memory_mib": 100}
    whole = {"index": 4, "mask": 255, "milli": 1000, "memory_mib": 100}
    pods = [{"rank": rank, "node": "n1", "shares": [share, whole]} for rank in range(9)]
    more: dict = {"placement": {"pods": pods}, "spec": {"long": "text"}, "placed_at_ms": 1000}
    gateway.on(f"GET /v1/workloads/{ID}", workload(**more))

    out = muster("status", ID).out

    assert "pod 0            n1: GPU 3 (0.25, 100 MiB), 4\n" in out
    assert "and 1 more pods" in out
    assert "1970-01-01" in out
    assert "long" not in out


def test_an_operator_says_for_which_team(muster, gateway, tmp_path):
    told = "this key belongs to no team; name one by ?team="
    gateway.on("POST /v1/workloads", problem(403, told), accepted())

    without = muster("submit", "-f", write(tmp_path, JOB))
    done = muster("submit", "-f", write(tmp_path, JOB), "-t", "vision")

    assert (without.code, done.code) == (4, 0)
    assert "--team" in without.err
    assert gateway.seen[1].query == {"team": "vision"}


def test_a_name_that_several_have_lists_their_ids(muster, gateway):
    items = [workload(), workload("queued", OTHER)]
    gateway.on("GET /v1/workloads", {"items": items, "next_cursor": ""})

    done = muster("why", "train")

    assert done.code == 2
    assert ID in done.err
    assert OTHER in done.err


def test_a_workload_that_does_not_exist_exits_with_three_and_says_what_to_do(muster, gateway):
    done = muster("status", ID)

    assert done.code == 3
    assert "muster queue" in done.err


def test_why_says_reason_numbers_and_the_next_step(muster, gateway):
    answer = {
        "state": "queued",
        "reason": "WaitingForQuota",
        "message": "vision uses 28 of 32 GPUs, this needs 8",
        "next_step": "4 GPUs must be freed",
        "evidence": {"used": 28},
        "since": 1,
        "history": [],
    }
    gateway.on(f"GET /v1/workloads/{ID}/why", answer)

    lines = muster("why", ID).out.splitlines()

    assert lines[0].startswith(f"{ID} is queued for ")
    assert lines[1:] == [
        "WaitingForQuota: vision uses 28 of 32 GPUs, this needs 8",
        "Next: 4 GPUs must be freed",
        "Evidence: used 28",
    ]
    assert muster("why", ID, "-o", "name").out == "WaitingForQuota\n"


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_a_command_acts_on_each_and_goes_on_after_a_failure(muster, gateway, verb: str):
    gateway.on(f"POST /v1/workloads/{OTHER}/{verb}", Answer({"id": OTHER}, 202))

    done = muster(verb, ID, OTHER)

    assert done.code == 3
    assert done.out == f"{OTHER}: {verb} requested\n"


def test_reprioritise_sends_the_class(muster, gateway):
    gateway.on(f"POST /v1/workloads/{ID}/reprioritise", Answer({"id": ID}, 202))

    assert muster("reprioritise", ID, "--to", "urgent").code == 0
    assert gateway.seen[0].body == {"priority_class": "urgent"}


def test_events_are_one_line_each_and_json_lines_for_programs(muster, gateway):
    event = {"id": 4, "workload_id": ID, "type": "t", "state": "placed", "at_ms": 1000}
    gateway.on("GET /v1/events", {"items": [event], "next_after": 4})

    assert "placed" in muster("events").out
    assert json.loads(muster("events", "-o", "json", "--after", "3").out) == event
    assert gateway.seen[-1].query["after"] == "3"


def test_nodes_show_what_is_used(muster, gateway):
    node = {"name": "n1", "flavor": "h100", "gpus": 8, "used_gpu_milli": 2500, "ready": True}
    gateway.on("GET /v1/nodes", {"items": [node], "next_cursor": ""})

    row = muster("nodes").out.splitlines()[1].split()

    assert row == ["n1", "h100", "yes", "8", "2.5"]


def test_quota_shows_a_row_for_each_flavor(muster, gateway):
    unlimited = 2**62
    flavor = {
        "flavor": "h100",
        "nominal": {"gpu_milli": 32_000, "cpu_milli": unlimited, "memory_mib": unlimited},
        "borrowing_limit": None,
        "lending_limit": None,
        "used": {"gpu_milli": 28_500, "cpu_milli": 4000, "memory_mib": 2048},
    }
    queue = {"name": "vision", "team": "vision", "cohort": "", "flavors": [flavor]}
    gateway.on("GET /v1/queues", {"items": [queue], "next_cursor": ""})

    row = muster("quota", "-o", "wide").out.splitlines()[1].split()

    assert row == [
        "vision",
        "vision",
        "h100",
        "28.5",
        "32",
        "-",
        "-",
        "4",
        "unlimited",
        "2",
        "GiB",
        "unlimited",
    ]


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [(401, 4, "MUSTER_KEY"), (403, 4, "MUSTER_KEY"), (500, 1, "No"), (422, 5, "No")],
)
def test_a_refusal_exits_by_its_kind(muster, gateway, status: int, code: int, told: str):
    gateway.on("GET /v1/nodes", problem(status, "why not"))

    done = muster("nodes")

    assert done.code == code
    assert "why not" in done.err
    assert told in done.err


def test_a_server_that_is_not_there_exits_with_six(muster):
    done = muster("--address", "http://127.0.0.1:9", "nodes")

    assert done.code == 6
    assert "does not answer" in done.err
    assert "MUSTER_ADDRESS" in done.err


def test_without_an_address_it_says_where_one_can_be_given(muster, monkeypatch):
    monkeypatch.delenv("MUSTER_ADDRESS")

    done = muster("nodes")

    assert done.code == 2
    assert "--address" in done.err


def test_no_colour_reaches_a_pipe(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    assert "\x1b" not in muster("queue").out


def test_the_help_comes_at_once_and_has_examples():
    code = "from muster.cli import main; main()"
    started = time.perf_counter()

    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert "muster submit -f train.yaml --wait" in done.stdout
    assert time.perf_counter() - started < 3  # 0.11 s alone; a busy machine must not fail it


def test_the_help_loads_no_heavy_library():
    code = (
        "import sys; from muster.cli.application import run\n"
        "try: run(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'aiohttp', 'yaml', 'rich'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def organisation(folder: Path) -> str:
    return write(
        folder,
        {"kind": "ApiKey", "name": "ci", "team": "vision", "role": "member"},
        {"kind": "Queue", "name": "vision", "team": "vision", "weight": 2},
        {"kind": "Team", "name": "vision", "max_pending": 10},
    )


def test_apply_creates_in_the_order_in_which_documents_need_each_other(
    muster, gateway: FakeGateway, tmp_path
):
    gateway.on("PUT /v1/teams/vision", Answer({"version": 1}, 201))
    gateway.on("PUT /v1/queues/vision", Answer({"version": 1}, 201))
    gateway.on("GET /v1/teams/vision/keys", {"items": [], "next_cursor": ""})
    gateway.on("POST /v1/teams/vision/keys", Answer({"key": "mk_new", "prefix": "p"}, 201))

    done = muster("admin", "apply", "-f", organisation(tmp_path), "-o", "json")

    results = json.loads(done.out)["items"]
    assert [(one["document"], one["result"]) for one in results] == [
        ("Team/vision", "created"),
        ("Queue/vision", "created"),
        ("ApiKey/ci", "created"),
    ]
    assert results[-1]["key"] == "mk_new"
    (put,) = gateway.requests("PUT /v1/teams/vision")
    assert put.body == {"max_pending": 10}
    assert put.headers["If-None-Match"] == "*"


def test_apply_again_changes_nothing_and_says_so(muster, gateway, tmp_path):
    for path in ("teams", "queues"):
        gateway.on(f"GET /v1/{path}/vision", Answer({"version": 3}, 200, {"ETag": '"3"'}))
        gateway.on(f"PUT /v1/{path}/vision", Answer({"version": 3 + (path == "queues")}))
    key = {"label": "ci", "prefix": "p", "revoked_at_ms": None}
    gateway.on("GET /v1/teams/vision/keys", {"items": [key], "next_cursor": ""})

    done = muster("admin", "apply", "-f", organisation(tmp_path), "-o", "json")

    results = [one["result"] for one in json.loads(done.out)["items"]]
    assert results == ["unchanged", "changed", "unchanged"]
    assert gateway.requests("PUT /v1/teams/vision")[0].headers["If-Match"] == '"3"'
    assert gateway.requests("POST /v1/teams/vision/keys") == []


def test_apply_tells_when_somebody_was_faster(muster, gateway, tmp_path):
    gateway.on("GET /v1/teams/vision", Answer({"version": 3}, 200, {"ETag": '"3"'}))
    gateway.on("PUT /v1/teams/vision", problem(412, "version 4 is in force"))

    done = muster("admin", "apply", "-f", write(tmp_path, {"kind": "Team", "name": "vision"}))

    assert done.code == 5
    assert "Apply again" in done.err
    assert "refused" in done.out


def test_apply_names_the_kinds_there_are(muster, tmp_path):
    done = muster("admin", "apply", "-f", write(tmp_path, {"kind": "Tema", "name": "x"}))

    assert done.code == 2
    assert "PriorityClass" in done.err


def test_a_new_key_is_the_only_thing_on_stdout(muster, gateway):
    gateway.on("POST /v1/teams/vision/keys", Answer({"key": "mk_new", "prefix": "p"}, 201))

    done = muster("admin", "keys", "create", "-t", "vision", "--label", "ci")

    assert done.out == "mk_new\n"
    assert gateway.seen[0].body == {"role": "member", "label": "ci"}
