"""What is taken from Debian's packages without installing them."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from deploy.local.cache import locked, machine_cache_folder
from deploy.local.processes import LocalError

SUITE: Final = "bookworm"
"""Of what is unpacked on a machine, whatever runs there."""
KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_SECONDS: Final = 300


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


def fetch(suite: str, names: tuple[str, ...], into: Path) -> None:
    """Fetch packages of a suite and unpack them into a folder.

    With a configuration of its own: apt of this machine need not know the suite.

    Raises:
        LocalError: a package cannot be had.
    """
    apt = into / "apt" / suite
    (apt / "lists" / "partial").mkdir(parents=True)
    (apt / "cache" / "archives" / "partial").mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [signed-by={KEYS}] {_known_mirror()} {suite} main\n")
    _run(apt, "update")
    _run(apt, "download", *names)
    for package in apt.glob("*.deb"):
        unpack(package, into)
    shutil.rmtree(into / "apt")


def unpacked(package: str) -> Path:
    """The folder in the cache with a package of `SUITE`; fetched once.

    Raises:
        LocalError: it cannot be had.
    """
    folder = machine_cache_folder() / f"{package}-{SUITE}"
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            try:
                fetch(SUITE, (package,), partial)
            except OSError as error:
                raise LocalError(f"no {package}: apt-get install {package} ({error})") from error
            partial.rename(folder)
    return folder


def _run(apt: Path, *arguments: str) -> None:
    options = {
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    done = subprocess.run(
        ["apt-get", "-q", *words, *arguments],
        cwd=apt,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=FETCH_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"apt-get {' '.join(arguments)} failed:\n{done.stdout[-2000:]}")


def _known_mirror() -> str:
    found = mirror()
    if not found:
        raise LocalError(
            "no mirror of Debian is known here: /etc/apt/sources.list, then apt-get update"
        )
    return found
