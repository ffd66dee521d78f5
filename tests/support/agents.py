"""Node agents as processes, on the stand-in of NVML, and monitoring that hears them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.local.processes import free_port
from tests.fixtures.servers import Database
from tests.support.nvml import StandIn


class AgentProcess:
    """`python -m services.node_agent` for one node."""

    def __init__(
        self, kafka: str, prefix: str, folder: Path, state: Mapping[str, object], **more: str
    ) -> None:
        folder.mkdir(parents=True)
        self.name = folder.name
        self.stand_in = StandIn(folder, state)
        self.port = free_port()
        node = {"name": self.name, "flavor": "h100", "product": "", "gpus": []}
        described = folder / "node.json"
        described.write_text(json.dumps(node | {"cpu_milli": 1_000, "memory_mib": 1_024}))
        environment = {
            "MUSTER_KAFKA_BOOTSTRAP": kafka,
            "MUSTER_TOPIC_PREFIX": prefix,
            "MUSTER_NODE_DESCRIPTION": str(described),
            "MUSTER_GPU_PROBE": "nvml",
            "MUSTER_USAGE_SECONDS": "1",
            "MUSTER_KERNEL_LOG": str(folder / "kmsg"),
            "MUSTER_HTTP_PORT": str(self.port),
        }
        command = [sys.executable, "-m", "services.node_agent"]
        self._process = subprocess.Popen(
            command, env=os.environ | environment | self.stand_in.environment | more
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        return self._process.wait(timeout=20)

    def metric(self, beginning: str) -> dict[str, float]:
        return samples(self.port, beginning)


class MonitoringProcess:
    """`python -m services.monitoring` on one broker and one database."""

    def __init__(self, kafka: str, database: Database, prefix: str, **more: str) -> None:
        self.port = free_port()
        self.database = database
        self._environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": kafka,
            "MUSTER_DATABASE_URL": database.url("monitoring"),
            "MUSTER_TOPIC_PREFIX": prefix,
            "MUSTER_HTTP_PORT": str(self.port),
            **more,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "services.monitoring"]
        self._process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=20)
            self._process = None

    def metric(self, *beginnings: str) -> dict[str, float]:
        return samples(self.port, *beginnings)


def samples(port: int, *beginnings: str) -> dict[str, float]:
    """Samples of /metrics whose lines begin in one of these ways; none while nobody answers."""
    url = f"http://127.0.0.1:{port}/metrics"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=20) as answer:
        lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line.startswith(beginnings))
        return {name: float(value) for name, value in pairs}
    return {}


def until(holds: Callable[[], bool], what: str, seconds: float = 30) -> float:
    """Wait; returns for how long."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, what
        time.sleep(0.05)
    return time.monotonic() - began
