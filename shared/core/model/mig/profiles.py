"""MIG profiles as admission needs them: which names exist, and what quota counts for each.

Tables are in `core.model.mig.tables`, positions in `core.model.mig.table`; here are the questions
that a submission raises before any position is looked for. Which profiles a fleet has is what its
agents report (core/model/mig/reported.py): names that no table has may be asked for, too.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from shared.core.model.mig.tables import table_for
from shared.core.model.units import GPU_MILLI, SLICES

_EVERY_PRODUCT: Final = (
    "A30",
    "A100-40GB",
    "A100-80GB",
    "H100-80GB",
    "H100-94GB",
    "H100-96GB",
    "H200",
    "GH200-144GB",
    "B200",
    "GB200",
    "B300",
    "GB300",
    "RTX-PRO-6000",
)
"""One name of each table."""
_name: Final = re.compile(r"([1-8])g\.([1-9][0-9]{0,3})gb(?:[-+][a-z]{1,8}(?:\.[a-z]{1,8})?){0,3}")
"""Compute slices, gigabytes, and what an instance has or lacks beside them: +me, -me, +gfx."""


@cache
def known_profiles() -> frozenset[str]:
    """Names of all profiles of all products, every spelling."""
    return frozenset(name for product in _EVERY_PRODUCT for name in profiles_of(product, 0))


def is_profile(name: str) -> bool:
    """Whether any product has a profile of this name."""
    return name in known_profiles()


def is_profile_name(name: str) -> bool:
    """Whether a driver could call a profile so, known or not."""
    return _name.fullmatch(name) is not None


def profiles_of(product: str, memory_mib: int) -> tuple[str, ...]:
    """Names of the profiles of one product; none where it has no MIG."""
    table = table_for(product, memory_mib)
    return tuple(table.profiles) if table is not None else ()


def profile_gigabytes(name: str) -> int:
    """GPU memory of one instance by its name, in GB; 0 for a name without one."""
    digits = name.partition(".")[2].partition("gb")[0]
    return int(digits) if digits.isdecimal() else 0


@cache
def least_milli(name: str) -> int:
    """What quota counts at least for one instance: "1g.10gb" is smaller on the larger board.

    Raises KeyError for a profile of no product.
    """
    tables = [table_for(product, 0) for product in _EVERY_PRODUCT]
    sizes = [
        table.profiles[name].milli
        for table in tables
        if table is not None and name in table.profiles
    ]
    if not sizes:
        raise KeyError(name)
    return min(sizes)


def counted_milli(name: str) -> int:
    """As `least_milli`; for a profile that only its driver knows, a slice for each of compute.

    No board has fewer slices of memory than of compute.
    """
    if is_profile(name):
        return least_milli(name)
    found = _name.fullmatch(name)
    return (int(found[1]) if found else 1) * GPU_MILLI // SLICES
