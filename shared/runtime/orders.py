"""Commands to node agents, followed from the log and carried out.

The topic is read from its beginning at each start: an expired command is passed over, and
one that was carried out already changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from shared.events.codec import Malformed, decode
from shared.events.nodes import CheckGpu, ReconfigureGpu
from shared.events.topics import AGENT_COMMANDS
from shared.ports.errors import Transient
from shared.ports.publisher import RawMessage, Subscription

POLL_MESSAGES: Final = 100
POLL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 1.0


AgentCommand = ReconfigureGpu | CheckGpu


class Orders:
    """Reads the commands of one cell, and has each carried out before it reads on.

    `obey` passes over commands to other nodes, and those that are expired or carried out already.
    """

    def __init__(self, obey: Callable[[AgentCommand], Awaitable[None]]) -> None:
        self._obey = obey

    async def follow(self, subscription: Subscription, cell: int) -> None:
        """Obey until cancelled; a broker that is away is waited for, and all is read again."""
        while True:
            try:
                await subscription.assign({(AGENT_COMMANDS.name, cell): None})
                while True:
                    for raw in await subscription.poll(POLL_MESSAGES, POLL_SECONDS):
                        with suppress(Malformed):
                            await self.carry_out(raw)
            except Transient:
                await asyncio.sleep(RETRY_SECONDS)

    async def carry_out(self, raw: RawMessage) -> None:
        """Carry out one command; raises Malformed for what is none."""
        payload = decode(
            raw.topic, raw.partition, raw.offset, raw.headers, raw.value
        ).event.payload
        if isinstance(payload, AgentCommand):
            await self._obey(payload)
