"""`muster report`: a week of teams as a table with what follows from it, and as JSON."""

import json

from muster import Client

HOUR = 3_600_000
SUMS = {
    "allocated_gpu_ms": 8 * HOUR, "used_gpu_ms": 6 * HOUR, "unused_gpu_ms": 2 * HOUR,
    "unmeasured_gpu_ms": 0, "cost_microdollars": 20_000_000, "unused_microdollars": 5_000_000,
}  # fmt: skip
SAVING = {"name": "serve", "saved_microdollars": 187_500_000, "message": "uses 8 %"}
RED = {
    "team": "red", **SUMS, "cost_before_microdollars": 9_995_000, "submitted": 12, "started": 11,
    "failed": 3, "wait_p50_ms": 4_000, "wait_p95_ms": None, "preempted": 1, "idle_released": 2,
    "savings": [SAVING],
}  # fmt: skip
WEEK = {
    "since": "2026-11-16", "until": "2026-11-23", "teams": [RED], "total": SUMS,
    "failures": [{"reason": "node-lost", "count": 2}, {"reason": "", "count": 1}],
}  # fmt: skip


def test_a_table_tells_each_team_then_savings_and_failures(muster, gateway):
    gateway.on("GET /v1/report", WEEK)

    done = muster("report", "--week", "2026-11-18", "-t", "red", "-o", "wide")

    head, row = done.out.splitlines()
    assert head.startswith("TEAM")
    assert row.split() == [
        "red", "8.00", "6.00", "75", "%", "20.00", "10.00", "5.00", "12", "4", "s", "3", "1", "2",
    ]  # fmt: skip
    assert "Week of 2026-11-16: 8.00 GPU-hours, $20.00." in done.err
    assert "red could save $187.50: serve uses 8 %." in done.err
    assert "2 failed: node-lost." in done.err
    assert "1 failed: no reason is known." in done.err
    (asked,) = gateway.requests("GET /v1/report")
    assert {"week": "2026-11-18", "team": "red"} == asked.query


def test_json_is_the_answer_and_clients_give_the_same(muster, gateway):
    gateway.on("GET /v1/report", WEEK)

    assert WEEK == json.loads(muster("report", "-o", "json").out)
    with Client(gateway.address, "key") as client:
        assert WEEK == client.week(week="2026-11-18")


def test_a_week_without_work_says_so(muster, gateway):
    gateway.on("GET /v1/report", WEEK | {"teams": [], "failures": []})

    done = muster("report")

    assert "Nothing was held or submitted." in done.out + done.err
