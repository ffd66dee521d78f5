"""The form of an idempotency key, the same at both doors: `Idempotency-Key`, and `ce_id`."""

from __future__ import annotations

import re
from typing import Final

KEY_LENGTH_MAX: Final = 200
KEY_RULE: Final = f"must be 1 to {KEY_LENGTH_MAX} printable ASCII characters"
_KEY: Final = re.compile(rf"[ -~]{{1,{KEY_LENGTH_MAX}}}")


def is_key(text: str) -> bool:
    """Whether a workload id may be made of `text`."""
    return _KEY.fullmatch(text) is not None
