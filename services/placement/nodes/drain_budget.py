"""How much of each flavor rules may still take out of service by themselves (core/health/breaker).

What the ladder took out before a restart is known by the rows of its devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.placement.state.fleet import Fleet
from shared.core.health.breaker import DEFAULT_BREAKER, HOUR_MS, BreakerLimits, may_drain
from shared.core.health.device import TAKES_WORK, DeviceHealth, DeviceState
from shared.core.model.nouns import Node

TIMES_MAX: Final = 10_000
"""More than the breaker ever allows within an hour."""
_RETURNS: Final = TAKES_WORK | {DeviceState.PROBATION}


class DrainBudget:
    """Of one cell. `acts` false: nothing is ever taken out."""

    def __init__(
        self, fleet: Fleet, limits: BreakerLimits = DEFAULT_BREAKER, *, acts: bool
    ) -> None:
        self._fleet, self._limits = fleet, limits
        self._acts = acts
        self._times_ms: dict[str, list[int]] = {}
        """When GPUs were taken out, by flavor."""

    def load(self, devices: Iterable[DeviceHealth]) -> None:
        """What was taken out before; after the nodes."""
        for one in devices:
            node = self._fleet.present.get(one.node)
            if node is not None and one.gpu >= 0 and one.state not in _RETURNS:
                out_ms = one.quarantines_ms[-1] if one.quarantines_ms else one.since_ms
                self._times_ms.setdefault(node.flavor, []).append(out_ms)

    def take(self, node: Node, gpus: int, now_ms: int) -> bool:
        """Whether so many GPUs of a node may be taken out; then they count.

        O(GPUs taken out within the hour), and O(nodes) once they are as many as the smallest
        fleet may lose.
        """
        times = [one for one in self._times_ms.get(node.flavor, ()) if now_ms - one < HOUR_MS]
        allowed = self._acts and (
            may_drain(times, gpus, 0, now_ms, self._limits)
            or may_drain(times, gpus, self._gpus_of(node.flavor), now_ms, self._limits)
        )
        if allowed:
            self._times_ms[node.flavor] = [*times, *[now_ms] * gpus][-TIMES_MAX:]
        return allowed

    def _gpus_of(self, flavor: str) -> int:
        nodes = self._fleet.present.values()
        return sum(len(one.gpus) for one in nodes if one.flavor == flavor)
