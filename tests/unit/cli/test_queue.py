"""`muster queue`: what it asks, and what it shows to people and to programs."""

import pytest
import yaml

from tests.unit.cli.builders import ID, OTHER, workload
from tests.unit.cli.gateway import problem, stream


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


@pytest.mark.parametrize(
    ("limit", "said"), [("1", "Only the newest 1 are shown; --limit N shows more.\n"), ("2", "")]
)
def test_queue_says_where_its_limit_cut(muster, gateway, limit, said):
    items = [workload(), workload(identifier=OTHER)]
    gateway.on("GET /v1/workloads", {"items": items, "next_cursor": ""})

    done = muster("queue", "-o", "name", "--limit", limit)

    assert done.out.split() == [ID, OTHER][: int(limit)]
    assert done.err == said


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_give_the_same_items(muster, gateway, form: str):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    done = muster("queue", "-o", form)

    assert yaml.safe_load(done.out) == {"items": [workload()]}


def test_wide_shows_more_than_table(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    assert "node-1" in muster("queue", "-o", "wide").out
    assert "node-1" not in muster("queue").out


def test_an_elastic_gang_shows_what_it_has_of_what_it_asked_for(muster, gateway):
    few = workload(pods=4, placed_pods=2, gpu_milli=32_000, placed_gpu_milli=16_000)
    full = workload(identifier=OTHER, pods=4, placed_pods=4, placed_gpu_milli=8125)
    gateway.on("GET /v1/workloads", {"items": [few, full], "next_cursor": ""})

    rows = [line.split() for line in muster("queue", "-o", "wide").out.splitlines()[1:]]

    # GPUs of MIG are charged by the board: what all pods are charged is no news.
    assert [["16/32", "2/4"], ["8", "4"]] == [row[6:8] for row in rows]


def test_nothing_is_told_on_stderr_so_that_pipes_stay_clean(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [], "next_cursor": ""})

    done = muster("queue")

    assert (done.code, done.out) == (0, "")
    assert "Nothing runs or waits." in done.err


def test_no_colour_reaches_a_pipe(muster, gateway):
    gateway.on("GET /v1/workloads", {"items": [workload()], "next_cursor": ""})

    assert "\x1b" not in muster("queue").out


def interrupted_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many pauses between two pictures are slept through, and in the next is Ctrl-C."""
    pauses = iter([None] * count)

    def pause(_seconds: float) -> None:
        if next(pauses, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("muster.cli.workloads.time.sleep", pause)


def test_queue_watch_draws_again_until_interrupted(muster, gateway, monkeypatch):
    pages = [{"items": [workload(state)], "next_cursor": ""} for state in ("queued", "running")]
    gateway.on("GET /v1/workloads", *pages)
    interrupted_after(1, monkeypatch)

    done = muster("queue", "-w")

    assert done.code == 0
    assert done.out.index("queued") < done.out.index("running")


def test_queue_watch_goes_on_through_an_outage_and_tells_it_once(muster, gateway, monkeypatch):
    pages = [{"items": [workload(state)], "next_cursor": ""} for state in ("queued", "running")]
    gateway.on("GET /v1/workloads", pages[0], *[problem(503, "away")] * 8, pages[1])
    interrupted_after(3, monkeypatch)

    done = muster("queue", "-w")

    assert done.code == 0
    assert done.out.index("queued") < done.out.index("running")
    assert 1 == done.err.count("Waiting goes on")
    assert 1 == done.err.count("Muster answers again.")


def test_events_watch_goes_on_behind_the_last_event_after_an_outage(muster, gateway, monkeypatch):
    monkeypatch.setattr("muster.cli.workloads.WATCH_SECONDS", 0.01)
    first, last = ({"id": one, "workload_id": ID, "state": f"state-{one}"} for one in (7, 8))
    away = [problem(503, "away")] * 5
    gateway.on("GET /v1/events", stream((7, first)), *away, stream((8, last)), problem(401, "end"))

    done = muster("events", "-w")

    assert 4 == done.code
    assert ["state-7", "state-8"] == [line.split()[-1] for line in done.out.splitlines()]
    assert 1 == done.err.count("Muster answers again.")
    assert "7" == gateway.seen[6].headers["Last-Event-ID"]


def test_events_watch_of_a_gateway_that_never_answered_exits_with_six(muster, gateway):
    gateway.on("GET /v1/events", problem(503, "away"))

    assert 6 == muster("events", "-w").code
