"""`make observe`: what it writes, what it says when something is missing, and its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from deploy.local.cache import CHECKOUT
from deploy.local.services import SERVICES, SIMULATED
from deploy.observe import __main__ as command
from deploy.observe import programs
from deploy.observe.dashboards.__main__ import FOLDER
from deploy.observe.servers import HOLDERS, Observing, routes, scrapes
from services.monitoring.gauges.holders import PATH

DEPLOY: Final = CHECKOUT / "deploy"


def test_simulators_have_no_metrics_and_are_not_scraped() -> None:
    services = {"quota": "http://127.0.0.1:1", "fleet": "http://127.0.0.1:2"}

    own, agents, _ = scrapes(services, ["n1:9400"])

    assert own["static_configs"] == [{"targets": ["127.0.0.1:1"], "labels": {"service": "quota"}}]
    assert (own["job_name"], own["honor_labels"]) == ("muster", True)
    assert agents["static_configs"] == [{"targets": ["n1:9400"]}]
    assert agents["job_name"] == "muster-agents"


def test_monitoring_alone_is_asked_who_holds_each_gpu() -> None:
    *_, holders = scrapes({"quota": "http://127.0.0.1:1", "monitoring": "http://127.0.0.1:2"}, [])

    (targets,) = holders["static_configs"]
    assert targets["targets"] == ["127.0.0.1:2"]
    assert holders["metrics_path"] == PATH == HOLDERS


def test_what_is_over_is_told_to_the_receiver_as_well() -> None:
    (receiver,) = routes("http://127.0.0.1:1/")["receivers"]

    assert receiver["webhook_configs"] == [{"url": "http://127.0.0.1:1/", "send_resolved": True}]
    assert routes("")["receivers"] == [{"name": "all", "webhook_configs": []}]


def test_prometheus_takes_what_is_written(promtool: Path, tmp_path: Path) -> None:
    observing = Observing(tmp_path, {"quota": "http://127.0.0.1:1"}, agents=["127.0.0.1:2"])
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(observing._configuration()))

    done = subprocess.run(
        [promtool, "check", "config", file], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 rule files found" in done.stdout


def test_what_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "alertmanager", lambda: None)
    told = "\n".join(command.told(Observing(tmp_path, {})))

    assert "apt-get install prometheus-alertmanager" in told
    assert "Grafana       is not started" in told


def test_without_a_system_nothing_is_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.observe", "--folder", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )

    assert (done.returncode, done.stdout) == (command.NOT_UP, "")
    assert done.stderr.startswith("nothing is up: make up")


def test_containers_are_scraped_by_the_names_of_the_table() -> None:
    document = yaml.safe_load((DEPLOY / "prometheus" / "compose-prometheus.yml").read_text())
    holders, job = document["scrape_configs"]
    named = [one["targets"][0].partition(":")[0] for one in job["static_configs"]]

    assert named == [one.name for one in SERVICES if one.name not in SIMULATED]
    assert holders["metrics_path"] == HOLDERS
    assert document["rule_files"] == ["/etc/prometheus/rules/*.yml"]


def test_folders_that_are_mounted_are_there() -> None:
    document = yaml.safe_load((DEPLOY / "prometheus" / "compose.yml").read_text())
    mounted = [
        one.split(":")[0] for row in document["services"].values() for one in row["volumes"]
    ]
    provider = yaml.safe_load(
        (DEPLOY / "grafana" / "provisioning" / "dashboards" / "muster.yml").read_text()
    )

    assert all((CHECKOUT / one).exists() for one in mounted)
    assert all(row["profiles"] == ["obs"] for row in document["services"].values())
    volumes = document["services"]["grafana"]["volumes"]
    path = provider["providers"][0]["options"]["path"]
    assert f"./{FOLDER.relative_to(CHECKOUT)}:{path}:ro" in volumes
