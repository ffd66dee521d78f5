"""Lengths of time, and moments, as people write them in options."""

from __future__ import annotations

import re
from typing import Final

from muster.cli.failures import UsageError

AGO: Final = re.compile(r"(\d{1,6})([smhd])")
UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, option: str) -> float:
    """Seconds of "90", "90s", "10m", "2h" or "1d".

    Raises:
        UsageError: it is none of these; the text names `option`.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)", text, re.ASCII)
    if not match:
        raise UsageError(f"{option} {text!r}: write a number and s, m, h or d, such as 10m")
    return float(match[1]) * UNITS[match[2]]


def moment_of(text: str, now: int, *, option: str = "--at") -> int:
    """Unix milliseconds of "10m" (ago) or of a local ISO time.

    Raises:
        UsageError: it is neither.
    """
    from datetime import datetime

    ago = AGO.fullmatch(text)
    if ago:
        return now - int(ago[1]) * UNITS[ago[2]] * 1_000
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError as error:
        rule = "must be like 10m, 2h or 2026-11-21T14:05"
        raise UsageError(f"{option} {rule} (given: {text})") from error
