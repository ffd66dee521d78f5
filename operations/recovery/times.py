"""Since when: a time of the clock, or so long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from operations.failures import Refused

_AGO: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def since_ms(text: str, now_ms: int) -> int:
    """Unix time in milliseconds of `2026-11-28T02:00:00Z`, or of `90m` before now.

    A time without a zone is UTC.

    Raises:
        Refused: it is neither, or in the future.
    """
    ago = _AGO.fullmatch(text)
    if ago:
        return now_ms - 1000 * int(ago[1]) * _SECONDS[ago[2]]
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        rule = "must be a time such as 2026-11-28T02:00:00Z, or 90s, 15m, 6h, 2d ago"
        raise Refused(f"since: {text}: {rule}") from None
    found = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    if found > now_ms:
        raise Refused(f"since: {text}: must not be in the future")
    return found
