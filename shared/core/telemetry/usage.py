"""What a report of use must be, so that it counts; one that is not concerns its node alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.core.model.value import Value

GPUS_MAX: Final = 256
MASK_MAX: Final = 0xFF
AHEAD_MS_MAX: Final = 60_000
"""A node's clock may be so far ahead of the broker's."""
_PERCENT: Final = (0, 100)
_MEMORY_MIB: Final = (0, 1 << 24)
_CELSIUS: Final = (-50, 200)
_WATTS: Final = (0, 100_000)
_MHZ: Final = (-1, 100_000)
_REPLAYS: Final = (-1, (1 << 63) - 1)


class ReportedUse(Value, frozen=True, kw_only=True):
    """The arrays of a report, by index of GPU."""

    utilization_percent: Sequence[int]
    memory_used_mib: Sequence[int]
    temperature_celsius: Sequence[int]
    power_watts: Sequence[int]
    unread: Sequence[int]
    instances: Sequence[tuple[int, int, int]] = ()
    """(index of the GPU, slices as a mask, per cent) of GPU instances."""
    sm_clock_mhz: Sequence[int] = ()
    """Empty where no driver tells of it; -1 of a GPU for which it does not."""
    pcie_replays: Sequence[int] = ()
    """Empty where no driver tells of them; -1 of a GPU for which it does not."""
    throttled: Sequence[int] = ()
    """Indexes of GPUs."""


def problem_of_use(use: ReportedUse) -> str:
    """The first broken rule, as "field: value and rule"; empty when there is none. O(GPUs)."""
    gpus = len(use.utilization_percent)
    if gpus > GPUS_MAX:
        return f"utilization_percent: {gpus} values, at most {GPUS_MAX} are allowed"
    return (
        _values("utilization_percent", use.utilization_percent, gpus, _PERCENT)
        or _values("memory_used_mib", use.memory_used_mib, gpus, _MEMORY_MIB)
        or _values("temperature_celsius", use.temperature_celsius, gpus, _CELSIUS)
        or _values("power_watts", use.power_watts, gpus, _WATTS)
        or _indexes("unread", use.unread, gpus)
        or _instances(use.instances, gpus)
        or _optional("sm_clock_mhz", use.sm_clock_mhz, gpus, _MHZ)
        or _optional("pcie_replays", use.pcie_replays, gpus, _REPLAYS)
        or _indexes("throttled", use.throttled, gpus)
    )


def problem_of_time(at_ms: int, logged_ms: int) -> str:
    """Whether the node's clock is ahead of the broker's by more than a minute."""
    ahead_ms = at_ms - logged_ms
    if ahead_ms <= AHEAD_MS_MAX:
        return ""
    return (
        f"at_ms: {at_ms} is {ahead_ms / 1000:.0f} s ahead of the broker's clock,"
        f" at most {AHEAD_MS_MAX // 1000} s are allowed"
    )


def _values(field: str, values: Sequence[int], gpus: int, limits: tuple[int, int]) -> str:
    low, high = limits
    if len(values) != gpus:
        return f"{field}: {len(values)} values, and utilization_percent has {gpus}"
    for at, value in enumerate(values):
        if not low <= value <= high:
            return f"{field}[{at}]: {value} is not from {low} to {high}"
    return ""


def _optional(field: str, values: Sequence[int], gpus: int, limits: tuple[int, int]) -> str:
    return _values(field, values, gpus, limits) if values else ""


def _instances(instances: Sequence[tuple[int, int, int]], gpus: int) -> str:
    low, high = _PERCENT
    for at, (gpu, mask, percent) in enumerate(instances):
        if not 0 <= gpu < gpus:
            return f"instances[{at}].gpu: {gpu} is not the index of one of {gpus} GPUs"
        if not 0 < mask <= MASK_MAX:
            return f"instances[{at}].mask: {mask} is not from 1 to {MASK_MAX}"
        if not low <= percent <= high:
            return f"instances[{at}].utilization_percent: {percent} is not from {low} to {high}"
    return ""


def _indexes(field: str, indexes: Sequence[int], gpus: int) -> str:
    for at, index in enumerate(indexes):
        if not 0 <= index < gpus:
            return f"{field}[{at}]: {index} is not the index of one of {gpus} GPUs"
    return ""
