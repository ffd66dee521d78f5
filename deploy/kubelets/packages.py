"""The programs of a node that come from Debian: unpacked into a cache, installed nowhere.

Debian 12's containerd leaves out CDI, by which DRA hands devices over; Debian 13's runc needs a
newer C library than Debian 12 has: so containerd comes from Debian 13, the others from Debian 12.
apt checks the signatures of both with Debian's own keys and a configuration of its own.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy import debian
from deploy.local.cache import locked, machine_cache_folder

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "trixie": ("containerd", "busybox-static"),
    "bookworm": ("runc", "containernetworking-plugins"),
}
PROGRAMS: Final = ("usr/bin", "usr/sbin")
PLUGINS: Final = "usr/lib/cni"
BUSYBOX: Final = "usr/bin/busybox"
CTR: Final = "usr/bin/ctr"


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
                debian.fetch(suite, names, partial)
            partial.rename(folder)
    return folder


def search_path(folder: Path) -> str:
    """PATH with the programs of the packages before those of this machine."""
    return os.pathsep.join([*(str(folder / name) for name in PROGRAMS), os.environ["PATH"]])


def _fingerprint() -> str:
    return hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]
