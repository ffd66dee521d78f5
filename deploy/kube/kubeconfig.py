"""kubeconfig files: how a program finds the API server and who it is there."""

from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(path: Path, *, server: str, certificate: Path, token: str) -> None:
    """Write a kubeconfig with one cluster and one user, readable by its owner alone."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "muster",
        "clusters": [
            {
                "name": "muster",
                "cluster": {"server": server, "certificate-authority": str(certificate)},
            }
        ],
        "users": [{"name": "muster", "user": {"token": token}}],
        "contexts": [{"name": "muster", "context": {"cluster": "muster", "user": "muster"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.write_text(yaml.safe_dump(document))
    partial.rename(path)
