"""How long a workload rests after a setback: longer with each one in a row, at most a minute.

A setback is an attempt that did not start in time, was refused by the cluster or a kubelet, lost
its pods or failed by itself: the next one may meet the same. An eviction is none, whatever its
origin, nor is the loss of a node. An attempt that ran long enough starts the count anew.
Sources: Kueue's requeuingStrategy, which counts evictions for PodsReadyTimeout alone; client-go's
flowcontrol.Backoff, which forgets after twice the longest back-off.
"""

from __future__ import annotations

from typing import Final

REST_SECONDS_MAX: Final = 64
FORGIVEN_AFTER_MS: Final = 2 * REST_SECONDS_MAX * 1000
"""An attempt that ran for so long starts the count anew."""


def setbacks_in_a_row(before: int, ran_ms: int, *, setback: bool) -> int:
    """Of a workload after an attempt that ran for `ran_ms`; 0 if it never ran."""
    return (before if ran_ms < FORGIVEN_AFTER_MS else 0) + setback


def rest_seconds(setbacks: int) -> int:
    """After the last of so many in a row: 1, 2, 4 and so on."""
    assert setbacks > 0
    return 1 << min(setbacks - 1, REST_SECONDS_MAX.bit_length() - 1)
