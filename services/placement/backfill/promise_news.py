"""What is told of promises: the start in a refusal, and that a promise was not kept in time."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from shared.core.backfill.promise import LATE_MS, Promise
from shared.core.backfill.timeline import NEVER
from shared.core.model.decision import Refusal
from shared.core.model.value import Value, replace
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

DUE: Final = "promise"
"""Kind of the message of a promise that was not kept in time."""


def _with_promise(refusal: Refusal, promise: Promise) -> Refusal:
    """The refusal of one that waits for its promised start."""
    start = datetime.fromtimestamp(promise.promised_ms / 1000, UTC)
    count = len(promise.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    message = (
        f"{refusal.message.rstrip('.')}. It is expected to start by {start:%Y-%m-%d %H:%M} UTC,"
        f" on {nodes} kept for it, if what runs there ends in time and nothing takes its quota."
    )
    evidence = {"promised_start_ms": promise.promised_ms, "promised_nodes": count}
    return replace(refusal, message=message, evidence=refusal.evidence | evidence)


class BrokenCause(StrEnum):
    """Why a promise is not kept."""

    QUOTA = "quota"
    NODES = "nodes"


_IN_WORDS: Final = {
    BrokenCause.QUOTA: "others that go before it took the quota that it was to have",
    BrokenCause.NODES: (
        "the nodes that were kept for it are not free by then, as what runs there goes on for"
        " longer than expected or a node takes no work"
    ),
}


class Broken(Value, frozen=True, kw_only=True):
    """A promise that its owner was told, and that is not kept."""

    workload_id: str
    promised_ms: int
    cause: BrokenCause


def _with_broken(refusal: Refusal, broken: Broken) -> Refusal:
    """The refusal of a workload, with the promise to it that is not kept."""
    start = datetime.fromtimestamp(broken.promised_ms / 1000, UTC)
    message = (
        f"{refusal.message.rstrip('.')}. The start promised for {start:%Y-%m-%d %H:%M} UTC is not"
        f" kept: {_IN_WORDS[broken.cause]}."
    )
    evidence = {"broken_promise_ms": broken.promised_ms}
    return replace(refusal, message=message, evidence=refusal.evidence | evidence)


def with_news(refusal: Refusal, promise: Promise | None, broken: Broken | None) -> Refusal:
    """The refusal of a workload, with the start that it is promised, and the one not kept."""
    told = _with_promise(refusal, promise) if promise is not None else refusal
    return _with_broken(told, broken) if broken is not None else told


def is_news(promise: Promise, told_ms: int | None) -> bool:
    """Whether the start is another than was told, by more than may be late."""
    return told_ms is None or abs(promise.promised_ms - told_ms) > LATE_MS


def next_due_ms(promises: Collection[Promise], room_ms: int | None) -> int | None:
    """When the first promise is broken, or room for short work is to be chosen anew."""
    promised_ms = min((one.promised_ms + LATE_MS for one in promises), default=NEVER)
    due_ms = min(promised_ms, NEVER if room_ms is None else room_ms)
    return due_ms if due_ms < NEVER else None


def due_messages(
    promises: Collection[Promise], room_ms: int | None, now_ms: int
) -> list[Received]:
    """A message for each promise that was not kept, and one for the room."""
    broken = [
        deadline_message(DUE, one.workload_id, one.missed, one.promised_ms + LATE_MS)
        for one in promises
        if one.promised_ms + LATE_MS <= now_ms
    ]
    if room_ms is not None and room_ms <= now_ms:
        broken.append(deadline_message(DUE, "spare-room", 0, room_ms))
    return broken
