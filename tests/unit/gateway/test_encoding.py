"""Pages of many rows are encoded in pieces."""

from __future__ import annotations

import asyncio

import msgspec

from services.gateway.app.encoding import ROWS_AT_ONCE, encoded


class Number(msgspec.Struct):
    """A view."""

    number: int
    kind: str = "n"


async def test_other_work_goes_on_between_the_pieces_of_a_page():
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(made[-1] if made else 0)
            await asyncio.sleep(0)

    made: list[int] = []

    def view(number: int) -> Number:
        made.append(number)
        return Number(number)

    beside = asyncio.create_task(other())
    texts = await encoded(range(1, 3 * ROWS_AT_ONCE + 2), view)
    beside.cancel()

    assert [ROWS_AT_ONCE, 2 * ROWS_AT_ONCE, 3 * ROWS_AT_ONCE] == [one for one in turns if one]
    assert b'{"number":1,"kind":"n"}' == bytes(texts[0])
    assert 3 * ROWS_AT_ONCE + 1 == len(texts)
