"""Names of MIG profiles by board, and how many instances of one fit on an empty GPU.

A name counts compute slices and memory ("1g.10gb"), so the same class has another name on each
board; a suffix after '+' ("+me", "+gfx") is an attribute, not a size. Only what admission needs
is here: exact positions are placement's. Facts: mig-and-telemetry.md 1a (NVIDIA/mig-parted
deployments/systemd/config-default.yaml).
"""

from __future__ import annotations

from typing import Final

_CLASSES: Final = ("1g", "1g double", "2g", "3g", "4g", "7g")
_MAX_ON_BOARD: Final = {"1g": 7, "1g double": 4, "2g": 3, "3g": 2, "4g": 1, "7g": 1}
_A30_MAX: Final = {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1}

_EIGHT_SLOT_BOARDS: Final[dict[int, tuple[str, ...]]] = {
    40: ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    80: ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    94: ("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    96: ("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    141: ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    144: ("1g.18gb", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"),
    180: ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    186: ("1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"),
    189: ("1g.23gb", "1g.47gb", "2g.47gb", "3g.95gb", "4g.95gb", "7g.189gb"),
    269: ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
    278: ("1g.35gb", "1g.70gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb"),
}
"""By the marketed size in GB."""

_SUFFIXES: Final = frozenset(("", "me", "gfx", "me.all"))
_BASE_NAMES: Final = frozenset(
    (*_A30_MAX, *(name for names in _EIGHT_SLOT_BOARDS.values() for name in names))
)


def is_profile(name: str) -> bool:
    """Whether any board has a profile of this name."""
    base, _, suffix = name.partition("+")
    return base in _BASE_NAMES and suffix in _SUFFIXES and not (name.endswith("+"))


def profiles_of_board(memory_mib: int) -> dict[str, int]:
    """Instances that fit on one empty GPU with `memory_mib`, by profile name without suffix.

    Boards report a little less or more than their marketed GB; the nearest of the table counts
    when it is within a tenth. An unknown board has no profiles.
    """
    gigabytes = memory_mib / 1024
    if abs(gigabytes - 24) <= 2:  # noqa: PLR2004  # the A30 is the only board of four slots
        return _A30_MAX
    nearest = min(_EIGHT_SLOT_BOARDS, key=lambda size: abs(size - gigabytes))
    if abs(nearest - gigabytes) > nearest / 10:
        return {}
    return dict(_near(nearest, gigabytes))


def _near(nearest: int, gigabytes: float) -> list[tuple[str, int]]:
    """Profiles of every board whose size cannot be told from `gigabytes` (94 and 96, say)."""
    found: dict[str, int] = {}
    for size, names in _EIGHT_SLOT_BOARDS.items():
        if abs(size - gigabytes) <= abs(nearest - gigabytes) + size / 25:
            for kind, name in zip(_CLASSES, names, strict=True):
                found[name] = max(found.get(name, 0), _MAX_ON_BOARD[kind])
    return list(found.items())


def instances_per_gpu(name: str, memory_mib: int) -> int:
    """How many instances of profile `name` fit on one empty GPU; 0 where it has none."""
    base, _, suffix = name.partition("+")
    count = profiles_of_board(memory_mib).get(base, 0)
    return min(count, 1) if suffix.startswith("me") else count


def profile_gigabytes(name: str) -> int:
    """GPU memory of one instance by its name, in GB; 0 for a name without one."""
    digits = name.partition("+")[0].partition(".")[2].removesuffix("gb")
    return int(digits) if digits.isdigit() else 0
