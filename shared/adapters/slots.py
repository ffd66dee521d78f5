"""One process for each slot: the second one ends and names the first.

A slot is a stable name, so that the supervisor's restart takes its lease at once (ADR 3). Two
processes with one name would take it from each other for ever, each take-over with a reload.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.ports.errors import SlotTaken

SILENT_SECONDS: Final = 2.0
"""A holder renews every 1.5 s; one that did not for so long is dead or stands still."""


@dataclass(slots=True, frozen=True)
class SlotHolder:
    """What the row of a lease tells of its holder."""

    slot: str
    process: str
    """As `this_process` names it; "": a version that did not tell."""
    silent_seconds: float
    """Since it took the lease or renewed it last."""


class SlotCheck:
    """Tells a living process of the own slot from one that died.

    Attributes:
        process: this process, as `this_process` names it.
    """

    def __init__(self, slot: str, process: str) -> None:
        self.process = process
        self._slot = slot
        self._seen: SlotHolder | None = None

    def may_take(self, holder: SlotHolder) -> bool:
        """Whether the slot is free; False: ask again, a renewal or silence will tell.

        Raises:
            SlotTaken: another process of this slot has just renewed the lease.
        """
        if holder.slot != self._slot or holder.process in ("", self.process):
            return True
        if holder.silent_seconds > SILENT_SECONDS or _is_gone(holder.process):
            return True
        before, self._seen = self._seen, holder
        if before is None or before.process != holder.process:
            return False
        if holder.silent_seconds < before.silent_seconds:
            raise SlotTaken(
                f"slot {self._slot} is held by another process, {_words(holder.process)}: end it,"
                " or give this one a name of its own (MUSTER_SLOT)"
            )
        return False


def this_process() -> str:
    """`host/pid/start`: the start in clock ticks since boot, as a pid is used again."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid())}"


def _is_gone(process: str) -> bool:
    """Whether it ran on this host and has ended; of another host that is not known here."""
    host, pid, started = process.rsplit("/", 2)
    return host == socket.gethostname() and _started(int(pid)) != started


def _started(pid: int) -> str:
    """Field 22 of proc_pid_stat(5), behind the name in brackets; "" when it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]


def _words(process: str) -> str:
    host, pid, _ = process.rsplit("/", 2)
    return f"pid {pid} on {host}"
