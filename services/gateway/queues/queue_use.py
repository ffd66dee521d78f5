"""What is in the queues now, summed up on request."""

from __future__ import annotations

from typing import Any, Final

from services.gateway.app.context import GatewayContext
from shared.core.model.units import GPU_MILLI

USE_SECONDS: Final = 0.5
GPUS_SECONDS: Final = 1.0
_GPUS: Final = (
    "SELECT n.flavor, sum(n.gpus)::bigint AS gpus FROM gateway.node n"
    " LEFT JOIN gateway.node_cordon c ON c.node = n.name"
    " WHERE NOT n.removed AND coalesce(c.reason, '') = '' GROUP BY n.flavor"
)


async def use_by_queue(gateway: GatewayContext) -> dict[str, list[Any]]:
    """By queue: sums of live workloads by state, flavor, priority; at most `USE_SECONDS` old."""
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("queues")
    if known is not None and now - known[0] < USE_SECONDS:
        remembered: dict[str, list[Any]] = known[1]
        return remembered
    rows = await gateway.reader.fetch(
        "SELECT queue, state, flavor, priority, count(*) AS count,"
        " coalesce(sum(gpu_milli), 0)::bigint AS asked,"
        " coalesce(sum(charge_gpu_milli), 0)::bigint AS gpu_milli,"
        " coalesce(sum(charge_cpu_milli), 0)::bigint AS cpu_milli,"
        " coalesce(sum(charge_memory_mib), 0)::bigint AS memory_mib"
        " FROM gateway.workload WHERE live GROUP BY queue, state, flavor, priority"
    )
    use: dict[str, list[Any]] = {}
    for row in rows:
        use.setdefault(row["queue"] or "", []).append(row)
    gateway.cache["queues"] = (now, use)
    return use


async def free_gpu_milli(gateway: GatewayContext, flavor: str) -> int:
    """Free GPUs of a flavor on nodes that take work, at most a second old."""
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("gpus")
    if known is None or now - known[0] >= GPUS_SECONDS:
        rows = await gateway.reader.fetch(_GPUS)
        known = gateway.cache["gpus"] = (now, {row["flavor"]: row["gpus"] for row in rows})
    use = (row for rows in (await use_by_queue(gateway)).values() for row in rows)
    held_milli = sum(row["gpu_milli"] for row in use if row["flavor"] == flavor)
    gpus: dict[str, int] = known[1]
    return max(gpus.get(flavor, 0) * GPU_MILLI - int(held_milli), 0)
