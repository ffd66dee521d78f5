"""CPU time of each process of a running system, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes, with children that have ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


def family(pid: int | None) -> list[int]:
    """A process and its living children, a database server's backends for example."""
    if pid is None:
        return []
    children = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        text = (task / "children").read_text()
        children += [int(child) for child in text.split()]
    return children


def memory_mib(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0
