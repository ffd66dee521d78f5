"""Where processors are short, processes that show and count wait for those that decide."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

AUTOGROUP: Final = Path("/proc/self/autogroup")
"""Where Linux shares processors by sessions, niceness counts within one; here is the session's."""


def give_way(niceness: int) -> None:
    """Add to the niceness of this process, and of a session of its own; once."""
    if not niceness:
        return
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(niceness))
