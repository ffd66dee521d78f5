"""Muster on real kubelets, installed as docs/install.md tells."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.kube.programs import HELM, programs
from deploy.kubelets.cluster import KubeletCluster
from deploy.kubelets.images import IMAGE
from deploy.local.cache import CHECKOUT
from deploy.local.processes import free_port
from muster import Client
from tests.chart import guide
from tests.fixtures.shared_folder import mark

NAMESPACE, TEAM = "muster-system", "vision"
SECONDS = 420
REQUEST_SECONDS = 5
WAITING = ("--wait", "--timeout", "5m")
OPERATORS = ("kafka.yaml", "kafka/muster")
"""In the two commands that are about brokers and databases of operators, which are not here."""
OF_THE_TEST_CLUSTER = (
    ["namespace", NAMESPACE],
    ["clusterrole,clusterrolebinding", "--selector=!kubernetes.io/bootstrapping"],
)
Object = dict[str, Any]


class Installation:
    """What the guide's reader has: a folder with files, and programs.

    Args:
        kubelets: the cluster.
        folder: where files are written; its path has no colon, which parts a KUBECONFIG.
        checkout: whose chart is installed.
    """

    def __init__(self, kubelets: KubeletCluster, folder: Path, checkout: Path) -> None:
        self.folder = folder
        self._port = free_port()
        self._forward: subprocess.Popen[bytes] | None = None
        self._take_chart_of(checkout)
        (folder / "config").write_bytes(kubelets.kubeconfig().read_bytes())
        path = [programs(), programs(HELM), Path(sys.executable).parent, os.environ["PATH"]]
        self._environment = {
            **os.environ,
            **mark(),
            "KUBECONFIG": str(folder / "config"),
            "PATH": os.pathsep.join(map(str, path)),
        }

    def clear(self) -> None:
        """Remove what the cluster of the tests has of Muster's own: a reader's has nothing."""
        for words in OF_THE_TEST_CLUSTER:
            self.run("kubectl", "delete", "--ignore-not-found", *words)

    def follow_the_guide(self) -> None:
        """Run its commands, with the chart's own broker and database."""
        self._write("organisation.yaml", guide.file_of("organisation.yaml"))
        self._write("job.yaml", a_job("first"))
        lines = [one for one in guide.commands() if not any(word in one for word in OPERATORS)]
        script = "\n".join(lines).replace("8080", str(self._port))
        with (self.folder / "commands.log").open("wb") as log:
            self._forward = subprocess.Popen(
                ["bash", "-eux", "-c", script],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            code = self._forward.wait(SECONDS)
        assert code == 0, (self.folder / "commands.log").read_text()

    def end(self) -> None:
        """End what runs in the background."""
        if self._forward:
            os.killpg(self._forward.pid, signal.SIGKILL)

    def run(self, *words: str, text: str = "") -> str:
        """What a command printed; AssertionError where it fails."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, what: str, namespace: str) -> list[Object]:
        """The objects of a kind, which may have a selector: `pods -l app=a`."""
        found: Object = json.loads(
            self.run("kubectl", "-n", namespace, "get", *what.split(), "-o", "json")
        )
        return list(found["items"])

    def wait(self, condition: str, what: str, namespace: str) -> None:
        """Return when an object has a condition."""
        words = [f"--for=condition={condition}", *what.split(), "--timeout=180s"]
        self.run("kubectl", "-n", namespace, "wait", *words)

    def create(self, job: str) -> None:
        """Create a Job of the team."""
        self.run("kubectl", "-n", TEAM, "create", "-f", "-", text=job)

    def upgrade(self, *settings: str, more: Sequence[str] = WAITING) -> None:
        """The guide's upgrade, to this checkout.

        Args:
            settings: values besides, NAME=VALUE.
            more: words of the command besides; it waits until every process is ready.
        """
        self._take_chart_of(CHECKOUT)
        values = [word for one in settings for word in ("--set", one)]
        (command,) = [one for one in guide.TEXT.splitlines() if "helm upgrade" in one]
        self.run(*command.split(), *values, *more)

    def gateways(self) -> list[str]:
        """Addresses of the gateways that the Service leads to."""
        what = "endpointslices -l kubernetes.io/service-name=muster-gateway"
        return [
            f"http://{address}:8080"
            for one in self.get(what, NAMESPACE)
            for endpoint in one["endpoints"] or ()
            if endpoint["conditions"]["ready"]
            for address in endpoint["addresses"]
        ]

    def client(self, address: str) -> Client:
        """The operator's, of one gateway."""
        (secret,) = self.get("secrets --field-selector metadata.name=muster-passwords", NAMESPACE)
        key = base64.b64decode(secret["data"]["operator-key"]).decode()
        return Client(address, key, timeout_seconds=REQUEST_SECONDS)

    def told(self) -> str:
        """What pods and events say, for a failure."""
        parts: Sequence[Sequence[str]] = (
            ["get", "pods", "-A", "-o", "wide"],
            ["get", "events", "-A", "--sort-by=.lastTimestamp"],
            [
                "-n",
                NAMESPACE,
                "logs",
                "-l",
                "app.kubernetes.io/name=muster",
                "--tail=8",
                "--prefix",
            ],
        )
        return "\n".join(
            subprocess.run(
                ["kubectl", *words],
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            ).stdout
            for words in parts
        )

    def _take_chart_of(self, checkout: Path) -> None:
        """`values.yaml` is that of its own broker and database."""
        link = self.folder / "deploy"
        link.unlink(missing_ok=True)
        link.symlink_to(checkout / "deploy")
        chart = checkout / "deploy" / "chart" / "muster"
        values = yaml.safe_load((chart / "values-try.yaml").read_text())
        values["flavors"] = yaml.safe_load(guide.file_of("values.yaml"))["flavors"]
        self._write("values.yaml", yaml.safe_dump(values))

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


def a_gang(name: str, script: str, pods: int) -> str:
    """The guide's Job with so many pods, each of which runs the script."""
    job = yaml.safe_load(a_job(name))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["command"][-1] = script
    container["resources"]["limits"]["cpu"] = "100m"
    job["spec"] |= {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return yaml.safe_dump(job)


def a_job(name: str) -> str:
    """The guide's Job under another name, with the image that nodes have here."""
    job = yaml.safe_load(guide.file_of("job.yaml"))
    job["metadata"]["name"] = name
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["image"] = IMAGE
    return yaml.safe_dump(job)
