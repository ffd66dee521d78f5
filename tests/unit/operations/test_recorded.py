"""The mapping of Philly and Kalos, the organisation cut to a fleet, and the report of waits."""

import gzip
from pathlib import Path

import pytest

from operations.replay.fleet import Fleet
from operations.replay.openb import BadTrace
from operations.replay.recorded import Recorded, part_of, read_recorded, spec_of
from operations.replay.scaled import _length, _submitted, documents_of
from operations.replay.waits import report_of, table_of, utilisation
from shared.core.model.nouns import Level

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,aa
2017-10-09 07:01:45,600.0,16,9600.0,bb
2017-10-09 07:02:45,30.0,12,360.0,aa
"""
VCS = "vc,node num\naa,48\n"
KALOS = (
    "job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,"
    "gpu_workers,gpu_per_worker\n0,0.0,208,0.5,0.25,64,8.0\n1,313.0,4,0.5,0.25,1,2.0\n"
)
FLEET = Fleet(
    gpu_milli={"h100": 112_000},
    cpu_milli={"h100": 1_120_000},
    memory_mib={"h100": 5_600},
    products={"h100": ["H100"]},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "philly").mkdir()
    (tmp_path / "acme").mkdir()
    with gzip.open(tmp_path / "philly" / "sia_philly.csv.gz", "wt") as file:
        file.write(PHILLY)
    (tmp_path / "philly" / "philly_vc.csv").write_text(VCS)
    (tmp_path / "acme" / "converted_kalos_trace.csv").write_text(KALOS)
    return tmp_path


def test_workloads_of_philly_come_in_order_and_whole_nodes_become_gangs(folder: Path):
    found = read_recorded("philly", folder).workloads

    assert [("vc-bb", 0, 2, 8), ("vc-aa", 10_000, 1, 1), ("vc-aa", 60_000, 2, 6)] == [
        (one.team, one.at_ms, one.pods, one.gpus) for one in found
    ]
    assert 600_000 == found[0].run_ms


def test_kalos_tells_nodes_gpus_and_run_time(folder: Path):
    first, second = read_recorded("kalos", folder).workloads

    assert (64, 8, 156_000, "kalos") == (first.pods, first.gpus, first.run_ms, first.team)
    assert (1, 2, 313_000) == (second.pods, second.gpus, second.at_ms)


def test_scaled_time_shortens_the_run_and_never_to_nothing(folder: Path):
    gang, single, _ = read_recorded("philly", folder).workloads

    fast, faster = spec_of(gang, 60, {"replay": "x"}), spec_of(single, 1e6, {})

    assert (10, 1) == (fast.expected_duration_seconds, faster.expected_duration_seconds)
    assert (Level.BLOCK, None) == (fast.topology.preferred, faster.topology.preferred)
    assert (8, 32_000) == (fast.pod_sets[0].gpu.count, fast.pod_sets[0].cpu_milli)


def test_a_part_is_the_same_for_the_same_seed_and_begins_at_once(folder: Path):
    trace = read_recorded("philly", folder)

    parts = {seed: part_of(trace, 2, seed) for seed in range(8)}

    assert parts[0] == trace.workloads[:2]
    assert all(part[0].at_ms == 0 and len(part) == 2 for part in parts.values())
    assert len({part[0].name for part in parts.values()}) == 2
    assert part_of(trace, 2, 5) == parts[5]
    assert part_of(trace, 0, 5) == trace.workloads


def test_every_team_owns_its_part_of_the_fleet_below_two_levels(folder: Path):
    documents = {
        (kind, name): body
        for kind, name, body in documents_of(read_recorded("philly", folder), FLEET)
    }

    large, small = documents["queues", "vc-aa"], documents["queues", "vc-bb"]
    assert ("philly-large", "philly-small") == (large["cohort"], small["cohort"])
    assert "philly" == documents["cohorts", "philly-large"]["parent"]
    owned = [one["flavors"][0]["nominal"]["gpu_milli"] for one in (large, small)]
    assert [112_000 * 48 // 56, 112_000 * 8 // 56] == owned


def test_a_missing_folder_names_the_variable_to_set(tmp_path: Path):
    with pytest.raises(BadTrace, match="set MUSTER_DATA to the folder"):
        read_recorded("kalos", tmp_path)


def test_a_value_that_is_none_and_a_column_that_is_missing_are_told(folder: Path):
    path = folder / "acme" / "converted_kalos_trace.csv"
    path.write_text(KALOS.replace("208", "many"))
    with pytest.raises(BadTrace, match="many"):
        read_recorded("kalos", folder)

    path.write_text(KALOS.replace("gpu_workers", "workers"))
    with pytest.raises(BadTrace, match="no column gpu_workers"):
        read_recorded("kalos", folder)


def a_workload(state: str, gpus: int, submitted: int, placed: int | None, ended: int | None):
    return {
        "state": state,
        "gpu_milli": gpus * 1000,
        "submitted_at_ms": submitted,
        "placed_at_ms": placed,
        "ended_at_ms": ended,
        "reason": "WaitingForQuota" if state == "queued" else "",
    }


def test_the_report_counts_waits_by_size_and_what_was_used():
    workloads = [
        a_workload("succeeded", 4, 0, 100, 1_100),
        a_workload("succeeded", 1, 0, 300, 1_000),
        a_workload("running", 1, 0, 500, None),
        a_workload("queued", 64, 0, None, None),
        a_workload("rejected", 1, 0, None, 5),
    ]

    report = report_of(workloads, 10_000)

    counted = [report[name] for name in ("submitted", "rejected", "waiting", "running", "done")]
    assert [5, 1, 1, 1, 2] == counted
    assert {"WaitingForQuota": 1} == report["reasons"]
    assert {"count": 2, "p50": 300, "p99": 500} == report["wait_ms"]["1 GPU"]
    assert {"count": 1, "p50": 100, "p99": 100} == report["wait_ms"]["2-7 GPUs"]
    assert round(100 * (4 * 1000 + 700) / (10 * 1_100), 2) == report["utilisation_percent"]
    assert any("2-7 GPUs" in line for line in table_of(report))


def test_nothing_that_ended_is_no_use():
    assert utilisation([a_workload("queued", 1, 0, None, None)], 1_000) == 0.0


def test_progress_tells_how_many_are_sent_and_when_the_next_is():
    part = [
        Recorded(name=str(at), team="t", at_ms=at * 1_000, pods=1, gpus=1, run_ms=1)
        for at in (0, 60, 3_600)
    ]

    assert _length(part, 60) == "3 workloads in 1 min 0 s, 60 times as fast"
    assert _submitted(part, 0.5, 60) == "1 of 3 submitted"
    assert _submitted(part, 1, 60) == "2 of 3 submitted, the next in 59 s"
    assert _submitted(part, 60, 60) == "all submitted"
