"""Clocks of processes that can be set: libfaketime of Debian, loaded before everything else.

The monotonic clock stays true, as it does when the time of a machine is set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deploy import debian

PACKAGE: Final = "libfaketime"
LIBRARY: Final = "libfaketime.so.1"


def library() -> Path:
    """The library; fetched once where it is not installed.

    Raises:
        LocalError: it cannot be had.
    """
    installed = sorted(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}"))
    return installed[0] if installed else _fetched()


def _fetched() -> Path:
    return next(debian.unpacked(PACKAGE).glob(f"usr/lib/*/faketime/{LIBRARY}"))


class SetClock:
    """The clock of one process, by the file that its library reads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.set(0)

    def set(self, seconds: int) -> None:
        """Let it be so far ahead of the machine's; negative: behind."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)

    def environment(self, library: Path) -> dict[str, str]:
        """Variables of the process."""
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
