"""Commands that are called in this process, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass
class Done:
    """What a call left behind."""

    code: int
    out: str
    err: str


def ended(capsys: pytest.CaptureFixture[str], command: Callable[[], None]) -> Done:
    """The end of a command that ends by exiting; what was printed before it is not its own."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as raised:
        command()
    out, err = capsys.readouterr()
    return Done(int(raised.value.code or 0), out, err)
