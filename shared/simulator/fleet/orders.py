"""Commands to node agents, carried out on the machines of the fleet.

The topic is read from its beginning at each start: an expired command is passed over, and
one that was carried out already changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from shared.events.codec import Malformed, decode
from shared.events.nodes import ReconfigureGpu
from shared.events.topics import AGENT_COMMANDS
from shared.ports.clock import Clock
from shared.ports.errors import Transient
from shared.ports.publisher import RawMessage, Subscription
from shared.simulator.machine import Machine

POLL_MESSAGES: Final = 100
POLL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 1.0


class Orders:
    """Reads the commands of one cell; `poke` lets the change be told at once."""

    def __init__(
        self, machines: Mapping[str, Machine], *, clock: Clock, poke: Callable[[], None]
    ) -> None:
        self._machines = machines
        self._clock = clock
        self._poke = poke

    async def follow(self, subscription: Subscription, cell: int) -> None:
        """Obey until cancelled; a broker that is away is waited for, and all is read again."""
        while True:
            try:
                await subscription.assign({(AGENT_COMMANDS.name, cell): None})
                while True:
                    for raw in await subscription.poll(POLL_MESSAGES, POLL_SECONDS):
                        with suppress(Malformed):
                            self.obey(raw)
            except Transient:
                await asyncio.sleep(RETRY_SECONDS)

    def obey(self, raw: RawMessage) -> None:
        """Carry out one command; raises Malformed for what is none."""
        payload = decode(
            raw.topic, raw.partition, raw.offset, raw.headers, raw.value
        ).event.payload
        if not isinstance(payload, ReconfigureGpu):
            return
        machine = self._machines.get(payload.node)
        if machine is not None and machine.obey(payload, self._clock.now_ms()):
            self._poke()
