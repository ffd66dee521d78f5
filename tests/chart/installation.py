"""Muster on real kubelets, installed as docs/install.md tells."""

from __future__ import annotations

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
from tests.chart import guide
from tests.fixtures.shared_folder import mark

NAMESPACE, TEAM = "muster-system", "vision"
SECONDS = 420
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
    """

    def __init__(self, kubelets: KubeletCluster, folder: Path) -> None:
        self.folder = folder
        self._port = free_port()
        self._forward: subprocess.Popen[bytes] | None = None
        (folder / "deploy").symlink_to(CHECKOUT / "deploy")
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
        chart = CHECKOUT / "deploy" / "chart" / "muster"
        values = yaml.safe_load((chart / "values-try.yaml").read_text())
        values["flavors"] = yaml.safe_load(guide.file_of("values.yaml"))["flavors"]
        self._write("values.yaml", yaml.safe_dump(values))
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

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


def a_job(name: str) -> str:
    """The guide's Job under another name, with the image that nodes have here."""
    job = yaml.safe_load(guide.file_of("job.yaml"))
    job["metadata"]["name"] = name
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["image"] = IMAGE
    return yaml.safe_dump(job)
