"""How much of a fleet the ladder may drain by itself: a rule that is wrong must not empty it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.core.model.value import Value

HOUR_MS: Final = 3_600_000


class BreakerLimits(Value, frozen=True, kw_only=True):
    """GPUs of one flavor that may be drained within an hour."""

    percent_max: int = 10
    gpus_min: int = 8
    """So many may be, however small the fleet is."""


DEFAULT_BREAKER: Final = BreakerLimits()


def may_drain(
    drained_ms: Sequence[int],
    more: int,
    gpus: int,
    now_ms: int,
    limits: BreakerLimits = DEFAULT_BREAKER,
) -> bool:
    """Whether `more` of the `gpus` of a flavor may be drained, after those drained at these times.

    O(GPUs drained within the hour).
    """
    lately = sum(now_ms - one < HOUR_MS for one in drained_ms)
    return lately + more <= max(limits.gpus_min, gpus * limits.percent_max // 100)
