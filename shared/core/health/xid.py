"""What each XID means for the device: classes as data; a site may override one code.

Sources: NVIDIA's catalogue of XIDs as of October 2025, tables of the device plugin, gpud and
NVSentinel. They disagree on 63, 94, 108, 109 and 160: the catalogue is followed (ADR 88). The
driver's own recovery action goes before any table (ladder.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from shared.core.health.events import NO_INSTANCE

XID_MAX: Final = 10_000


class XidClass(StrEnum):
    """What follows from an XID."""

    NOTE = "note"
    """It is recorded and counted."""
    APP = "app"
    """The workload's own: its owner is told, the device stays."""
    SLICE = "slice"
    """It concerns one GPU instance (MIG)."""
    RESET = "reset"
    """The GPU needs a reset."""
    MEMORY = "memory"
    """Memory is corrupt: nothing may go on there."""
    LINK = "link"
    """A link has errors."""
    NODE = "node"
    """The machine needs a restart."""
    FOLLOW = "follow"
    """Another event beside it tells what happened."""
    CHECK = "check"
    """A person must look: the cause is unknown."""


_CODES: Final[dict[XidClass, tuple[int | tuple[int, int], ...]]] = {
    XidClass.NOTE: (
        14, 37, 38, 43, 44, 63, 66, 67, 78, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157,
        (159, 166), 170,
    ),
    XidClass.APP: (
        8, 11, 13, 25, 31, 32, (39, 41), 60, (68, 72), (75, 77), 80, (82, 86), 88, 89, 94,
        (96, 105), (126, 135), 139,
    ),
    XidClass.RESET: (
        46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, (167, 169),
    ),
    XidClass.MEMORY: (48, 171, 172),
    XidClass.LINK: (74, (144, 150)),
    XidClass.NODE: (79, 151),
    XidClass.FOLLOW: (45, 154),
}  # fmt: skip
CONTAINED: Final = 94
"""Contained memory error: of an instance where the event names one, else of the application."""


def _table() -> dict[int, XidClass]:
    table: dict[int, XidClass] = {}
    for kind, codes in _CODES.items():
        for one in codes:
            low, high = one if isinstance(one, tuple) else (one, one)
            table |= dict.fromkeys(range(low, high + 1), kind)
    return table


CLASSES: Final = _table()
NO_OVERRIDES: Final[Mapping[int, XidClass]] = {}


def class_of(
    xid: int, instance: int = NO_INSTANCE, overrides: Mapping[int, XidClass] = NO_OVERRIDES
) -> XidClass:
    """The class of an XID; `check` for one that no table knows."""
    if xid in overrides:
        return overrides[xid]
    if xid == CONTAINED and instance != NO_INSTANCE:
        return XidClass.SLICE
    return CLASSES.get(xid, XidClass.CHECK)


def overrides_of(pairs: Iterable[tuple[int, str]]) -> dict[int, XidClass]:
    """A site's own classes, of (XID, class).

    Raises:
        ValueError: a code is there twice or out of range, or a class is unknown; with field,
            value and rule.
    """
    found: dict[int, XidClass] = {}
    for xid, name in pairs:
        if not 0 < xid <= XID_MAX:
            raise ValueError(f"xid: {xid} is not from 1 to {XID_MAX}")
        if xid in found:
            raise ValueError(f"xid: {xid} is there twice, each is allowed once")
        if name not in XidClass.__members__.values():
            allowed = ", ".join(one.value for one in XidClass)
            raise ValueError(f"class: {name!r} of XID {xid} is not one of {allowed}")
        found[xid] = XidClass(name)
    return found
