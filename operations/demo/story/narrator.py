"""What a person reads: numbered captions, sentences of Muster, and progress while a scene acts."""

from __future__ import annotations

import sys
import textwrap
import time
from typing import Any, Final

WIDTH: Final = 96
LINE_SECONDS: Final = 3.0
"""Between two lines of progress in a pipe."""


class Narrator:
    """Prints captions and progress; on a terminal the progress is one line that changes."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._told_at = 0.0
        self._told = ""
        self._number = 0
        self._status: Any = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._status = Console(highlight=False).status("")

    @property
    def elapsed_seconds(self) -> float:
        """Time since the story began."""
        return time.monotonic() - self._started

    def caption(self, title: str, text: str) -> None:
        """Begin a scene."""
        self._number += 1
        self.settle()
        print(f"\n{self._number}. {title}  ({self.elapsed_seconds:.0f} s)")
        self._block(text, "   ")

    def say(self, text: str) -> None:
        """What was seen, with its numbers."""
        self.settle()
        self._block(text, "   ")

    def quote(self, command: str, text: str) -> None:
        """A sentence of Muster under the command that gives it."""
        self.settle()
        print(f"   $ {command}", flush=True)
        self._block(text, "     ")

    def progress(self, text: str) -> None:
        """What is seen while a scene acts; cheap enough to call often."""
        now = time.monotonic()
        if self._status is not None:
            self._status.update(f"   {text}")
            self._status.start()
        elif now - self._told_at >= LINE_SECONDS and text != self._told:
            self._told_at, self._told = now, text
            print(f"   ... {text}", flush=True)

    def settle(self) -> None:
        """Take the line of progress away."""
        self._told_at = time.monotonic()
        if self._status is not None:
            self._status.stop()

    def _block(self, text: str, indent: str) -> None:
        for line in text.splitlines():
            print(textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=indent))
        sys.stdout.flush()
