"""What a promised start is: a time, concrete nodes, and what becomes of it when plans change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.core.backfill.spare_room import BRIEF, WIDE
from shared.core.backfill.timeline import NEVER
from shared.core.model.demand import Gang
from shared.core.model.value import Value, replace

PROMISES_MAX: Final = 3
"""Workloads with a promise in a flavor at a time; others are behind these (ADR 36, 53)."""
PROMISES_FREE: Final = 2
"""So many however wide; more of them only as far as half of a flavor's nodes go (ADR 43)."""
LATE_MS: Final = 60_000
"""A start so much after the promised one is still on time."""


class Promise(Value, frozen=True, kw_only=True):
    """What one workload was promised."""

    workload_id: str
    number: int
    """From 1, below the pins of rooms (core/backfill/spare_room.py): the pin of its nodes."""
    flavor: str
    nodes: tuple[str, ...]
    start_ms: int
    """When these nodes are expected to be free: who uses them before must have ended."""
    promised_ms: int
    """What its owner was told: the start is not later."""
    until_ms: int
    """The end of it, if it starts at the latest; others wait behind."""
    missed: int = 0
    """How often the promise had to be renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """One that waits at the head: `length_ms` is None if it never ends."""

    workload_id: str
    gang: Gang
    flavors: tuple[str, ...]
    length_ms: int | None
    rooms: tuple[int, ...] = (WIDE, BRIEF)
    """Rooms on whose nodes it may begin (core/backfill/spare_room.py)."""


def compared(fresh: Promise, old: Promise | None) -> Promise:
    """The same promise with nodes of now; or another one, if it cannot be kept."""
    if old is None:
        return fresh
    if fresh.start_ms > old.promised_ms + LATE_MS:
        return replace(fresh, missed=old.missed + 1)
    if fresh.until_ms >= NEVER:
        return replace(fresh, promised_ms=old.promised_ms, missed=old.missed)
    later_ms = old.promised_ms - fresh.promised_ms
    return replace(
        fresh,
        promised_ms=old.promised_ms,
        until_ms=fresh.until_ms + max(later_ms, 0),
        missed=old.missed,
    )


def pins_of(promises: Mapping[str, Promise]) -> dict[str, Promise]:
    """By node: the first promise that wants it."""
    pins: dict[str, Promise] = {}
    for one in sorted(promises.values(), key=lambda each: (each.start_ms, each.number)):
        for node in one.nodes:
            pins.setdefault(node, one)
    return pins
