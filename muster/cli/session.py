"""What every command shares: the options before it, and a client for its coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from muster.client import AsyncClient

Answer = TypeVar("Answer")
TRIES_MAX = 4


@dataclass(slots=True)
class Options:
    """`--address`, `--key` and `--context` of this call."""

    address: str | None = None
    key: str | None = None
    context: str | None = None
    """None: no kubeconfig is read; "": its current context."""


OPTIONS = Options()
"""Set once by the callback of the application, before any command."""


def call(work: Callable[[AsyncClient], Awaitable[Answer]]) -> Answer:
    """Run a coroutine with a client and close it."""

    async def run() -> Answer:
        async with AsyncClient(
            OPTIONS.address, OPTIONS.key, context=OPTIONS.context, tries_max=TRIES_MAX
        ) as client:
            return await work(client)

    return asyncio.run(run())


def now_ms() -> int:
    """Unix time in milliseconds, to show ages."""
    import time

    return int(time.time() * 1000)  # noqa: TID251  # a user's clock; nothing is decided by it
