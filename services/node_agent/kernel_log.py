"""The kernel's log as a second source of XIDs: records of /dev/kmsg, from now on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from shared.core.telemetry.kernel_log import LoggedXid, xid_of

RECORD_BYTES: Final = 8_192
"""Of one record at most; the kernel refuses to give less room."""
log = structlog.get_logger("kernel_log")


class KernelLog:
    """Tells each XID that is logged after it was opened."""

    def __init__(self, path: Path, tell: Callable[[LoggedXid], None]) -> None:
        self._path = path
        self._tell = tell
        self._file = -1

    def open(self) -> bool:
        """Begin; false where there is no such log, or it may not be read."""
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            log.warning("the kernel's log is not read", path=str(self._path), error=str(error))
            self.close()
            return False
        asyncio.get_running_loop().add_reader(self._file, self._read)
        return True

    def close(self) -> None:
        """Stop; nothing happens if it was not begun."""
        if self._file >= 0:
            asyncio.get_running_loop().remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _read(self) -> None:
        try:
            record = os.read(self._file, RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:
            return  # records were overwritten before they were read; the next ones follow
        except OSError as error:
            log.warning("the kernel's log is read no more", error=str(error))
            self.close()
            return
        if not record:
            self.close()
            return
        found = xid_of(record.decode(errors="replace"))
        if found is not None:
            self._tell(found)
