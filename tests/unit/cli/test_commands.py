"""Every command that looks or acts: what it asks, what it shows, how it exits."""

import json
import subprocess
import sys
import time

import pytest
import yaml

from tests.unit.cli.builders import ID, OTHER, workload
from tests.unit.cli.gateway import Answer, problem


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


def test_why_names_the_place_the_limit_who_ends_next_and_who_took_the_room(muster, gateway):
    def amounts(gpu_milli: int) -> dict:
        return {"gpu_milli": gpu_milli, "cpu_milli": 0, "memory_mib": 0}

    def neighbour(name: str) -> dict:
        return {"id": OTHER, "name": name, "team": "t", "priority": 1, "gpu_milli": 8000}

    level = {
        "name": "research",
        "kind": "cohort",
        "flavor": "h100",
        "nominal": amounts(32_000),
        "used": amounts(28_000),
        "available": amounts(4_000),
        "borrowed": amounts(2_000),
        "lent": amounts(0),
        "blocks": True,
    }
    ending = {"flavor": "h100", "charge": amounts(2000), "ends_at_ms": 1}
    answer = {
        "state": "queued",
        "reason": "WaitingForQuota",
        "message": "m",
        "place": {
            "queue": "vision",
            "place": 3,
            "waiting": 42,
            "gpu_milli_ahead": 16_000,
            "first": [neighbour("a"), neighbour("b")],
        },
        "limits": [level, level | {"name": "all", "available": amounts(2**62), "blocks": False}],
        "frees_next": [
            {**ending, "workload": neighbour("train-3")},
            {**ending, "workload": neighbour("") | {"id": ""}},
        ],
        "promised_start_ms": 1,
        "preempted_by": {
            "workload_id": OTHER,
            "team": "blue",
            "rule": "reclaim",
            "message": "m",
            "at_ms": 1,
            "back_at_ms": 2,
        },
    }
    gateway.on(f"GET /v1/workloads/{ID}/why", answer)

    out = muster("why", ID).out

    place = "Place: 3 of 42 that wait in queue vision; 16 GPUs ahead of it, first a, b\n"
    used = "uses 28 GPUs, may take 4 more, borrowed 2  <- the limit\n"
    assert place in out
    assert f"Quota: cohort research (h100) {used}" in out
    assert "cohort all (h100) uses 28 GPUs, may take any number more, borrowed 2\n" in out
    assert "2 GPUs at about 1970-01-01" in out
    assert "(train-3)" in out
    assert "(a workload of another team)" in out
    assert "Promised start: 1970-01-01" in out
    assert f"for {OTHER} of team blue (reclaim): m; room back at about 1970" in out


def test_preemptions_tell_for_whom_by_which_rule_and_what_was_refused_instead(muster, gateway):
    item = {
        "plan_id": "p1",
        "at_ms": 1,
        "rule": "reclaim",
        "flavor": "h100",
        "workload_id": ID,
        "team": "blue",
        "victims": [{"workload_id": OTHER, "team": "red", "rule": "r", "lost_gpu_ms": 1}],
        "victims_count": 2,
        "lost_gpu_ms": 5_400_000,
        "alternatives": [{"why": "costs more", "victims_count": 3, "lost_gpu_ms": 7_200_000}],
        "outcome": "placed",
    }
    gateway.on("GET /v1/preemptions", {"items": [item], "next_cursor": ""})

    table = muster("preemptions", "-t", "blue", "--since", "1970-01-02T00:00:00+00:00").out
    wide = muster("preemptions", "-o", "wide").out
    bad = muster("preemptions", "--since", "soon")

    assert f"{ID}  blue  reclaim        2        1.50  placed" in table
    assert "3 victims, 2.00 GPU-h: costs more" in wide
    assert gateway.requests("GET /v1/preemptions")[0].query["since"] == "86400000"
    assert "--since must be like" in bad.err


def test_why_asks_about_the_past(muster, gateway):
    gateway.on(f"GET /v1/workloads/{ID}/why", {"state": "running", "at_ms": 5})

    out = muster("why", ID, "--at", "1970-01-02T00:00:05+00:00").out
    bad = muster("why", ID, "--at", "yesterday")

    assert "was running" in out
    assert gateway.requests(f"GET /v1/workloads/{ID}/why")[-1].query == {"at": "86405000"}
    assert bad.code == 2
    assert "--at" in bad.err


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

    def amounts(gpu_milli: int) -> dict:
        return {"gpu_milli": gpu_milli, "cpu_milli": 4000, "memory_mib": 2048}

    flavor = {
        "flavor": "h100",
        "nominal": {"gpu_milli": 32_000, "cpu_milli": unlimited, "memory_mib": unlimited},
        "borrowing_limit": None,
        "lending_limit": None,
        "used": amounts(34_500),
        "borrowed": amounts(2_500),
        "lent": amounts(0),
        "available": amounts(1_000),
    }
    queue = {
        "name": "vision",
        "team": "vision",
        "cohort": "all",
        "weight": 3,
        "flavors": [flavor],
        "share_millionths": 78_125,
        "usage_gpu_seconds": 5_400,
        "usage_half_life_ms": 1,
        "budget": {"month": "2026-11", "threshold_percent": 80},
    }
    other = queue | {"name": "fraud", "share_millionths": unlimited, "budget": None}
    gateway.on("GET /v1/queues", {"items": [queue, other], "next_cursor": ""})

    head, row = (line.split() for line in muster("quota", "vision").out.splitlines())
    last = muster("quota", "fraud", "-o", "wide").out

    assert head[-3:] == ["SHARE", "USAGE", "BUDGET"]
    assert row[:7] == ["vision", "vision", "all", "h100", "34.5", "32", "2.5"]
    assert row[-6:] == ["7.8%", "1.5", "80%", "of", "2026-11", "spent"]
    assert " last " in last
    assert "2 GiB" in last
    assert "unlimited" in last
    assert muster("quota", "nobody").code == 3


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


def test_queue_watch_draws_again_until_interrupted(muster, gateway, monkeypatch):
    pages = [{"items": [workload(state)], "next_cursor": ""} for state in ("queued", "running")]
    gateway.on("GET /v1/workloads", *pages)
    pauses = iter([None])

    def pause(_seconds: float) -> None:
        if next(pauses, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("muster.cli.workloads.time.sleep", pause)

    done = muster("queue", "-w")

    assert done.code == 0
    assert done.out.index("queued") < done.out.index("running")


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_a_command_acts_on_all_that_are_selected(muster, gateway, verb: str):
    gateway.on(f"POST /v1/workloads:{verb}", Answer({"ids": [ID, OTHER], "more": True}, 202))

    done = muster(verb, "-l", "sweep=42", "-l", "x=", "-s", "queued", "-t", "red")

    assert done.out == f"{ID}: {verb} requested\n{OTHER}: {verb} requested\n"
    assert "There are more" in done.err
    selection = {"labels": {"sweep": "42", "x": ""}, "state": "queued", "team": "red"}
    assert gateway.seen[0].body == selection


def test_what_selects_nothing_says_so(muster, gateway):
    gateway.on("POST /v1/workloads:cancel", Answer({"ids": [], "more": False}, 202))

    assert "Nothing is selected" in muster("cancel", "-q", "vision").err


@pytest.mark.parametrize(
    "words",
    [
        ["cancel"],
        ["cancel", "-t", "red"],
        ["cancel", ID, "-q", "vision"],
        ["cancel", "-l", "nothing"],
        ["cancel", "-l", "=x"],
        ["resize", ID, "many"],
        ["resize", "4"],
    ],
)
def test_a_command_says_what_it_is_to_act_on(muster, gateway, words: list[str]):
    done = muster(*words)

    assert done.code == 2
    assert done.err
    assert not gateway.seen


def test_resize_sends_the_number_of_pods(muster, gateway):
    gateway.on(f"POST /v1/workloads/{ID}/resize", Answer({"id": ID}, 202))
    gateway.on("POST /v1/workloads:resize", Answer({"ids": [ID], "more": False}, 202))

    one, all_ = muster("resize", ID, "4"), muster("resize", "-l", "sweep=42", "2")

    assert one.out == f"{ID}: 4 pods requested\n"
    assert all_.out == f"{ID}: 2 pods requested\n"
    assert gateway.seen[0].body == {"pods": 4}
    assert gateway.seen[1].body == {"labels": {"sweep": "42"}, "pods": 2}


def test_reprioritise_takes_a_labelled_set_too(muster, gateway):
    gateway.on("POST /v1/workloads:reprioritise", Answer({"ids": [ID], "more": False}, 202))

    assert muster("reprioritise", "-l", "sweep=42", "--to", "urgent").code == 0
    assert gateway.seen[0].body == {"labels": {"sweep": "42"}, "priority_class": "urgent"}


def test_eta_tells_a_range_with_its_basis(muster, gateway):
    at_ms = int(time.time() * 1000)
    start = {"p50_ms": at_ms + 90_500, "p90_ms": at_ms + 7_260_500, "basis": "queue", "samples": 9}
    end = {"p50_ms": at_ms + 90_500, "p90_ms": at_ms, "basis": "queue, then stated", "samples": 0}
    answer = {"id": ID, "state": "queued", "at_ms": at_ms, "start": start, "end": end}
    gateway.on(f"GET /v1/workloads/{ID}/eta", {**answer, "message": "it is so"})

    out = muster("eta", ID).out

    assert "in 1 min 30 s (p50) to" in out
    assert "in 2 h 1 min (p90), by queue, 9 cases" in out
    assert "(p90), by queue, then stated\n" in out
    assert out.endswith("It is so.\n")
    assert json.loads(muster("eta", ID, "-o", "json").out)["start"]["samples"] == 9
