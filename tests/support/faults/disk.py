"""A file system of its own that can be full: a tmpfs, so that no other work lacks room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.local.processes import LocalError

SIZE: Final = "6g"
"""Room while nothing is wrong; only what is used takes memory."""
TRIES: Final = 50


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, folder: Path) -> None:
        """Mount it at a new folder.

        Raises:
            LocalError: this user or this machine may not mount.
        """
        folder.mkdir(mode=0o755)
        self.folder = folder
        _run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "tmpfs", str(folder))

    @contextmanager
    def full(self) -> Iterator[None]:
        """Without a free page: its size is what is used."""
        self._fill()
        try:
            yield
        finally:
            self._resize(SIZE)

    def _fill(self) -> None:
        """Take the free pages away; again where one was written after they were counted."""
        for left in reversed(range(TRIES)):
            found = os.statvfs(self.folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            try:
                self._resize(str(used))
                break
            except LocalError:
                if not left:
                    raise

    def _resize(self, size: str) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self.folder))

    def discard(self) -> None:
        """Take it away with what it holds; processes that still have it keep it until they end."""
        _run("umount", "--lazy", str(self.folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalError(f"{' '.join(command)}: {done.stderr.strip()}")
