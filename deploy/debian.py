"""What is taken from Debian's packages without installing them."""

import subprocess
from pathlib import Path

from deploy.local.processes import LocalError


def mirror() -> str:
    """The mirror that this machine takes packages from; "" where it takes none."""
    query = ["Created-By: Packages", "Origin: Debian", "Component: main"]
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", *query],
        capture_output=True,
        text=True,
        check=False,
    )
    return next((line for line in listed.stdout.split() if "security" not in line), "")


def unpack(package: Path, into: Path) -> None:
    """Unpack a package into a folder.

    Raises:
        LocalError: it is none.
    """
    done = subprocess.run(
        ["dpkg-deb", "--extract", str(package), str(into)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"{package.name} could not be unpacked: {done.stderr.strip()}")
