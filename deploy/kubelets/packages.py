"""The programs of a node that come from Debian: unpacked into a cache, installed nowhere.

Debian 12's containerd leaves out CDI, by which DRA hands devices over; Debian 13's runc needs a
newer C library than Debian 12 has: so containerd comes from Debian 13, the others from Debian 12.
apt checks the signatures of both with Debian's own keys and a configuration of its own.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy import debian
from deploy.local.cache import locked, machine_cache_folder
from deploy.local.processes import LocalError

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "trixie": ("containerd", "busybox-static"),
    "bookworm": ("runc", "containernetworking-plugins"),
}
KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PROGRAMS: Final = ("usr/bin", "usr/sbin")
PLUGINS: Final = "usr/lib/cni"
BUSYBOX: Final = "usr/bin/busybox"
FETCH_SECONDS: Final = 300


def unpacked() -> Path:
    """The folder with all packages; they are fetched once.

    Raises:
        LocalError: a package cannot be had.
    """
    folder = machine_cache_folder() / f"node-{_fingerprint()}"
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            for suite, names in PACKAGES.items():
                _fetch(suite, names, partial)
            partial.rename(folder)
    return folder


def search_path(folder: Path) -> str:
    """PATH with the programs of the packages before those of this machine."""
    return os.pathsep.join([*(str(folder / name) for name in PROGRAMS), os.environ["PATH"]])


def _fingerprint() -> str:
    return hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]


def _fetch(suite: str, names: tuple[str, ...], into: Path) -> None:
    apt = into / "apt" / suite
    (apt / "lists" / "partial").mkdir(parents=True)
    (apt / "cache" / "archives" / "partial").mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [signed-by={KEYS}] {_mirror()} {suite} main\n")
    _run(apt, "update")
    _run(apt, "download", *names)
    for package in apt.glob("*.deb"):
        debian.unpack(package, into)
    shutil.rmtree(into / "apt")


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


def _mirror() -> str:
    found = debian.mirror()
    if not found:
        raise LocalError(
            "no mirror of Debian is known here: /etc/apt/sources.list, then apt-get update"
        )
    return found
