"""Commands to this node: an idle GPU changes between whole and MIG mode, or is checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from services.node_agent.checks import Checks
from services.node_agent.live_probe import LiveProbe
from shared.events.nodes import CheckGpu
from shared.ports.clock import Clock
from shared.runtime.orders import AgentCommand

log = structlog.get_logger("orders")


def obeying(
    probe: LiveProbe, clock: Clock, checks: Checks
) -> Callable[[AgentCommand], Awaitable[None]]:
    """What carries out a command to the node of `probe`; an inventory or an event answers it."""

    async def obey(order: AgentCommand) -> None:
        if order.node != probe.name or clock.now_ms() > order.expires_at_ms:
            return
        if isinstance(order, CheckGpu):
            checks.order(order)
            return
        gpu = next((one for one in probe.inventory().gpus if one.index == order.gpu), None)
        if gpu is None or gpu.mig == order.mig or order.uuid not in ("", gpu.uuid):
            return
        problem = await probe.set_mig(gpu, mig=order.mig)
        if problem:
            log.warning("mode not changed", gpu=order.gpu, mig=order.mig, problem=problem)

    return obey
