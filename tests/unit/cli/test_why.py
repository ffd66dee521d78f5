"""`muster why`, `preemptions` and `eta`: reasons, who had to go, and what is expected."""

import json
import re
import time

import pytest

from tests.unit.cli.builders import ID, OTHER


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


def test_why_tells_the_words_of_the_cluster_beside_the_code(muster, gateway):
    answer = {
        "state": "failed",
        "reason": "never-starts",
        "pod_reason": "CreateContainerConfigError",
        "message": 'secret "token" not found',
        "next_step": "look at its pods and submit it again",
        "since": 1,
    }
    gateway.on(f"GET /v1/workloads/{ID}/why", answer)

    assert muster("why", ID).out.splitlines()[1:] == [
        'never-starts (CreateContainerConfigError): secret "token" not found',
        "Next: look at its pods and submit it again",
    ]
    assert muster("why", ID, "-o", "name").out == "never-starts\n"


def amounts(gpu_milli: int) -> dict:
    return {"gpu_milli": gpu_milli, "cpu_milli": 0, "memory_mib": 0}


def neighbour(name: str) -> dict:
    return {"id": OTHER, "name": name, "team": "t", "priority": 1, "gpu_milli": 8000}


LEVEL = {
    "name": "research",
    "kind": "cohort",
    "flavor": "h100",
    "nominal": amounts(32_000),
    "used": amounts(28_000),
    "available": amounts(4_000),
    "borrowed": amounts(2_000),
    "lent": amounts(0),
    "total_nominal": amounts(40_000),
    "total_used": amounts(34_000),
    "blocks": True,
}
ALL = {
    "name": "all",
    "available": amounts(2**62),
    "total_nominal": amounts(2**62),
    "blocks": False,
}
ENDING = {"flavor": "h100", "charge": amounts(2000), "ends_at_ms": 1}
IN_FULL = {
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
    "limits": [LEVEL, LEVEL | ALL],
    "frees_next": [
        {**ENDING, "workload": neighbour("train-3")},
        {**ENDING, "workload": neighbour("") | {"id": ""}},
    ],
    "turn": {"message": "queue vision owes 3.0 % of share"},
    "spot_left_out": ["a100", "l4"],
    "budget": {
        "month": "2026-11",
        "percent": 104,
        "at_limit": "nominal",
        "spent_gpu_milli_hours": 10_400,
        "limit_gpu_milli_hours": 10_000,
        "limit_microdollars": None,
    },
    "promised_start_ms": 1,
    "recorded": {"reason": "InsufficientCapacity", "message": "one node must have 8 GPUs"},
    "preempted_by": {
        "workload_id": OTHER,
        "team": "blue",
        "rule": "reclaim",
        "message": "preempted for blue",
        "at_ms": 1,
        "back_at_ms": 2,
    },
}


def test_why_names_the_place_the_limit_who_ends_next_and_who_took_the_room(muster, gateway):
    gateway.on(f"GET /v1/workloads/{ID}/why", IN_FULL)

    out = muster("why", ID).out

    place = "Place: 3 of 42 that wait in queue vision; 16 GPUs ahead of it, first a, b\n"
    used = "uses 34 of 40 GPUs, may take 4 more, borrowed 2  <- the limit\n"
    assert place in out
    assert f"Quota: cohort research (h100) {used}" in out
    assert "cohort all (h100) uses 34 GPUs, may take any number more, borrowed 2\n" in out
    assert "2 GPUs at about 1970-01-01" in out
    assert "\nTurn: queue vision owes 3.0 % of share\n" in out
    assert "(train-3)" in out
    assert "(a workload of another team)" in out
    assert "Promised start: 1970-01-01" in out
    assert "\nLeft out: a100, l4, as spot nodes may leave at any time; with" in out
    assert "\nBudget: 104% of 2026-11: 10.4/10 GPU-h, nothing is borrowed\n" in out
    assert "\nEvicted at 1970-01-01 " in out
    assert ": preempted for blue" in out
    assert "\nRecorded: InsufficientCapacity: one node must have 8 GPUs\n" in out


def test_why_tells_the_last_eviction_of_work_that_runs_again(muster, gateway):
    drained = {"reason": "drained", "message": "node n1 is drained by key ops (operator): fans"}
    answer = {"state": "running", "last_eviction": {**drained, "note": "fans", "at_ms": 1}}
    gateway.on(f"GET /v1/workloads/{ID}/why", answer)

    out = muster("why", ID).out

    assert "Evicted at 1970-01-01 " in out
    assert out.endswith(": node n1 is drained by key ops (operator): fans\n")


NO_EVICTION = {
    "message": "h100: 8 GPUs are not preemptible.",
    "next_step": "wait until they end",
    "retry_at_ms": None,
}


@pytest.mark.parametrize(("retry_at_ms", "change"), [(None, ""), (1, " It may change at ")])
def test_why_nobody_is_evicted_is_told_with_the_time_and_the_next_step(
    muster, gateway, retry_at_ms, change
):
    found = NO_EVICTION | {"retry_at_ms": retry_at_ms}
    gateway.on(f"GET /v1/workloads/{ID}/why", IN_FULL | {"no_eviction": found})

    lines = muster("why", ID).out.splitlines()

    (told,) = (one for one in lines if one.startswith("Evictions: "))
    assert f"Evictions: none for it. h100: 8 GPUs are not preemptible.{change}" in told
    assert told.endswith(" Next: wait until they end")
    assert ("1970" in told) == bool(retry_at_ms)


def test_where_its_queue_owns_enough_its_turn_says_why_nobody_is_evicted(muster, gateway):
    owns = IN_FULL | {"owed": "it owns enough, but", "no_eviction": NO_EVICTION}
    gateway.on(f"GET /v1/workloads/{ID}/why", owns)

    out = muster("why", ID).out

    assert "\nTurn: it owns enough, but\n" in out
    assert "Evictions:" not in out


def test_what_is_being_stopped_frees_its_room_by_the_end_of_its_grace(muster, gateway):
    ending = {**ENDING, "workload": neighbour("train-3"), "state": "evicting"}
    gateway.on(f"GET /v1/workloads/{ID}/why", IN_FULL | {"frees_next": [ending]})

    out = muster("why", ID).out

    assert "Frees next: 2 GPUs by 1970-01-01" in out
    assert "(train-3, which is being stopped)\n" in out


def test_the_limit_is_told_in_what_it_lacks(muster, gateway):
    full = {"gpu_milli": 8_000, "cpu_milli": 12_000, "memory_mib": 4_096}
    left = {"gpu_milli": 4_000, "cpu_milli": 240, "memory_mib": 0}
    lacking = LEVEL | {"total_nominal": full, "total_used": full, "available": left}
    lacking["lacks"] = ["cpu_milli", "memory_mib"]
    gateway.on(f"GET /v1/workloads/{ID}/why", IN_FULL | {"limits": [lacking]})

    out = muster("why", ID).out

    told = [line for line in out.splitlines() if line.startswith("Quota: ")]
    level = "Quota: cohort research (h100) uses"
    assert told == [
        f"{level} 12 of 12 CPUs, may take 0.24 more  <- the limit",
        f"{level} 4096 of 4096 MiB of memory, may take 0 more  <- the limit",
    ]


def test_why_tells_how_long_it_waits_and_since_when_for_this_reason(muster, gateway):
    now_ms = int(time.time() * 1000)
    answer: dict = {"state": "queued", "reason": "WaitingForQuota", "message": "m"}
    answer |= {"since": now_ms - 5_500, "state_since": now_ms - 600_500}
    gateway.on(f"GET /v1/workloads/{ID}/why", answer)

    out = muster("why", ID).out

    told = re.search(rf"{ID} is queued for 10m\.\nWaitingForQuota \(for (\d+)s\): m\n", out)
    assert told is not None
    assert 5 <= int(told[1]) < 60


@pytest.mark.parametrize(
    ("state", "at_ms", "told"),
    [
        ("rejected", None, "was rejected 5m ago."),
        ("rejected", 1, "was rejected 5m before."),
        ("succeeded", None, "succeeded 5m ago."),
        ("failed", 1, "had failed 5m before."),
        ("held", None, "is held for 5m."),
        ("held", 1, "was held for 5m."),
    ],
)
def test_an_end_is_told_by_when_it_was_and_a_state_that_lasts_by_how_long(
    muster, gateway, state, at_ms, told
):
    now_ms = int(time.time() * 1000)
    answer = {"state": state, "state_since": now_ms - 330_000, "since": now_ms - 150_000}
    answer |= {"reason": "r", "message": "m", "at_ms": at_ms}
    gateway.on(f"GET /v1/workloads/{ID}/why", answer)

    lines = muster("why", ID).out.splitlines()

    assert lines[0] == f"{ID} {told}"
    assert lines[1] == ("r (for 2m): m" if state == "held" else "r: m")


def test_moments_among_the_evidence_are_told_as_time_and_lengths_as_they_are(muster, gateway):
    evidence = {"promised_start_ms": 1_763_733_909_000, "waited_ms": 90_000}
    gateway.on(f"GET /v1/workloads/{ID}/why", {"state": "queued", "evidence": evidence})

    out = muster("why", ID).out

    assert "Evidence: promised_start 2025-11-21 " in out
    assert "waited_ms 90000" in out
    assert "1763733909000" not in out


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
        "moved_count": 1,
        "followers": 0,
        "lost_gpu_ms": 5_400_000,
        "alternatives": [{"why": "costs more", "victims_count": 3, "lost_gpu_ms": 7_200_000}],
        "outcome": "placed",
    }
    gateway.on("GET /v1/preemptions", {"items": [item], "next_cursor": ""})

    table = muster("preemptions", "-t", "blue", "--since", "1970-01-02T00:00:00+00:00").out
    wide = muster("preemptions", "-o", "wide").out
    bad = muster("preemptions", "--since", "soon")

    assert f"{ID}  blue  reclaim        2      1        1.50  placed" in table
    assert "3 victims, 2.00 GPU-h: costs more" in wide
    assert gateway.requests("GET /v1/preemptions")[0].query["since"] == "86400000"
    assert "--since must be like" in bad.err


def test_why_asks_about_the_past(muster, gateway):
    gateway.on(f"GET /v1/workloads/{ID}/why", {"state": "running", "at_ms": 5})

    out = muster("why", ID, "--at", "1970-01-02T00:00:05+00:00").out
    bad = muster("why", ID, "--at", "yesterday")
    ahead = muster("why", ID, "--at", "2999-01-01T00:00")

    assert "was running" in out
    assert ahead.code == 2
    assert "--at must not be in the future (given: 2999-01-01T00:00)" in ahead.err
    assert gateway.requests(f"GET /v1/workloads/{ID}/why")[-1].query == {"at": "86405000"}
    assert bad.code == 2
    assert "--at" in bad.err


def test_eta_tells_a_range_with_its_basis(muster, gateway):
    at_ms = int(time.time() * 1000)
    start = {"p50_ms": at_ms + 90_500, "p90_ms": at_ms + 7_290_500, "basis": "queue", "samples": 9}
    end = {"p50_ms": at_ms + 90_500, "p90_ms": at_ms, "basis": "queue, then stated", "samples": 0}
    answer = {"id": ID, "state": "queued", "at_ms": at_ms, "start": start, "end": end}
    gateway.on(f"GET /v1/workloads/{ID}/eta", {**answer, "message": "it is so"})

    out = muster("eta", ID).out

    assert re.search(r"in 1 min (?:30|[12]\d|\d) s \(p50\) to", out)
    assert "in 2 h 1 min (p90), by queue, 9 cases" in out
    assert "(p90), by queue, then stated\n" in out
    assert out.endswith("It is so.\n")
    assert json.loads(muster("eta", ID, "-o", "json").out)["start"]["samples"] == 9


def test_eta_tells_the_earliest_start_where_there_is_no_range(muster, gateway):
    at_ms = int(time.time() * 1000)
    earliest = {"at_ms": at_ms + 90_500, "basis": "expected ends", "samples": 3}
    answer = {"id": ID, "state": "queued", "at_ms": at_ms, "start": None, "end": None}
    answer |= {"earliest_start": earliest, "message": ""}
    gateway.on(f"GET /v1/workloads/{ID}/eta", answer)

    out = muster("eta", ID).out

    assert "Start: at the earliest 20" in out
    assert re.search(r", in 1 min (?:30|[12]\d|\d) s, by expected ends, 3 cases\n$", out)
