"""From raw records to the messages of a batch: decode, set the malformed aside, drop duplicates.

What is on a team's own topic is read by `submission_intake.py`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.events.codec import Malformed, decode, decode_payload, type_of
from shared.events.envelope import Event, Received
from shared.events.topics import NEWEST_ONLY, team_of
from shared.ports.publisher import RawMessage
from shared.runtime.assemble import DeadLetter
from shared.runtime.dedupe import RecentIds
from shared.runtime.submission_intake import malformed_submission, refuse_unreadable, submission

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Small letters only: as the database gives them back, or a duplicate would not be seen."""

Seen = Callable[[Sequence[str]], Awaitable[set[str]]]


@dataclass(slots=True)
class Batch:
    """What one poll came to."""

    fresh: list[Received] = field(default_factory=list)
    skipped: list[tuple[str, int, int]] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    duplicates: int = 0
    unreadable: int = 0
    """Samples that cannot be read: the next one takes their place, so none is a dead letter."""

    def refuse(self, message: RawMessage, error: Malformed) -> None:
        """A message that can never be processed; its offset is noted."""
        if message.topic in NEWEST_ONLY:
            self.unreadable += 1
        else:
            self.dead.append(dead_letter(message, str(error)))
        self.skipped.append((message.topic, message.partition, message.offset))


async def sort_out(
    raw: Sequence[RawMessage],
    recent: RecentIds,
    seen: Seen,
    passed_over: Collection[bytes] = frozenset(),
    since_ms: Callable[[str], int] = lambda _: 0,
) -> Batch:
    """Decode `raw` in order; `seen` asks the inbox for ids that memory may have forgotten.

    Of messages with a `ce_type` in `passed_over`, or from before `since_ms` of their topic, only
    the offset is noted; on a team's own topic nothing is passed over in silence.
    """
    batch = Batch()
    decoded: list[Received] = []
    for message in raw:
        team = team_of(message.topic)
        if team is None and (
            (passed_over and type_of(message.headers) in passed_over)
            or message.timestamp_ms < since_ms(message.topic)
        ):
            batch.skipped.append((message.topic, message.partition, message.offset))
            continue
        try:
            decoded.append(_decode(message) if team is None else submission(message))
        except Malformed as error:
            if team is None:
                batch.refuse(message, error)
            else:
                batch.dead.append(dead_letter(message, str(error)))
                decoded.append(malformed_submission(message, error))
    known = await handled_before(decoded, recent, seen)
    for one in decoded:
        if one.event.id in known:
            batch.skipped.append((one.topic, one.partition, one.offset))
            batch.duplicates += 1
        else:
            known.add(one.event.id)
            batch.fresh.append(one)
    return batch


async def handled_before(messages: Sequence[Received], recent: RecentIds, seen: Seen) -> set[str]:
    """Ids of those that were handled; the inbox is asked for what memory may have forgotten."""
    ids = [one.event.id for one in messages if one.topic not in NEWEST_ONLY]
    doubtful = [one for one in ids if recent.uncertain(one)]
    known = await seen(doubtful) if doubtful else set()
    return known.union(one for one in ids if one in recent)


def payloads_of(raw: Sequence[RawMessage], passed_over: Collection[bytes]) -> Batch:
    """For a handler that goes by versions: payloads with their type, duplicates among them.

    The attributes of the envelope, which cost most of the decoding, are left where they are; the
    place in the log stands for the id.
    """
    batch = Batch()
    for message in raw:
        kind = type_of(message.headers)
        place = (message.topic, message.partition, message.offset)
        if kind in passed_over:
            batch.skipped.append(place)
            continue
        try:
            refuse_unreadable(message)
            batch.fresh.append(_bare(message, kind))
        except Malformed as error:
            batch.refuse(message, error)
    return batch


def _bare(message: RawMessage, kind: bytes | None) -> Received:
    name = (kind or b"").decode(errors="replace")
    event = Event(
        id=f"{message.topic}/{message.partition}/{message.offset}",
        type=name,
        source="",
        subject="",
        time_ms=message.timestamp_ms,
        key="",
        payload=decode_payload(name, message.value),
    )
    return Received(
        event=event, topic=message.topic, partition=message.partition, offset=message.offset
    )


def dead_letter(message: RawMessage, error: str) -> DeadLetter:
    """`message` with the reason why it can never be processed."""
    return DeadLetter(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.key.decode(errors="replace"),
        headers=tuple((name, value or b"") for name, value in message.headers),
        value=message.value,
        error=error,
    )


def _decode(message: RawMessage) -> Received:
    refuse_unreadable(message)
    received = decode(
        message.topic,
        message.partition,
        message.offset,
        message.headers,
        message.value,
        logged_ms=message.timestamp_ms,
    )
    _check_id(received.event.id)
    return received


def _check_id(identifier: str) -> None:
    if _UUID.fullmatch(identifier) is None:
        raise Malformed(f"ce_id: {identifier[:80]!r} is not a UUID")
