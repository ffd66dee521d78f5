"""XIDs in lines of the kernel's log, and the same XID told twice.

NVML's events and the kernel's log tell the same errors, and each misses some: an XID of a GPU that
both tell within five seconds is one. Source: the driver's format,
`NVRM: Xid (PCI:0000:1a:00): 79, pid=.., name=.., text`, of old drivers without `PCI:`.
"""

from __future__ import annotations

import re
from typing import Final

from shared.core.health.events import DETAIL_CHARACTERS_MAX
from shared.core.model.value import Value

SAME_MS: Final = 5_000
_xid = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?\): "
    r"(\d{1,9})(?:,|$)"
).search
_bus = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?").fullmatch

Slot = tuple[int, int, int]
"""(domain, bus, device) on PCI."""


class LoggedXid(Value, frozen=True, kw_only=True):
    """An XID as the kernel logged it."""

    slot: Slot
    """Where the device hangs: domain, bus and number."""
    xid: int
    line: str
    """The line from `NVRM` on, cut to 256 characters."""


def xid_of(line: str) -> LoggedXid | None:
    """The XID that a line of the log tells; None for any other line."""
    found = _xid(line)
    if found is None:
        return None
    domain, bus, device, xid = found.groups()
    return LoggedXid(
        slot=(int(domain, 16), int(bus, 16), int(device, 16)),
        xid=int(xid),
        line=line[found.start() :].strip()[:DETAIL_CHARACTERS_MAX],
    )


def slot_of(address: str) -> Slot | None:
    """Where a device hangs, of an address such as 00000000:1B:00.0; None if it is none."""
    found = _bus(address)
    return (int(found[1], 16), int(found[2], 16), int(found[3], 16)) if found else None


class SeenXids:
    """Lets each XID pass once, whichever source tells it first."""

    def __init__(self) -> None:
        self._passed: dict[tuple[str, int], tuple[str, int]] = {}
        """By UUID and XID: the source that told it last, and when."""

    def is_new(self, uuid: str, xid: int, source: str, at_ms: int) -> bool:
        """False for what another source told less than five seconds ago.

        One source that tells the same XID twice means two errors.
        """
        told_by, told_ms = self._passed.get((uuid, xid), (source, at_ms))
        self._passed[uuid, xid] = (source, at_ms)
        if told_by == source or at_ms - told_ms >= SAME_MS:
            return True
        # The pair is complete: the next one, of either source, is another error.
        del self._passed[uuid, xid]
        return False
