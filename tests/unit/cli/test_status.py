"""One workload: by its id or its name, with its times and devices."""

import json

from muster.client import ENDED
from tests.unit.cli.builders import ID, OTHER, workload


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


NOBODY = {"items": [], "next_cursor": ""}


def test_a_name_that_several_have_lists_their_ids(muster, gateway):
    alive, ended = (
        {"items": [workload(state), workload(state, OTHER)], "next_cursor": ""}
        for state in ("queued", "failed")
    )
    gateway.on("GET /v1/workloads", alive, NOBODY, ended)

    for _ in ("alive", "ended"):
        done = muster("why", "train")

        assert done.code == 2
        assert ID in done.err
        assert OTHER in done.err


def test_a_name_means_the_only_one_that_has_not_ended_however_many_have(muster, gateway):
    alive = {"items": [workload("queued", OTHER)], "next_cursor": ""}
    ended = [workload("failed", "w" + letter * 26) for letter in "abcdefghijklmnopqrst"]
    gateway.on("GET /v1/workloads", alive, {"items": ended, "next_cursor": "x"})
    gateway.on(f"GET /v1/workloads/{OTHER}/why", {"state": "queued"})

    assert muster("why", "train", "-o", "json").code == 0
    asked = gateway.seen[0].query["state"].split(",")
    assert not ENDED.intersection(asked)
    assert {"received", "queued", "running", "cancelling"} <= set(asked)


def test_a_name_of_one_that_has_ended_means_that_one(muster, gateway):
    gateway.on("GET /v1/workloads", NOBODY, {"items": [workload("failed")], "next_cursor": ""})
    gateway.on(f"GET /v1/workloads/{ID}/why", {"state": "failed"})

    assert muster("why", "train", "-o", "json").code == 0


def test_an_empty_name_names_nothing(muster):
    assert muster("why", "").code == 2


def test_a_workload_that_does_not_exist_exits_with_three_and_says_what_to_do(muster, gateway):
    done = muster("status", ID)

    assert done.code == 3
    assert "muster queue" in done.err


def test_eta_by_name_is_the_id_alone(muster, gateway):
    eta = {"id": ID, "state": "queued", "at_ms": 1, "start": None, "end": None, "message": "x"}
    gateway.on(f"GET /v1/workloads/{ID}/eta", eta)

    assert f"{ID}\n" == muster("eta", ID, "-o", "name").out
