"""`muster events`: the newest ones, those since a moment, or all behind one; in pages."""

import json
import time

import pytest
import yaml

from tests.unit.cli.builders import ID
from tests.unit.cli.gateway import problem, stream


def page(*numbers: int, before: int = 0) -> dict:
    items = [{"id": n, "type": f"t{n}", "state": "queued"} for n in numbers]
    return {"items": items, "next_after": max(numbers, default=0), "next_before": before}


def test_events_are_one_line_each_and_json_lines_for_programs(muster, gateway):
    event = {"id": 4, "workload_id": ID, "type": "t", "state": "placed", "at_ms": 1000}
    gateway.on("GET /v1/events", {"items": [event], "next_after": 4, "next_before": 0})

    done = muster("events", "-t", "vision")

    assert "placed" in done.out
    assert "" == done.err
    assert ("true", "vision") == tuple(gateway.seen[-1].query[one] for one in ("newest", "team"))
    assert json.loads(muster("events", "-o", "json").out) == event


def test_of_many_events_the_newest_thousand_are_shown_and_it_is_said(muster, gateway):
    gateway.on(
        "GET /v1/events",
        page(*range(1501, 2001), before=1501),
        page(*range(1001, 1501), before=1001),
    )

    done = muster("events", "-o", "name")

    assert [f"t{number}" for number in range(1001, 2001)] == done.out.split()
    assert "Only the newest 1000 are shown; --tail N shows more, --after 0 all." in done.err
    first, second = (one.query for one in gateway.seen)
    assert ("500", "500") == (first["limit"], second["limit"])
    assert ("before" in first, second["before"]) == (False, "1501")


def test_the_tail_is_as_long_as_it_is_asked_for(muster, gateway):
    gateway.on("GET /v1/events", page(8, 9, before=8))

    done = muster("events", "--tail", "2")

    assert "2" == gateway.seen[-1].query["limit"]
    assert "newest 2 are shown" in done.err
    assert 2 == muster("events", "--tail", "0").code


def test_events_since_a_moment_are_asked_for_by_its_time(muster, gateway):
    gateway.on("GET /v1/events", page())

    done = muster("events", "--since", "10m")
    ago = time.time() * 1000 - int(gateway.seen[-1].query["since"])
    muster("events", "--since", "2026-11-21T14:05")

    assert 590_000 < ago < 700_000
    assert "Nothing has happened since." in done.err
    assert gateway.seen[-1].query["since"].startswith("17")
    wrong = muster("events", "--since", "soon")
    assert 2 == wrong.code
    assert "--since must be like 10m" in wrong.err


def test_since_a_moment_more_are_told_of_only_where_there_are_more(muster, gateway):
    gateway.on("GET /v1/events", page(8, 9, before=8), page(), page(7, 8, 9))

    all_of_them = muster("events", "--since", "10m", "--tail", "2", "-o", "name")
    some = muster("events", "--since", "10m", "--tail", "2", "-o", "name")

    assert ("t8\nt9\n", "") == (all_of_them.out, all_of_them.err)
    assert "t8\nt9\n" == some.out
    assert "newest 2 are shown" in some.err
    assert 2 == muster("events", "--since", "10m", "--after", "3").code


def test_all_behind_an_event_are_shown_page_by_page(muster, gateway, monkeypatch):
    monkeypatch.setattr("muster.client.PAGE_ITEMS", 1)
    gateway.on("GET /v1/events", page(1), page(2), problem(401, "revoked"))

    done = muster("events", "--after", "0", "-o", "name")

    assert done.out.split() == ["t1", "t2"]
    assert done.code == 4
    assert [None, None, None] == [one.query.get("newest") for one in gateway.seen]
    assert ["0", "1", "2"] == [one.query["after"] for one in gateway.seen]


def test_events_in_yaml_are_one_document_of_all_pages(muster, gateway, monkeypatch):
    monkeypatch.setattr("muster.client.PAGE_ITEMS", 1)
    pages = [{"items": [{"id": n}], "next_after": n} for n in (1, 2)]
    gateway.on("GET /v1/events", *pages, {"items": [], "next_after": 2})

    found = yaml.safe_load(muster("events", "--after", "0", "-o", "yaml").out)

    assert {"items": [{"id": 1}, {"id": 2}]} == found


def test_events_of_one_workload_stand_in_the_order_in_which_they_happened(muster, gateway):
    told = [(4, 2000, "placed"), (5, 1000, "queued"), (6, 2000, "bound")]
    events = [{"id": n, "at_ms": at, "state": state} for n, at, state in told]
    gateway.on(f"GET /v1/workloads/{ID}/events", {"items": events, "next_after": 6})

    lines = muster("events", ID).out.splitlines()

    assert [line.split()[-1] for line in lines] == ["queued", "placed", "bound"]


@pytest.mark.parametrize(
    ("words", "begins"), [(["--tail", "2"], "9"), (["--since", "10m"], "9"), ([], None)]
)
def test_watching_goes_on_behind_what_was_shown(muster, gateway, words, begins):
    live = stream((10, {"id": 10, "type": "t10"}))
    recorded = [page(8, 9)] if words else []
    gateway.on("GET /v1/events", *recorded, live, problem(401, "revoked"))

    done = muster("events", "-w", "-o", "name", *words)

    shown = ["t8", "t9"] if words else []
    assert [*shown, "t10"] == done.out.split()
    assert begins == gateway.seen[len(recorded)].headers.get("Last-Event-ID")
