"""What the documents promise of a system with a fleet of its own, typed as they say it."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.local.system import LocalSystem
from tests.support.system import launch

CHECKOUT = Path(__file__).parents[2]
SECONDS_MAX = 240
GROUPS = [
    {"name": "t4", "count": 2, "flavor": "t4", "product": "Tesla-T4", "gpus": 4},
    {"name": "h100", "count": 2, "flavor": "h100", "product": "NVIDIA-H100-80GB-HBM3", "gpus": 8},
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """Every service, and a fleet whose products have short names: T4 is Tesla-T4."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = folder / "fleet.yaml"
    groups = [{**one, "gpu_memory_mib": 15_360} for one in GROUPS]
    fleet.write_text(yaml.safe_dump({"groups": groups}))
    overrides = {"fleet": {"MUSTER_FLEET_FILE": str(fleet)}}
    system = launch(folder / ".muster", overrides=overrides, leave_out=("monitoring",))
    yield system
    system.discard()


def typed(system: LocalSystem, *command: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in the folder of the system, which it must find by itself."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")}
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
        cwd=system.folder.parent,
        env={**kept, "HOME": str(system.folder), "PYTHONPATH": str(CHECKOUT)},
    )


def applied(system: LocalSystem, *documents: dict[str, object]) -> None:
    file = system.folder.parent / "organisation.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    command = ("-c", "from muster.cli import main; main()", "admin", "apply", "-f")
    done = typed(system, *command, str(file))
    assert done.returncode == 0, done.stderr


def test_the_python_sample_of_the_readme_returns(system: LocalSystem) -> None:
    nominal = {"gpu_milli": 8_000, "cpu_milli": 64_000, "memory_mib": 262_144}
    applied(
        system,
        {"kind": "Flavor", "name": "h100", "products": ["NVIDIA-H100-80GB-HBM3"]},
        {"kind": "Team", "name": "vision"},
        {
            "kind": "Queue",
            "name": "vision",
            "team": "vision",
            "flavors": [{"flavor": "h100", "nominal": nominal}],
        },
    )
    readme = (CHECKOUT / "README.md").read_text()
    (sample,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)

    done = typed(system, "-c", sample)

    assert (0, "succeeded\n") == (done.returncode, done.stdout), done.stderr


def test_openb_is_replayed_beside_a_fleet_of_products_that_its_own_are_short_for(
    system: LocalSystem, tmp_path: Path
) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    rows: list[list[object]] = [["sn", "cpu_milli", "memory_mib", "gpu", "model"]]
    rows += [[f"openb-{n}", 64_000, 262_144, 4, ("T4", "P100")[n % 2]] for n in range(4)]
    _write(nodes, rows)
    rows = [["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"]]
    rows += [[f"pod-{n}", 1_000, 1_024, 1, 1_000, ("T4", "", "P100")[n % 3]] for n in range(12)]
    _write(pods, rows)
    command = f"replay openb --nodes {nodes} --pods {pods} -o json".split()

    done = typed(system, "-m", "operations", *command)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (12, 12, 0) == tuple(report[name] for name in ("submitted", "placed", "lost"))


def _write(path: Path, rows: list[list[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_decisions_are_not_replayed_without_a_login_and_a_line_says_so(
    system: LocalSystem,
) -> None:
    database = system.postgres.url("operations", "muster")
    arguments = ("--database", database, "--kafka", system.kafka.bootstrap)

    done = typed(system, "-m", "services.placement.replay", *arguments)

    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr
    assert "without a user (MUSTER_KAFKA_USER)" in done.stderr
