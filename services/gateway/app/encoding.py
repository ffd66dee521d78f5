"""Many rows as JSON, in pieces: a page of 1,000 takes 25 ms, in which nothing else is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from shared.events.written_out import written_out

ROWS_AT_ONCE: Final = 50
Item = TypeVar("Item")
_json: Final = msgspec.json.Encoder()


async def encoded(
    rows: Iterable[Item], view: Callable[[Item], msgspec.Struct]
) -> list[msgspec.Raw]:
    """The JSON of each row's view; other requests go on after every `ROWS_AT_ONCE` of them."""
    texts = []
    for number, row in enumerate(rows, 1):
        texts.append(msgspec.Raw(_json.encode(written_out(view(row)))))
        if number % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return texts
