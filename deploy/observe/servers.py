"""Prometheus and Alertmanager as child processes, with Muster's rules and a running system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.cache import CHECKOUT
from deploy.local.health import is_ready
from deploy.local.processes import Program, free_ports, wait_ready
from deploy.local.services import SIMULATED
from deploy.observe import programs

RULES: Final = CHECKOUT / "deploy" / "prometheus" / "rules"
START_SECONDS: Final = 60
METRICS: Final = "/metrics"
HOLDERS: Final = "/metrics/devices"
"""Of monitoring: who holds each GPU."""
HOST: Final = "127.0.0.1"


class Observing:
    """Prometheus in a folder, and Alertmanager where it is installed.

    Args:
        folder: for configuration, data and logs.
        services: addresses of Muster's processes by name.
        agents: addresses, host:port, of node agents.
        receiver: URL that Alertmanager tells of alerts; empty: none.
        seconds: between two scrapes.
        rules: folder of the files with rules.
    """

    def __init__(  # as the doc says
        self,
        folder: Path,
        services: Mapping[str, str],
        *,
        agents: Sequence[str] = (),
        receiver: str = "",
        seconds: int = 5,
        rules: Path = RULES,
    ) -> None:
        self.folder, self._rules = folder, rules
        self._services, self._agents = services, agents
        self._receiver, self._seconds = receiver, seconds
        ports = free_ports(2)
        self.url, self.alerts_url = (f"http://{HOST}:{port}" for port in ports)
        self._alertmanager = programs.alertmanager()
        self._started: list[Program] = []

    @property
    def tells(self) -> bool:
        """Whether there is an Alertmanager."""
        return self._alertmanager is not None

    def start(self) -> None:
        """Return when both answer.

        Raises:
            LocalError: one is missing or does not start.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            if self._alertmanager is not None:
                self._run("alertmanager", self._alertmanager_command(), self.alerts_url)
            self._run("prometheus", self._prometheus_command(), self.url)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End what was started, the last first."""
        while self._started:
            self._started.pop().stop()

    def _run(self, name: str, command: Sequence[str], url: str) -> None:
        log = self.folder / f"{name}.log"
        program = Program(name=name, command=command, log=log, folder=self.folder)
        program.start()
        self._started.append(program)
        wait_ready(program, lambda: is_ready(f"{url}/-/ready"), seconds=START_SECONDS)

    def _prometheus_command(self) -> list[str]:
        config = self.folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(self._configuration(), sort_keys=False))
        return [
            str(programs.prometheus()),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'prometheus'}",
            f"--web.listen-address={_place(self.url)}",
        ]

    def _alertmanager_command(self) -> list[str]:
        config = self.folder / "alertmanager.yml"
        config.write_text(yaml.safe_dump(routes(self._receiver), sort_keys=False))
        return [
            str(self._alertmanager),
            f"--config.file={config}",
            f"--storage.path={self.folder / 'alertmanager'}",
            f"--web.listen-address={_place(self.alerts_url)}",
            "--cluster.listen-address=",
        ]

    def _configuration(self) -> dict[str, Any]:
        every = f"{self._seconds}s"
        managers = [_place(self.alerts_url)] if self.tells else []
        return {
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [f"{self._rules}/*.yml"],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": managers}]}]},
            "scrape_configs": scrapes(self._services, self._agents),
        }


def scrapes(services: Mapping[str, str], agents: Sequence[str]) -> list[dict[str, Any]]:
    """The jobs that the rules know; labels of Muster go before those of Prometheus."""
    own = [
        {"targets": [_place(url)], "labels": {"service": name}}
        for name, url in services.items()
        if name not in SIMULATED
    ]
    holders = [one for one in own if one["labels"] == {"service": "monitoring"}]
    jobs = {
        "muster": (METRICS, own),
        "muster-agents": (METRICS, [{"targets": list(agents)}]),
        "muster-holders": (HOLDERS, holders),
    }
    return [
        {"job_name": name, "honor_labels": True, "metrics_path": path, "static_configs": targets}
        for name, (path, targets) in jobs.items()
    ]


def routes(receiver: str) -> dict[str, Any]:
    """Alertmanager's configuration: all to one receiver, grouped by alert and team."""
    hooks = [{"url": receiver, "send_resolved": True}] if receiver else []
    return {
        "route": {
            "receiver": "all",
            "group_by": ["alertname", "team"],
            "group_wait": "1s",
            "group_interval": "5s",
        },
        "receivers": [{"name": "all", "webhook_configs": hooks}],
    }


def _place(url: str) -> str:
    return url.removeprefix("http://")
