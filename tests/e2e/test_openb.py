"""The openb trace through the front door: nothing lost, and every decision can be replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.system import LocalSystem
from operations.replay.openb import Trace, read_trace
from shared.core.model.nouns import Workload
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster
from shared.events.grants import OPERATOR
from tests.support.system import launch

DATA = Path(os.environ.get("MUSTER_DATA", "../shared/data")) / "openb"
NODES = DATA / "openb_node_list_gpu_node.csv.gz"
PODS = DATA / "openb_pod_list_default.csv.gz"
pytestmark = [
    pytest.mark.skipif(not PODS.exists(), reason=f"the trace is not at {DATA} (MUSTER_DATA)"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder = tmp_path_factory.mktemp("openb") / "system"
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    system = launch(folder, overrides=overrides)
    yield system
    system.discard()


def run(system: LocalSystem, *arguments: str) -> str:
    """Standard output of a command that must exit with 0."""
    client = json.loads((system.folder / "client.json").read_text())
    environment = os.environ | {
        "MUSTER_ADDRESS": client["address"],
        "MUSTER_KEY": client["key"],
        "MUSTER_DATABASE_URL": system.postgres.url("operations", "muster"),
        **system.kafka.access(OPERATOR).variables(),
    }
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]} {done.stderr[-3000:]}"
    return done.stdout


def allocated_by_the_bare_core(trace: Trace) -> float:
    """Percent of the GPUs that the core gives when fed in the order of submission."""
    cluster = Cluster()
    for node in trace.nodes:
        cluster.put_node(node)
    for number, spec in enumerate(trace.specs):
        workload = Workload(
            id=f"w{number}",
            team="openb",
            queue="openb",
            cell=0,
            priority=0,
            spec=spec,
            submitted_at_ms=number,
        )
        headroom = {"default": UNBOUNDED}
        place(
            cluster, PlacementRequest(workload=workload, flavors=("default",), headroom=headroom)
        )
    return 100 * cluster.gpu_milli_used() / cluster.gpu_milli_total()


def test_openb_is_placed_checked_and_replayed(system: LocalSystem) -> None:
    replay = ("operations", "replay", "openb", "--nodes", str(NODES), "--pods", str(PODS))

    report = json.loads(run(system, *replay, "-o", "json"))
    verdicts = json.loads(run(system, "operations", "check", "-o", "json"))
    decisions = json.loads(
        run(
            system,
            "services.placement.offline.replay",
            "--database",
            system.postgres.url("operations", "muster"),
            "--kafka",
            system.kafka.bootstrap,
        )
    )

    print(report, decisions)
    assert (8152, 0, 0) == (report["submitted"], report["lost"], report["duplicated"])
    assert report["placed"] + sum(report["waiting"].values()) == report["submitted"]
    assert verdicts
    assert decisions["different"] == 0
    assert decisions["inputs"] > 2 * report["submitted"]
    bare = allocated_by_the_bare_core(read_trace(NODES, PODS))
    assert report["allocated_percent"] == pytest.approx(bare, abs=0.5)
