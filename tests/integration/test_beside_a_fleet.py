"""What the documents promise of a system with a fleet of its own, typed as they say it."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaConsumer

from deploy.local.system import LocalSystem
from shared.adapters.kafka.client import options
from shared.events.grants import OPERATOR
from shared.events.topics import team_results
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

    done = typed(system, "-m", "services.placement.offline.replay", *arguments)

    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr
    assert "without a user (MUSTER_KAFKA_USER)" in done.stderr


async def test_a_team_is_told_of_its_work_as_http_tells_it(system: LocalSystem) -> None:
    flavor = {"flavor": "h100", "nominal": {"gpu_milli": 8_000}}
    applied(
        system,
        {"kind": "Flavor", "name": "h100", "products": ["NVIDIA-H100-80GB-HBM3"]},
        {"kind": "Team", "name": "told", "kafka_events": True},
        {"kind": "Queue", "name": "told", "team": "told", "flavors": [flavor]},
    )
    job = system.folder.parent / "job.yaml"
    pods = [{"gpu": {"count": 1}, "cpu_milli": 100, "memory_mib": 64}]
    spec = {"name": "job", "kind": "training", "pod_sets": pods, "expected_duration_seconds": 1}
    job.write_text(yaml.safe_dump(spec))
    command = ("-c", "from muster.cli import main; main()")

    done = typed(system, *command, "submit", "-t", "told", "-f", str(job), "--wait", "-o", "name")
    events = typed(system, *command, "events", "job", "-o", "json")

    assert done.returncode == 0, done.stderr
    by_http = [json.loads(line) for line in events.stdout.splitlines()]
    names = ("placed", "running", "succeeded")
    types = [f"muster.workload.{name}.v1" for name in names]
    said = ("workload_id", "type", "version", "state", "at_ms", "reason", "message")
    expected = [[one[name] for name in said] for one in by_http if one["type"] in types]
    told = await _told(system, "told", len(types))
    assert types == [one["type"] for one in told]
    assert expected == [[one.get(name, "") for name in said] for one in told]


async def _told(system: LocalSystem, team: str, count: int) -> list[dict[str, Any]]:
    """The first records of a team's results topic."""
    access = system.kafka.access(OPERATOR)
    topic = team_results(team).on_broker("muster")
    consumer = AIOKafkaConsumer(topic, **options(access), auto_offset_reset="earliest")
    async with asyncio.timeout(60), consumer:
        return [json.loads((await consumer.getone()).value) for _ in range(count)]
