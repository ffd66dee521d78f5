"""Where reading goes on in each partition, and whether all that is unread is still there.

An offset means something in one topic only: in one that was deleted and made again under its name
reading begins at 0. In the same topic the offset must lie between the beginning and the end of the
log, or records are gone (ADR 83). Pure, but for what it remembers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from shared.events.topics import NEWEST_ONLY
from shared.ports.errors import LogLost
from shared.ports.publisher import PartitionLog
from shared.ports.store import Restored

Place = tuple[str, int]
"""Topic and partition."""

NEXT_STEP: Final = (
    "restore the records and restart the service, or accept the loss and let it read the log from"
    " its beginning, without what it has handled already"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The stored offset of the next record, in the topic with this id ("": not known)."""

    next_offset: int
    topic_id: str = ""


def offset_in(log: PartitionLog, stored: Position | None) -> int:
    """Offset of the next record to read; it need not be there any more.

    The beginning of the log where nothing was read yet; 0 in another topic than the stored one.
    """
    if stored is None:
        return log.start_offset
    if is_another_topic(log, stored):
        return 0
    return stored.next_offset


def is_another_topic(log: PartitionLog, stored: Position) -> bool:
    """Whether the topic was deleted and made again; an id that is not known is the same."""
    return bool(stored.topic_id and log.topic_id) and stored.topic_id != log.topic_id


def is_lost(log: PartitionLog, next_offset: int) -> bool:
    """Whether records are gone that were not read, or some that were read with the end."""
    return not log.start_offset <= next_offset <= log.end_offset


def sentence_of(place: Place, log: PartitionLog, next_offset: int, table: str, shard: str) -> str:
    """What is lost, and what can be done; `table` is that of the offsets."""
    topic, partition = place
    if next_offset < log.start_offset:
        what = (
            f"the log begins at offset {log.start_offset}, and {next_offset} is next to be read:"
            f" records that were removed unread: {log.start_offset - next_offset}"
        )
    else:
        what = (
            f"the log ends at offset {log.end_offset}, and {next_offset} is next to be read: it"
            " has lost records that were read, and what is written in their place would be skipped"
        )
    topic_id = f"'{log.topic_id}'" if log.topic_id else "NULL"
    accept = (
        f"UPDATE {table} SET next_offset = {log.start_offset}, topic_id = {topic_id}"  # noqa: S608  # text for a person
        f" WHERE shard = '{shard}' AND topic = '{topic}' AND partition = {partition}"
    )
    return f"{topic} partition {partition}: {what}; {NEXT_STEP}: {accept}"


class Positions:
    """Positions of one shard; what was found lost stays so until its row is another."""

    def __init__(self, service: str) -> None:
        self.topic_ids: dict[str, str] = {}
        """By topic: the id of the one that is read."""
        self._table = f"{service}.consumer_offset"
        self._shard = ""
        self._stored: dict[Place, Position] = {}
        self._lost: dict[Place, tuple[Position | None, PartitionLog]] = {}

    def restore(self, restored: Restored) -> None:
        """Begin anew at what is stored."""
        self.topic_ids = {}
        self._shard = restored.shard
        self._stored = {
            place: Position(next_offset=offset, topic_id=restored.topic_ids.get(place, ""))
            for place, offset in restored.offsets.items()
        }

    def wanted(self, places: Collection[Place]) -> dict[Place, int | None]:
        """Offsets to read from if these are still the same topics; None: the first record."""
        return {
            place: self._stored[place].next_offset if place in self._stored else None
            for place in places
        }

    def starts(
        self, logs: Mapping[Place, PartitionLog], *, begun_late: bool = False
    ) -> dict[Place, int]:
        """Offsets from which to read; `begun_late`: what was not wanted until now may be gone.

        Raises:
            LogLost: records are gone, in any of these partitions.
        """
        starts, sentences = {}, {}
        for place, log in logs.items():
            start = offset_in(log, self._stored.get(place))
            if begun_late:
                start = max(start, log.start_offset)
            if place[0] in NEWEST_ONLY:
                start = min(max(start, log.start_offset), log.end_offset)
            lost = self._lost_log(place, log, start)
            if lost is not None:
                sentences[place] = sentence_of(place, lost, start, self._table, self._shard)
            starts[place] = start
        if sentences:
            raise LogLost(sentences)
        self.topic_ids |= {topic: log.topic_id for (topic, _), log in logs.items() if log.topic_id}
        return starts

    def _lost_log(self, place: Place, log: PartitionLog, start: int) -> PartitionLog | None:
        """The log when it was lost, now or before; None: it is whole.

        One that lost its end grows beyond the offset again, and has still lost it.
        """
        stored = self._stored.get(place)
        if is_lost(log, start):
            self._lost[place] = stored, log
        known, then = self._lost.get(place, (None, log))
        if place in self._lost and (known, then.topic_id) == (stored, log.topic_id):
            return then
        self._lost.pop(place, None)
        return None

    def to_note(self, starts: Mapping[Place, int]) -> list[tuple[str, int, int]]:
        """(topic, partition, last offset before the start) where the row does not say so yet.

        Noted at once: a row that learns the id only with the next record would not have it when
        the topic is made again before.
        """
        return [
            (*place, start - 1)
            for place, start in starts.items()
            if self._stored.get(place) != self._position(place, start)
        ]

    def _position(self, place: Place, start: int) -> Position:
        known = self._stored[place].topic_id if place in self._stored else ""
        return Position(next_offset=start, topic_id=self.topic_ids.get(place[0], known))
