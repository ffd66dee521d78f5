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


def test_status_shows_image_command_and_what_each_pod_asks_for(muster, gateway):
    pod_set = {
        "name": "worker",
        "count": 4,
        "gpu": {"count": 8, "milli": 0, "mig_profile": ""},
        "image": "registry.example/train:1",
        "command": ["python", "-m", "train"],
        "arguments": ["--note", "two words"],
    }
    gateway.on(f"GET /v1/workloads/{ID}", workload(spec={"pod_sets": [pod_set]}))

    lines = fields(muster("status", ID).out)

    assert "registry.example/train:1" == lines["image"]
    assert "python -m train --note 'two words'" == lines["command"]
    assert "4 pods with 8 GPUs each" == lines["asks for"]


def test_sets_of_pods_are_told_apart_by_their_names(muster, gateway):
    share = {"milli": 250, "memory_mib": 512}
    pod_sets = [
        {"name": "driver", "image": "a:1", "gpu": {}},
        {"name": "worker", "image": "b:1", "command": ["run"], "gpu": share},
    ]
    gateway.on(f"GET /v1/workloads/{ID}", workload(spec={"pod_sets": pod_sets}))

    lines = fields(muster("status", ID).out)

    assert ("a:1", "b:1", "run") == tuple(
        lines[name] for name in ("driver image", "worker image", "worker command")
    )
    assert "1 pod with 0.25 GPU, 512 MiB" == lines["worker asks for"]
    assert not {"driver command", "driver asks for"} & set(lines)


def test_mig_instances_are_shown_by_profile_and_slices(muster, gateway):
    asked = [
        {"name": "small", "count": 1, "gpu": {"mig_profile": "1g.10gb", "mig_count": 3}},
        {"name": "big", "count": 1, "gpu": {"mig_profile": "7g.80gb", "mig_count": 0}},
    ]
    places = [("small", 0, 2, 0b1011, 375), ("big", 1, 5, 255, 1000)]
    pods = [
        {
            "pod_set": name,
            "rank": rank,
            "node": "n1",
            "shares": [{"index": index, "mask": mask, "milli": milli, "memory_mib": 1}],
        }
        for name, rank, index, mask, milli in places
    ]
    more: dict = {"spec": {"pod_sets": asked}, "placement": {"pods": pods}}
    gateway.on(f"GET /v1/workloads/{ID}", workload(**more))

    lines = fields(muster("status", ID).out)

    assert "1 pod with 3 x MIG 1g.10gb" == lines["small asks for"]
    assert "1 pod with 1 x MIG 7g.80gb" == lines["big asks for"]
    assert "n1: GPU 2 (MIG 1g.10gb, slices 0-1,3)" == lines["pod 0"]
    assert "n1: GPU 5 (MIG 7g.80gb, slices 0-7)" == lines["pod 1"]


def test_what_could_move_the_cursor_is_shown_as_a_question_mark(muster, gateway):
    pod_set = {"name": "main", "command": ["sh", "-c", "a\nb\x1b[2J"]}
    gateway.on(f"GET /v1/workloads/{ID}", workload(spec={"pod_sets": [pod_set]}))

    assert "sh -c 'a?b?[2J'" == fields(muster("status", ID).out)["command"]


def fields(text: str) -> dict[str, str]:
    """Lines of the form "name  value"."""
    pairs = (line.split("  ", 1) for line in text.splitlines())
    return {name: value.strip() for name, value in pairs}


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
