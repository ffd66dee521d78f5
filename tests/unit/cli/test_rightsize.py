"""`muster rightsize`: what would have been enough as a table, as JSON, and as a harmless CSV."""

import csv
import io
import json

from muster import Client

HOUR = 3_600_000


def an_item(**more):
    return {
        "team": "vision", "kind": "inference", "name": "serve", "image": "", "flavor": "h100",
        "gpus": 1, "milli": 1_000, "verdict": "smaller", "use_percent": 8,
        "unmeasured_percent": 0, "run_hours": 100, "busy_percent": 10, "memory_mib": 9_471,
        "form": "mig-profile", "new_gpus": 1, "new_milli": 250, "profile": "1g.20gb",
        "saved_gpu_ms": 75 * HOUR, "saved_microdollars": 187_500_000, "message": "uses 8 %",
        **more,
    }  # fmt: skip


def a_report(*items, left_out: int = 0):
    return {
        "since": "2026-10-26", "items": list(items), "left_out": left_out, "busy": 3, "short": 2,
        "unmeasured": 1, "saved_gpu_ms": 75 * HOUR, "saved_microdollars": 187_500_000,
    }  # fmt: skip


def test_a_table_tells_what_is_enough_and_of_what_nothing_is_said(muster, gateway):
    none = {"form": None, "new_gpus": 0, "new_milli": 0, "profile": "", "saved_gpu_ms": 0}
    gateway.on(
        "GET /v1/rightsize",
        a_report(
            an_item(),
            an_item(name="train", gpus=8, form="fewer-gpus", new_gpus=2, profile=""),
            an_item(name="lab", milli=500, form="share", new_milli=50, profile=""),
            an_item(name="full", verdict="memory", saved_microdollars=0, **none),
            left_out=4,
        ),
    )

    done = muster("rightsize", "-t", "vision", "--since", "2026-11-01")

    lines = done.out.splitlines()
    assert lines[0].split()[0] == "NAME"
    for line, enough, saved in zip(
        lines[1:], ("1g.20gb", " 2 ", "50 milli", "none (memory)"), ("187.50",) * 3 + ("0.00",),
        strict=True,
    ):  # fmt: skip
        assert enough in line
        assert line.rstrip().endswith(saved)
    assert "3 that use enough, 2 that ran too shortly and 1 that are not measured" in done.err
    assert "4 more are left out" in done.err
    (asked,) = gateway.requests("GET /v1/rightsize")
    assert {"since": "2026-11-01", "team": "vision", "limit": "1000"} == asked.query


def test_a_cell_of_csv_is_never_a_formula(muster, gateway):
    gateway.on("GET /v1/rightsize", a_report(an_item(name="=1+1", image='@x","y')))

    out = muster("rightsize", "-o", "csv").out

    (row,) = csv.DictReader(io.StringIO(out), strict=True)
    assert ("'=1+1", '\'@x","y') == (row["name"], row["image"])
    assert ("75.000000", "187.500000") == (row["saved_gpu_hours"], row["saved_dollars"])


def test_json_is_the_answer(muster, gateway):
    gateway.on("GET /v1/rightsize", a_report(an_item()))

    assert a_report(an_item()) == json.loads(muster("rightsize", "-o", "json").out)
    with Client(gateway.address, "mk_test") as client:
        assert a_report(an_item()) == client.rightsize(team="vision")
