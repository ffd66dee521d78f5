"""What is in the queues now, summed up when somebody asks."""

from __future__ import annotations

from typing import Any, Final

from services.gateway.door import Door

USE_SECONDS: Final = 0.5


async def use_by_queue(door: Door) -> dict[str, list[Any]]:
    """By queue: sums of live workloads by state, flavor, priority; at most `USE_SECONDS` old."""
    now = door.clock.monotonic_seconds()
    known = door.cache.get("queues")
    if known is not None and now - known[0] < USE_SECONDS:
        remembered: dict[str, list[Any]] = known[1]
        return remembered
    rows = await door.reader.fetch(
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
    door.cache["queues"] = (now, use)
    return use
