"""The log: publish in order, read from an offset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from shared.ports.store import OutboxRow


class RawMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record as read; `topic` without prefix."""

    topic: str
    partition: int
    offset: int
    headers: tuple[tuple[str, bytes], ...]
    key: bytes
    value: bytes
    timestamp_ms: int = 0
    """When the broker took it; the only time to trust on a topic that teams write."""
    unreadable: str = ""
    """Why the record has no content here: "field: rule", as the codec tells what is malformed."""


class PartitionLog(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the log of one partition is now."""

    topic_id: str
    """Another one after the topic was deleted and made again; "" where the broker gives none."""
    start_offset: int
    """Of the first record that is kept, or where it would be."""
    end_offset: int
    """Behind the last record."""


class Publisher(Protocol):
    """Writes to the log."""

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        """Return when every row is acknowledged; order within a partition is kept.

        Raises:
            Transient: some may have been written; publish the same again.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Subscription(Protocol):
    """Reads assigned partitions, from the offsets in the database."""

    async def assign(
        self, offsets: Mapping[tuple[str, int], int | None]
    ) -> Mapping[tuple[str, int], PartitionLog]:
        """Read these (topic, partition) from these offsets on; what their logs are now.

        None: from the first record that is kept. Other topics are left as they are. The
        partitions of a topic come together: a topic that is assigned again is read anew, in the
        partitions named only, and what was buffered of it is dropped.

        Raises:
            Transient: the broker is away, or tells nothing of a topic.
        """
        ...

    def wait_for(self, topics: Collection[str]) -> None:
        """From now on nothing is given out before an older record of one of `topics`.

        They have more to come, perhaps not read yet. With none it is as it comes.
        """
        ...

    async def poll(self, max_messages: int, wait_seconds: float) -> list[RawMessage]:
        """At most `max_messages`, as soon as there is one; empty after `wait_seconds`.

        Mostly in order of arrival; a backlog of one topic does not hold up another.

        Raises:
            Transient: a topic cannot be read on, and what was buffered of it is given out. Its
                log has no such offset, or it was deleted and made again; `assign` tells which.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class NewestWritten(Protocol):
    """What a producer wrote last."""

    async def newest(
        self, places: Collection[tuple[str, int]], source: str, subject: str = ""
    ) -> Mapping[tuple[str, int], int]:
        """Its highest outbox number among the last records of each of these partitions.

        With a `subject` only of the records about it, as several processes write there.
        A partition without such a record, or that is not there, is left out.

        Raises:
            Transient: the broker is away.
        """
        ...
