"""MIG instances of a node, a device or a flavor as text: how many of each profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.cli.output import Column

Json = dict[str, Any]


def columns(items: Sequence[Json], *, rank: int) -> tuple[Column, ...]:
    """What is held and what there is room for; none where nothing is in MIG mode."""
    if not any(item.get("mig_profiles") for item in items):
        return ()
    return (
        Column("MIG USED", lambda one: _counted(one, "used"), rank=rank),
        Column("MIG FREE", lambda one: _counted(one, "free"), rank=rank + 1),
    )


def _counted(item: Json, which: str) -> str:
    """Such as "3x1g.10gb,1x3g.40gb"; of what is free, each as if it came alone."""
    counts = ((one[which], one["profile"]) for one in item.get("mig_profiles") or ())
    return ",".join(f"{count}x{profile}" for count, profile in counts if count) or "-"
