"""What each queue used over time, with a half-life: the third word of the order (mission Q3).

The decayed use of a queue at time T is the integral of its milli-GPU over all the past, each
millisecond t weighing 2^((t - T) / half-life). With H the half-life and G(t) = 2^(t/H) H/ln 2, a
rate r that begins at t adds r (G(T) - G(t)) / 2^(T/H) to it. So the sums of r and of r G(t) over
all changes of the rate say everything: reading changes nothing, a fact costs O(1), facts may come
in any order, and decay in many steps is decay at once, because no step is ever stored.

Kueue (KEP-4136) and KAI sample instead, and lost what ran between two samples; Slurm's half-life
is the model. Numbers are integers, weights have 64 binary digits behind the point: a change of
the rate errs by less than 2^-58 of `rate x H`, a move of the origin by one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final

HALF_LIFE_MS: Final = 7 * 86_400_000
HALF_LIFE_MS_MIN: Final = 60_000
HALF_LIFE_MS_MAX: Final = 366 * 86_400_000
GPU_SECOND: Final = 1_000 * 1_000
"""Milli-GPU milliseconds in a second of one GPU."""
_BITS: Final = 64
_GUARD_BITS: Final = 96
_LN2: Final = 12_786_308_645_202_655_659
"""ln 2 with 64 binary digits."""
_REBASE_HALVINGS: Final = 64
"""An origin is left behind when the present is so many half-lives away from it."""


@dataclass(slots=True, kw_only=True)
class Account:
    """The use of one queue: its present rate (milli-GPU), and all changes of it, weighted.

    `weighted` is the sum of change x G(time), G counted from `origin`, in half-lives since 1970.
    """

    rate: int = 0
    weighted: int = 0
    origin: int = 0


class UsageHistory:
    """Accounts by queue under one half-life."""

    __slots__ = ("accounts", "half_life_ms")

    def __init__(self, half_life_ms: int = HALF_LIFE_MS) -> None:
        if not HALF_LIFE_MS_MIN <= half_life_ms <= HALF_LIFE_MS_MAX:
            limits = f"{HALF_LIFE_MS_MIN} to {HALF_LIFE_MS_MAX}"
            raise ValueError(f"half_life_ms {half_life_ms} is not {limits}")
        self.half_life_ms = half_life_ms
        self.accounts: dict[str, Account] = {}

    def change(self, queue: str, at_ms: int, gpu_milli: int) -> None:
        """From `at_ms` on the queue uses `gpu_milli` more (or less). O(1)."""
        if not gpu_milli:
            return
        halvings = at_ms // self.half_life_ms
        account = self.accounts.get(queue)
        if account is None:
            account = self.accounts[queue] = Account(origin=halvings)
        elif halvings - account.origin >= _REBASE_HALVINGS:
            account.weighted >>= halvings - account.origin
            account.origin = halvings
        account.rate += gpu_milli
        account.weighted += gpu_milli * self._grown(at_ms, account.origin)

    def at(self, queue: str, at_ms: int) -> int:
        """Decayed milli-GPU milliseconds at `at_ms`, not before the last change. O(1)."""
        return max(0, self.balance(queue, at_ms))

    def balance(self, queue: str, at_ms: int) -> int:
        """The same of rates that may be negative, and so may it."""
        account = self.accounts.get(queue)
        if account is None:
            return 0
        total = account.rate * self._grown(at_ms, account.origin) - account.weighted
        return total // self._power(at_ms, account.origin)

    def restore(self, queue: str, account: Account) -> None:
        """Put back what was stored."""
        self.accounts[queue] = account

    def begin(self, queue: str, at_ms: int, used: int, rate: int) -> None:
        """An account that stands at `used` at `at_ms`: what another half-life made of it."""
        origin = at_ms // self.half_life_ms
        weighted = rate * self._grown(at_ms, origin) - used * self._power(at_ms, origin)
        self.accounts[queue] = Account(rate=rate, weighted=weighted, origin=origin)

    def _grown(self, at_ms: int, origin: int) -> int:
        """G(at_ms) = 2^(t/H) H/ln 2 in milliseconds, with 64 binary digits."""
        return (self._power(at_ms, origin) * self.half_life_ms << _BITS) // _LN2

    def _power(self, at_ms: int, origin: int) -> int:
        """2^(t/H) counted from the origin, with 64 binary digits."""
        halvings, rest = divmod(at_ms, self.half_life_ms)
        power = exp2((rest << _BITS) // self.half_life_ms)
        halvings -= origin
        return power << halvings if halvings >= 0 else power >> -halvings


def decayed(used: int, age_ms: int, half_life_ms: int) -> int:
    """What is left of `used` after `age_ms` (>= 0) without use."""
    halvings, rest = divmod(age_ms, half_life_ms)
    return (used << _BITS) // exp2((rest << _BITS) // half_life_ms) >> halvings


def exp2(fraction: int) -> int:
    """2^(fraction / 2^64) for a fraction of [0, 2^64), with 64 binary digits; errs by < 2^-60."""
    power = 1 << _GUARD_BITS
    for table in _POWERS:
        power = power * table[fraction & 255] >> _GUARD_BITS
        fraction >>= 8
    return power >> _GUARD_BITS - _BITS


def _tables() -> tuple[tuple[int, ...], ...]:
    """For each byte of a fraction, from the lowest, 2 to the power of each of its values."""
    roots = []
    root = 2 << _GUARD_BITS
    for _ in range(_BITS):
        root = isqrt(root << _GUARD_BITS)
        roots.append(root)
    return tuple(
        tuple(_product(roots[first : first + 8], value) for value in range(256))
        for first in range(_BITS - 8, -8, -8)
    )


def _product(roots: Sequence[int], value: int) -> int:
    """The product of the roots with a set bit in `value`; the first root has the highest bit."""
    power = 1 << _GUARD_BITS
    for place, root in enumerate(roots):
        if value >> 7 - place & 1:
            power = power * root >> _GUARD_BITS
    return power


_POWERS: Final = _tables()
