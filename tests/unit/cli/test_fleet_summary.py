"""`muster nodes --summary`, and MIG instances in the tables of nodes and devices."""

import json

import pytest

from tests.support.terminal import terminal

GANG = {"level": "rack", "place": "z1/b1/r1", "pool": "", "gpus": 96, "full_node_gpus": 64}
FLAVOR = {
    "flavor": "h100",
    "nodes": 1_000,
    "gpus": 8_000,
    "free_gpus": 1_234,
    "used_gpu_milli": 6_500_250,
    "mig_gpus": 24,
    "mig_profiles": [
        {"profile": "1g.10gb", "used": 3, "free": 165},
        {"profile": "3g.40gb", "used": 1, "free": 0},
    ],
    "cordoned_gpus": 16,
    "unhealthy_gpus": 2,
    "largest_gangs": [
        GANG | {"nodes": 13},
        GANG | {"level": None, "place": "", "nodes": 200, "pool": "research"},
    ],
}


def a_summary(gateway, *items: dict) -> None:
    gateway.on("GET /v1/nodes:summary", {"items": list(items)})


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_summary_has_a_row_for_each_flavor_and_one_for_each_level_of_the_fabric(muster, gateway):
    a_summary(gateway, FLAVOR)

    lines = rows(muster("nodes", "--summary").out)

    assert ["h100", "1000", "8000", "1234", "6500.25", "24", "16", "2"] == lines[1][:8]
    assert ["3x1g.10gb,1x3g.40gb", "165x1g.10gb"] == lines[1][8:]
    assert ["h100", "rack", "96", "64", "13", "-", "z1/b1/r1"] == lines[-2]
    assert ["h100", "flavor", "96", "64", "200", "research", "-"] == lines[-1]


def test_programs_get_the_summary_as_it_is(muster, gateway):
    a_summary(gateway, FLAVOR)

    found = muster("nodes", "--summary", "--flavor", "h100", "-o", "json").out

    assert {"items": [FLAVOR]} == json.loads(found)
    assert {"flavor": "h100"} == gateway.seen[-1].query
    assert "h100\n" == muster("nodes", "--summary", "-o", "name").out


def test_without_gpus_in_mig_mode_there_is_no_column_for_them(muster, gateway):
    a_summary(gateway, FLAVOR | {"mig_profiles": [], "mig_gpus": 0})

    assert "MIG USED" not in muster("nodes", "--summary").out


def test_a_fleet_without_nodes_says_so(muster, gateway):
    a_summary(gateway)

    done = muster("nodes", "--summary")

    assert ("", "No node has reported itself yet.\n") == (done.out, done.err)


def test_a_summary_of_one_node_is_refused_with_what_there_is_instead(muster):
    done = muster("nodes", "n1", "--summary")

    assert 2 == done.code
    assert "--flavor" in done.err


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_a_summary_fits_a_terminal_and_keeps_its_numbers(muster, gateway, monkeypatch, columns):
    a_summary(gateway, FLAVOR)

    with terminal(monkeypatch, columns) as screen:
        muster("nodes", "--summary")

    assert max(map(len, rows_without_style(screen.lines))) <= columns
    text = "\n".join(screen.lines)
    assert all(word in text for word in ("1234", "6500.25", "24", "16"))


def rows_without_style(lines: list[str]) -> list[str]:
    return [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]


def test_nodes_and_devices_show_mig_instances_by_profile(muster, gateway):
    profiles = FLAVOR["mig_profiles"]
    node: dict = {"name": "n1", "flavor": "h100", "gpus": 8, "mig_gpus": 3, "used_gpu_milli": 0}
    node |= {"mig_profiles": profiles}
    device = {"index": 0, "uuid": "u", "memory_mib": 9, "mig": True, "healthy": True}
    device |= {"used_milli": 875, "workloads": ["w1"], "mig_profiles": profiles}
    whole = device | {"index": 1, "mig": False, "mig_profiles": []}
    gateway.on("GET /v1/nodes", {"items": [node], "next_cursor": ""})
    gateway.on("GET /v1/nodes/n1", node | {"devices": [device, whole]})

    listed, one = rows(muster("nodes").out), rows(muster("nodes", "n1").out)

    assert ["3x1g.10gb,1x3g.40gb", "165x1g.10gb"] == listed[1][-2:]
    told = ["0", "MIG", "healthy", "9", "0.875", "3x1g.10gb,1x3g.40gb", "165x1g.10gb", "w1"]
    assert told == one[-2]
    assert ["-", "-", "w1"] == one[-1][-3:]
