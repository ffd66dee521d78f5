"""Integer amounts in named units; `UNLIMITED` absorbs whatever is added to it.

GPUs are counted in milli-GPU (1000 = one whole GPU), CPU in milli-cores, memory in MiB.
Floats never enter an amount, so sums are exact and independent of order (docs/adr/0009).
"""

from __future__ import annotations

from typing import Final

from shared.core.model.value import Value

UNLIMITED: Final = 2**62
GPU_MILLI: Final = 1000
"""One whole GPU."""
SLICES: Final = 8
"""Memory slices of a MIG-capable board; a whole GPU takes them all."""


def saturating_add(left: int, right: int) -> int:
    """Sum that stays `UNLIMITED` once either side is; never wraps. O(1)."""
    if left >= UNLIMITED or right >= UNLIMITED:
        return UNLIMITED
    return min(left + right, UNLIMITED)


def pods_within(
    pods: int,
    free_cpu_milli: int,
    cpu_milli: int | None,
    free_memory_mib: int,
    memory_mib: int | None,
) -> int:
    """`pods`, or as many as CPU and memory allow of those that ask for so much; >= 0. O(1).

    The one rule by which a node's room is limited by what is not a GPU.
    """
    if cpu_milli:
        pods = min(pods, free_cpu_milli // cpu_milli)
    if memory_mib:
        pods = min(pods, free_memory_mib // memory_mib)
    return max(pods, 0)


def shares_within(held_milli: int, free_memory_mib: int, milli: int, memory_mib: int) -> int:
    """How many shares of `milli` (> 0) and `memory_mib` a GPU takes beside `held_milli`. O(1)."""
    shares = (GPU_MILLI - held_milli) // milli
    if memory_mib:
        shares = min(shares, free_memory_mib // memory_mib)
    return max(shares, 0)


class Resources(Value, frozen=True, kw_only=True):
    """An amount of GPU, CPU and memory; each is >= 0 in a request, and may be `UNLIMITED`."""

    gpu_milli: int = 0
    """GPUs in thousandths: 1000 is one whole GPU."""
    cpu_milli: int = 0
    """CPU in thousandths of a core."""
    memory_mib: int = 0
    """Memory in MiB."""

    def __add__(self, other: Resources) -> Resources:
        """Sum by unit, saturating at `UNLIMITED`."""
        return Resources(
            gpu_milli=saturating_add(self.gpu_milli, other.gpu_milli),
            cpu_milli=saturating_add(self.cpu_milli, other.cpu_milli),
            memory_mib=saturating_add(self.memory_mib, other.memory_mib),
        )

    def __sub__(self, other: Resources) -> Resources:
        """Difference by unit; `UNLIMITED` stays so, other results may be negative."""
        return Resources(
            gpu_milli=_minus(self.gpu_milli, other.gpu_milli),
            cpu_milli=_minus(self.cpu_milli, other.cpu_milli),
            memory_mib=_minus(self.memory_mib, other.memory_mib),
        )

    def times(self, count: int) -> Resources:
        """`count` (>= 0) copies of this amount, saturating."""
        return Resources(
            gpu_milli=min(self.gpu_milli * count, UNLIMITED),
            cpu_milli=min(self.cpu_milli * count, UNLIMITED),
            memory_mib=min(self.memory_mib * count, UNLIMITED),
        )

    def fits_in(self, limit: Resources) -> bool:
        """Whether no unit exceeds `limit`."""
        return (
            self.gpu_milli <= limit.gpu_milli
            and self.cpu_milli <= limit.cpu_milli
            and self.memory_mib <= limit.memory_mib
        )


UNBOUNDED: Final = Resources(gpu_milli=UNLIMITED, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)
NOTHING: Final = Resources()


def _minus(left: int, right: int) -> int:
    return UNLIMITED if left >= UNLIMITED else left - right
