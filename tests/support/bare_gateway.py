"""The real application of the gateway on a port, without a broker and a database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from services.gateway.api.server import application
from services.gateway.documents.documents import Organisation
from services.gateway.http.authorisation import Role, Subject
from services.gateway.http.connections import ConnectionLimits
from services.gateway.http.read_cost import ReadLimits
from services.gateway.http.read_turns import ReadTurns
from services.gateway.protocol import OpenConnections, Runner
from shared.adapters.clock import SystemClock
from shared.adapters.memory import ManualClock

ANY_READS = ReadLimits(key_tokens=0, team_tokens=0, in_hand=0)
WIDE = ConnectionLimits(most=1_000, of_peer=1_000)


class Parts:
    """What a door needs: whoever has a key is an operator, and `organisation` is applied."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.organisation = Organisation()

    async def authenticate(self, text: str) -> Subject:
        return Subject(name=text[:2], team="", role=Role.OPERATOR)

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        return []

    async def current(self) -> Organisation:
        return self.organisation

    refresh = current

    def exception(self, event: str, **fields: Any) -> None:
        self.failed.append(f"{event}: {fields['error']}")


@contextlib.asynccontextmanager
async def served(parts: Parts, limits: ConnectionLimits = WIDE, **more: Any) -> AsyncIterator[int]:
    """The port of the real application; `more` are further parts of its door."""
    usual = {
        "clock": ManualClock(), "log": parts, "keys": parts, "reader": parts,
        "organisation": parts, "settings": SimpleNamespace(cell=0), "cache": {},
        "organising": asyncio.Lock(), "reads": ReadTurns(ANY_READS, SystemClock()),
        "kubernetes": None,
    }  # fmt: skip
    door = SimpleNamespace(**(usual | more))
    connections = OpenConnections(limits, parts)  # type: ignore[arg-type]  # parts
    runner = Runner(application(door), connections, access_log=None)  # type: ignore[arg-type]  # parts
    sweeping = asyncio.create_task(connections.sweep_forever())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        sweeping.cancel()
        await runner.cleanup()
