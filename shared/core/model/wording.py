"""Numbers in sentences: amounts with their unit, times, plurals, lists. For explanations only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from shared.core.model.demand import Gang, PodDemand


def count(number: int, noun: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def has(number: int) -> str:
    """The verb for so many: `1 node has`, `3 nodes have`."""
    return "has" if number == 1 else "have"


def amount(unit: str, value: int) -> str:
    """An amount with its unit, which is the end of the field's name."""
    word = {"gpu_milli": "milli-GPU", "cpu_milli": "milli-CPU", "memory_mib": "MiB of memory"}
    return f"{value} {word[unit]}"


def moment(at_ms: int) -> str:
    """Unix milliseconds as `2026-11-21 14:05:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def listing(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def pod_needs(demand: PodDemand, gang: Gang) -> str:
    """What one pod asks for, such as `8 free H100 GPUs, 96000 milli-CPU and 1024 MiB`."""
    parts = []
    products = "/".join(gang.choice.products)
    kind = f"{products} GPU" if products else "GPU"
    if demand.gpus:
        apart = " in one NUMA domain" if demand.aligned else ""
        parts.append(count(demand.gpus, f"free {kind}") + apart)
    elif demand.milli:
        parts.append(f"{demand.milli} milli of a {kind} with {demand.share_memory_mib} MiB")
    elif demand.profile:
        parts.append(f"{demand.instances} x {demand.profile} of a {kind}")
    if demand.cpu_milli:
        parts.append(f"{demand.cpu_milli} milli-CPU")
    if demand.memory_mib:
        parts.append(f"{demand.memory_mib} MiB of memory")
    return listing(parts) or "nothing but a place"
