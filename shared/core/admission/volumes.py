"""The volumes of a pod set: claims by name, and where they are mounted.

`CLAIM`, `CLAIM:PATH` or `CLAIM:PATH:ro`; without a path a claim is mounted at `/mnt/CLAIM`. There
is no other source than a claim of the team's own namespace: no path of the node, no other object.
"""

from __future__ import annotations

import re
from typing import Final

from shared.core.admission.errors import Errors
from shared.core.model.value import Value

PATH_MAX: Final = 255
READ_ONLY: Final = "ro"
DEFAULT_FOLDER: Final = "/mnt/"
RULE: Final = (
    "must be CLAIM, CLAIM:PATH or CLAIM:PATH:ro; a claim is a name of a-z, 0-9, '-' and '.',"
    f" a path begins with '/', has no '..' and at most {PATH_MAX} characters"
)
OF_SYSTEM_RULE: Final = "must not be mounted over a folder of the system; choose another path"
is_volume = re.compile(
    r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?(?::(?:/[-_.A-Za-z0-9]+)+(?::ro)?)?"
).fullmatch
_OF_SYSTEM: Final = (
    "/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/bin", "/sbin", "/lib", "/lib64", "/usr",
)  # fmt: skip


class Mount(Value, frozen=True, kw_only=True):
    """A claim of the namespace, where it appears, and whether it may be written."""

    claim: str
    path: str
    read_only: bool = False


def mount_of(volume: str) -> Mount:
    """What a volume that `check_volumes` had no rule against means."""
    claim, _, rest = volume.partition(":")
    path, _, mode = rest.partition(":")
    return Mount(claim=claim, path=path or DEFAULT_FOLDER + claim, read_only=mode == READ_ONLY)


def check_volumes(path: str, volumes: tuple[str, ...], errors: Errors) -> None:
    """Every broken rule of the volumes of one pod set."""
    for index, volume in enumerate(volumes):
        rule = _rule_broken_by(volume)
        if rule:
            errors.add(f"{path}[{index}]", volume, rule)
    paths = [mount_of(volume).path for volume in volumes]
    if len(set(paths)) < len(paths):
        errors.add(path, len(paths), "must not mount two volumes at one path")


def _rule_broken_by(volume: str) -> str:
    if not is_volume(volume):
        return RULE
    path = volume.partition(":")[2].partition(":")[0]
    if ".." in path.split("/") or len(path) > PATH_MAX:
        return RULE
    of_system = any(path == one or path.startswith(f"{one}/") for one in _OF_SYSTEM)
    return OF_SYSTEM_RULE if of_system else ""
