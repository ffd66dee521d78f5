"""The right to write for one (service, shard), one holder at a time."""

from __future__ import annotations

from typing import Protocol


class Lease(Protocol):
    """A lease; its epoch goes into every row that the holder writes."""

    async def try_acquire(self) -> bool:
        """Take it if it is free or was this slot's; every time with a higher epoch.

        Raises:
            SlotTaken: another process of this slot has it and renews it.
        """
        ...

    async def renew(self) -> int:
        """Keep it; the store's Unix time in ms. Raises LeaseLost when another has it."""
        ...

    async def release(self) -> None:
        """Give it up before it expires."""
        ...
