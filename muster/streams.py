"""Server-sent events: from lines to (id, event)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any


async def events_of(lines: AsyncIterable[bytes]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Each event with its id; comments (pings) are passed over."""
    identifier, data = "", []
    async for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line.startswith("id:"):
            identifier = line[3:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line and data:
            event = json.loads("\n".join(data))
            if isinstance(event, dict):
                yield identifier, event
            data = []
