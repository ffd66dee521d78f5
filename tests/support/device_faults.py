"""Random faults of devices, beside everything else that a kill test does (ADR 88).

Errors of every class, devices that are lost and that come back, resets, checks that fail. In the
end every device answers and operators vouch for all nodes, so that what waits has room again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tests.support.disturbances import DRAINING_XIDS, Disturbances

GPUS: Final = 8
PAUSE_SECONDS: Final = (0.05, 0.4)
UNCORDON_EACH: Final = 12
"""After so many faults an operator vouches for a node: else the fleet would be empty soon."""
KINDS: Final[Mapping[str, Sequence[int]]] = {
    "xid": (*DRAINING_XIDS, 13, 31, 45, 54, 63, 74, 79, 94, 109, 151, 9_999),
    "recovery-action": (0, 0, 1, 4, 6),
    "double-bit-ecc": (1,),
    "row-remap-pending": (1, 0),
    "lost": (0,),
    "returned": (0, 0, 0),
    "hot": (90,),
    "overheated": (95,),
    "nvlink-failed": (1,),
    "check-passed": (20,),
    "check-failed": (1,),
}
"""Codes by kind of event."""


class DeviceFaults:
    """`count` faults, one after the other, on nodes drawn from a seed."""

    def __init__(
        self, disturbances: Disturbances, nodes: Sequence[str], *, count: int, seed: int
    ) -> None:
        self.done: Counter[str] = Counter()
        self._disturbances = disturbances
        self._nodes = list(nodes)
        self._count = count
        self._random = random.Random(f"devices/{seed}")

    async def run(self) -> None:
        """Until all have happened, and all is whole again."""
        touched: set[str] = set()
        for number in range(1, self._count + 1):
            node, gpu = self._random.choice(self._nodes), self._random.randrange(GPUS)
            kind = self._random.choice(list(KINDS))
            code = self._random.choice(KINDS[kind])
            await self._disturbances.fleet(f"{node}/gpus/{gpu}/tell?kind={kind}&code={code}")
            self.done[kind] += 1
            touched.add(node)
            if number % UNCORDON_EACH == 0:
                await self._disturbances.order(self._random.choice(self._nodes), "uncordon")
            await asyncio.sleep(self._random.uniform(*PAUSE_SECONDS))
        await self._heal(sorted(touched))

    async def _heal(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            for gpu in range(GPUS if self._count else 0):
                await self._disturbances.fleet(f"{node}/gpus/{gpu}/tell?kind=returned&code=0")
        await asyncio.sleep(2.0)
        for node in nodes:
            await self._disturbances.order(node, "uncordon")
