"""Philly and Kalos through a whole real system, over HTTP, twice: the second changes nothing."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.services import SERVICES
from deploy.local.system import LocalSystem
from tests.integration.test_replay_openb import operations
from tests.unit.operations.test_recorded import KALOS, PHILLY, VCS

NODES = 40


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    overrides = {
        "fleet": {"MUSTER_FLEET_NODES": str(NODES)},
        "simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"},
    }
    folder = tmp_path_factory.mktemp("system") / ".muster"
    running = LocalSystem(folder, services=SERVICES, overrides=overrides)
    running.start()
    try:
        running.wait_ready(60)
        yield running
    finally:
        running.discard()
        running.postgres.remove()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, file, text in (
        ("philly", "sia_philly.csv.gz", PHILLY),
        ("philly", "philly_vc.csv", VCS),
        ("acme", "converted_kalos_trace.csv", KALOS),
    ):
        path = folder / name / file
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "counts"), [("philly", (3, 0)), ("kalos", (2, 1))])
def test_a_recorded_cluster_is_replayed_and_again_changes_nothing(
    system: LocalSystem, data: Path, tmp_path: Path, name: str, counts: tuple[int, int]
):
    file = tmp_path / "report.json"
    arguments = ("replay", name, "--speed", "600", "--stay", "60", "--data", str(data))

    first = operations(system, *arguments, "--json", str(file))
    again = operations(system, *arguments, "-o", "json")

    assert first.returncode == 0, first.stderr
    assert again.returncode == 0, again.stderr
    report, second = json.loads(file.read_text()), json.loads(again.stdout)
    assert report == second
    assert counts == (report["submitted"], report["rejected"])  # 64 nodes of 40
    assert counts[0] - counts[1] == report["done"]
    assert report["utilisation_percent"] > 0
    assert "applying" in first.stderr
    assert "wait" in first.stdout


@pytest.mark.slow
def test_a_folder_that_is_not_there_names_the_variable(system: LocalSystem, tmp_path: Path):
    done = operations(system, "replay", "philly", "--data", str(tmp_path))

    assert done.returncode == 2
    assert "MUSTER_DATA" in done.stderr
