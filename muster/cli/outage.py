"""A gateway that is away for a while: those who wait go on, and tell it once."""

from __future__ import annotations

from typing import Final

from muster.cli.output import note
from muster.errors import MusterError, ServerError, Unreachable

AWAY: Final = (Unreachable, ServerError)
"""What passes by waiting: nobody answers, or something between here and Muster fails (5xx)."""


class Outage:
    """Whether Muster is away; its begin and its end are told on stderr, once each."""

    def __init__(self) -> None:
        self._away = False

    def begin(self, error: MusterError) -> None:
        """A request has failed for good, with all its tries."""
        if not self._away:
            note(f"{str(error).rstrip('.')}. Waiting goes on; Ctrl-C ends it.")
        self._away = True

    def end(self) -> None:
        """A request was answered."""
        if self._away:
            note("Muster answers again.")
        self._away = False
