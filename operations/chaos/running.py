"""Carries plans out: each fault at its time, told as it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from operations.chaos.faults import Strike
from operations.chaos.places import Place
from operations.chaos.scenario import Planned
from operations.failures import Failure
from shared.ports.clock import Clock

Make = Callable[[Strike, Place], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]


async def run(
    plan: Sequence[Planned],
    make: Make,
    tell: Callable[[str], None],
    clock: Clock,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Make every fault of a plan, in order.

    Raises:
        Failure: one could not be made; those after it were not tried.
    """
    began = clock.monotonic_seconds()
    for number, one in enumerate(plan, 1):
        await sleep(max(began + one.at_s - clock.monotonic_seconds(), 0))
        try:
            await make(one.strike, one.place)
        except Failure as failure:
            raise Failure(
                f"step {number} of {len(plan)} ({one.strike.what}): {failure}"
            ) from failure
        tell(f"{line_of(one)}  [{number}/{len(plan)}]")


def line_of(one: Planned) -> str:
    """A fault of a plan, for people."""
    lasts = f" for {one.strike.for_s} s" if one.strike.for_s else ""
    return f"{one.at_s:8.1f} s  {one.strike.what}{lasts}: {one.strike.place}"
