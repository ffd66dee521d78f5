"""Server-sent events: from lines to (id, event)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class _Block:
    """The lines up to an empty one; the id is kept from block to block."""

    id: str = ""
    name: str = ""
    data: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Take one line; comments (pings) and unknown fields are passed over."""
        name, _, value = line.partition(":")
        if name == "id":
            self.id = value.strip()
        elif name == "event":
            self.name = value.strip()
        elif name == "data":
            self.data.append(value.strip())

    def value(self) -> Any:  # noqa: ANN401  # any JSON
        """What its data says."""
        return json.loads("\n".join(self.data)) if self.data else None


async def events_of(lines: AsyncIterable[bytes]) -> AsyncIterator[tuple[str, Json | None]]:
    """Each event with its id; None in place of an event where only an id to go on from is told.

    At `event: resync` it ends with that id: the server has passed over what lay behind it, so
    that it must be asked again. Other events that have a name are passed over.
    """
    block, told = _Block(), ""
    async for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line:
            block.add(line)
            continue
        value = block.value()
        if block.name == "resync":
            yield _resumed_at(value) or block.id, None
            return
        if not block.name and (isinstance(value, dict) or (value is None and block.id != told)):
            yield block.id, value
        block, told = _Block(id=block.id), block.id


def _resumed_at(value: Any) -> str:  # noqa: ANN401  # any JSON
    return str(value.get("after", "")) if isinstance(value, dict) else ""
