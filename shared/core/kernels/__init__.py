"""Compiled kernels of the placement core, and the reference that decides the same (ADR 15).

A back-end takes the fleet of one flavor as arrays and works off requests: place a pod, place a
gang, give back. `back_end` picks the compiled one if numba (extra `kernels`) is installed.
`scope.decides` says which gangs it decides; the caller hands all others to `core.placement`.
"""

from __future__ import annotations

from typing import Protocol

from shared.core.kernels.arrays import Ints
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.jit import IS_COMPILED
from shared.core.kernels.reference import Reference


class BackEnd(Protocol):
    """What decides for a fleet and changes its state."""

    def run(self, requests: Ints) -> None:
        """Work off requests (n, REQUEST_COLUMNS) in order; answers are in `State.held`."""

    def mark(self) -> int:
        """A point to roll back to."""

    def roll_back(self, mark: int) -> None:
        """Undo everything since `mark`."""

    def keep(self) -> None:
        """What was done stays; marks are void."""


def back_end(fleet: Fleet) -> BackEnd:
    """The fastest that this installation has. Loads, or makes, the compiled code. O(n log n)."""
    if not IS_COMPILED:
        return Reference(fleet)
    from shared.core.kernels.compiled import Compiled  # noqa: PLC0415 - the import compiles

    return Compiled(fleet)
