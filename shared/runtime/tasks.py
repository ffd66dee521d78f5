"""Ending the tasks that run beside something."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel `tasks`, wait for them, and take what they raised.

    What nothing takes is told by asyncio on stderr, before the sentence that says what ended the
    process.
    """
    ended = list(tasks)
    for task in ended:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)
