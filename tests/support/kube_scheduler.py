"""kube-scheduler on a control plane that runs: it places the pods that name no other scheduler."""

from pathlib import Path
from typing import Final

import yaml

from deploy.kube.programs import programs
from deploy.local.processes import Program

NAME: Final = "kube-scheduler"


def scheduler(folder: Path, kubeconfig: Path, environment: dict[str, str]) -> Program:
    """The program, not started; no limit on its own requests.

    Args:
        folder: of the control plane; its configuration and log are written there.
        kubeconfig: of an identity that may do what kube-scheduler does.
        environment: what the process gets besides.
    """
    config = folder / "scheduler.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {
                    "kubeconfig": str(kubeconfig),
                    "qps": 10_000,
                    "burst": 20_000,
                },
            }
        )
    )
    return Program(
        name=NAME,
        command=[str(programs() / NAME), f"--config={config}", "--secure-port=0"],
        log=folder / "logs" / f"{NAME}.log",
        environment=environment,
        folder=folder,
    )
