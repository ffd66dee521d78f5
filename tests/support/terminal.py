"""A real terminal (pty) of a given width as the standard output of this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator

import pytest


class Screen:
    """What was written to the terminal, once it is closed."""

    def __init__(self) -> None:
        self._read: list[bytes] = []

    def keep(self, descriptor: int) -> None:
        """Read until the other side is closed."""
        with contextlib.suppress(OSError):  # EIO is how a terminal ends
            while piece := os.read(descriptor, 65_536):
                self._read.append(piece)

    @property
    def text(self) -> str:
        """All of it, with the line breaks of a program."""
        return b"".join(self._read).decode().replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """Line by line."""
        return self.text.splitlines()


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Iterator[Screen]:
    """Standard output is a terminal of so many columns while the block runs."""
    screen = Screen()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    reader = threading.Thread(target=screen.keep, args=(ours,))
    reader.start()
    try:
        with monkeypatch.context() as patch, os.fdopen(theirs, "w", encoding="utf-8") as output:
            patch.delenv("COLUMNS", raising=False)
            patch.setattr("sys.stdout", output)
            yield screen
            output.flush()
    finally:
        reader.join(10)
        os.close(ours)
