"""The source of a Go module, by Go's own client: other things lie there than code."""

import json
import os
import subprocess
from pathlib import Path

from deploy.kube.programs import MODULES
from deploy.local.processes import LocalError


def downloaded(module: str, folder: Path = MODULES, checksum: str = "") -> Path:
    """The folder of a module's source, which is fetched once.

    Args:
        module: its path, with `@VERSION` unless the go.mod in `folder` pins it.
        folder: where Go is called.
        checksum: what its source must hash to, as in a go.sum; "" where a go.sum says so.

    Raises:
        LocalError: it cannot be fetched, or is another.
    """
    done = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=folder,
        env={**os.environ, "GOFLAGS": "", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"go mod download {module} failed: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)
    if checksum and found["Sum"] != checksum:
        raise LocalError(f"{module} hashes to {found['Sum']}, not to {checksum}")
    return Path(found["Dir"])
