"""Commands to this node: an idle GPU changes between whole and MIG mode, one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from services.node_agent.live_probe import LiveProbe
from shared.events.nodes import ReconfigureGpu
from shared.ports.clock import Clock

log = structlog.get_logger("orders")


def obeying(probe: LiveProbe, clock: Clock) -> Callable[[ReconfigureGpu], Awaitable[None]]:
    """What carries out a command to the node of `probe`; the next inventory answers it."""

    async def obey(order: ReconfigureGpu) -> None:
        if order.node != probe.name or clock.now_ms() > order.expires_at_ms:
            return
        gpu = next((one for one in probe.inventory().gpus if one.index == order.gpu), None)
        if gpu is None or gpu.mig == order.mig or order.uuid not in ("", gpu.uuid):
            return
        problem = await probe.set_mig(gpu, mig=order.mig)
        if problem:
            log.warning("mode not changed", gpu=order.gpu, mig=order.mig, problem=problem)

    return obey
