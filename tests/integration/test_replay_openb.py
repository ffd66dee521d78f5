"""A small trace through a whole real system, by both doors, and people's commands on it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.local.processes import wait_until
from deploy.local.services import SERVICES
from deploy.local.system import LocalSystem

FLEET = "fleet"
NODES, PODS = 12, 120
"""Fewer GPUs than are asked for: the rest must wait, each with a reason."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """Every service but the simulated fleet: the trace brings its own nodes."""
    services = [one for one in SERVICES if one.name != FLEET]
    running = LocalSystem(tmp_path_factory.mktemp("system") / ".muster", services=services)
    running.start()
    try:
        running.wait_ready(60)
        yield running
    finally:
        running.discard()
        running.postgres.remove()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("trace")
    nodes: list[list] = [["sn", "cpu_milli", "memory_mib", "gpu", "model"]]
    nodes += [[f"node-{n}", 64_000, 262_144, 4, ("T4", "P100")[n % 2]] for n in range(NODES)]
    pods: list[list] = [["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"]]
    shapes = ((1, 1000, ""), (1, 460, ""), (0, 0, ""), (1, 500, "P100"), (2, 1000, "T4"))
    pods += [[f"pod-{n:03d}", 1000, 1024, *shapes[n % len(shapes)]] for n in range(PODS)]
    for name, rows in (("nodes.csv", nodes), ("pods.csv", pods)):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return folder / "nodes.csv", folder / "pods.csv"


def call(module: str, *arguments: str, system: LocalSystem) -> subprocess.CompletedProcess[str]:
    """A command as a user types it, in the folder of the system, which it must find by itself."""
    return subprocess.run(
        [sys.executable, "-c", f"from {module} import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=system.folder.parent,
        env=environment(system),
    )


def environment(system: LocalSystem) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")}
    checkout = str(Path(__file__).parents[2])
    return {**kept, "HOME": str(system.folder), "PYTHONPATH": checkout}


def muster(system: LocalSystem, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call("muster.cli", *arguments, system=system)


def operations(system: LocalSystem, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call("operations.cli", *arguments, system=system)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["kafka", "http"])
def test_every_pod_of_a_trace_is_placed_or_waits_with_a_reason(
    system, trace, tmp_path: Path, door: str
):
    nodes, pods = trace
    readings = tmp_path / "readings"
    with readings.open("w") as output:
        watcher = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from operations.cli import main; main()",
                *("check", "--continuous", "--every", "0.5", "-o", "json"),
            ],
            stdout=output,
            cwd=system.folder.parent,
            env=environment(system),
        )

    done = operations(
        system,
        *("replay", "openb", "--nodes", str(nodes), "--pods", str(pods)),
        *("--submit", door, "--run", door, "--team", f"openb-{door}", "-o", "json"),
    )
    wait_until(
        lambda: _looks(readings) >= 2 or watcher.poll() is not None,
        seconds=60,
        what="two looks of the checker",
    )
    watcher.send_signal(signal.SIGTERM)
    watcher.wait(timeout=30)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["submitted"], report["accepted"], report["lost"]) == (PODS, PODS, 0)
    assert report["duplicated"] == 0
    assert report["placed"] + sum(report["waiting"].values()) == PODS
    # On a slow machine the last ones may still wait for the answers to those before them.
    known = {"InsufficientCapacity", "NoMatchingFlavor", "WaitingForQuota"}
    assert set(report["waiting"]) <= known
    # It never found a violation.
    assert watcher.returncode == -signal.SIGTERM, readings.read_text()

    checked = operations(system, "check")
    assert checked.returncode == 0, checked.stdout


def _looks(readings: Path) -> int:
    return readings.read_text().count('"ok": true')


@pytest.mark.slow
def test_a_person_applies_submits_waits_and_asks_why(system, trace, tmp_path: Path):
    organisation = tmp_path / "organisation.yaml"
    organisation.write_text(
        yaml.safe_dump_all(
            [
                {
                    "kind": "Queue",
                    "name": "people",
                    "team": "people",
                    "flavors": [{"flavor": "default", "nominal": {"gpu_milli": 1000}}],
                },
                {"kind": "Team", "name": "people"},
                {"kind": "Flavor", "name": "default"},
                {"kind": "ApiKey", "name": "laptop", "team": "people"},
            ]
        )
    )
    first = muster(system, "admin", "apply", "-f", str(organisation), "-o", "json")
    again = muster(system, "admin", "apply", "-f", str(organisation), "-o", "json")

    results = {one["document"]: one["result"] for one in json.loads(first.stdout)["items"]}
    # The team brings its queue along, so the document of the queue changes it.
    assert {"created"} == {results["Team/people"], results["ApiKey/laptop"]}, results
    assert "changed" == results["Queue/people"]
    assert {one["result"] for one in json.loads(again.stdout)["items"]} == {"unchanged"}
    key = json.loads(first.stdout)["items"][-1]["key"]

    small = {"pod_sets": [{"cpu_milli": 100, "memory_mib": 64}], "expected_duration_seconds": 1}
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(
        yaml.safe_dump_all(
            [
                {"name": "quick", "kind": "batch-inference", **small},
                {
                    "name": "too-many",
                    "kind": "training",
                    "pod_sets": [{"gpu": {"count": 4}, "cpu_milli": 1, "memory_mib": 1}],
                },
            ]
        )
    )
    done = muster(system, "--key", key, "submit", "-f", str(jobs), "--wait", "--timeout", "60s")
    told = muster(system, "--key", key, "why", "too-many")
    events = muster(system, "--key", key, "events", "quick", "-o", "json")

    assert done.returncode == 5, done.stdout + done.stderr
    assert "succeeded" in done.stdout
    assert "rejected" in done.stdout
    assert "requested: gpu=4, used: gpu=0, limited: gpu=1" in told.stdout, told.stderr
    states = [json.loads(line)["state"] for line in events.stdout.splitlines()]
    assert states[-1] == "succeeded"
    assert "running" in states


@pytest.mark.slow
def test_what_is_cancelled_ends_and_its_place_is_free(system, trace, tmp_path: Path):
    organisation = tmp_path / "organisation.yaml"
    flavors = [{"flavor": "default", "nominal": {"gpu_milli": 1000}}]
    organisation.write_text(
        yaml.safe_dump_all(
            [
                {"kind": "Team", "name": "stoppers"},
                {"kind": "Flavor", "name": "default"},
                {"kind": "Queue", "name": "stoppers", "team": "stoppers", "flavors": flavors},
            ]
        )
    )
    assert muster(system, "admin", "apply", "-f", str(organisation)).returncode == 0
    job = tmp_path / "job.yaml"
    job.write_text(
        yaml.safe_dump(
            {
                "name": "endless",
                "kind": "batch-inference",
                "pod_sets": [{"cpu_milli": 100, "memory_mib": 64}],
            }
        )
    )
    submitted = muster(system, "submit", "-t", "stoppers", "-f", str(job), "-o", "name")
    identifier = submitted.stdout.strip()

    cancelled = muster(system, "cancel", identifier)
    state = _state_within(system, identifier, "cancelled", seconds=60)

    assert cancelled.returncode == 0, cancelled.stderr
    assert state == "cancelled"
    assert muster(system, "cancel", identifier).returncode == 5  # it has ended


def _state_within(system: LocalSystem, identifier: str, wanted: str, *, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        state = json.loads(muster(system, "status", identifier, "-o", "json").stdout)["state"]
        if state == wanted or time.monotonic() > deadline:
            return str(state)
