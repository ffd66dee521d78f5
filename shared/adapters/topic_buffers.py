"""What was read ahead, by topic, and in which order it is handled.

As it arrived, so that nothing waits for what came later, and what a handler wants to know before
the rest goes before it. A quarter goes to all topics alike: a team that floods its own topic does
not hold up the next one, nor a burst of submissions the news of what runs. While topics are waited
for, all goes by age. All is bounded by bytes too: 600 records of 1.4 MB, read at once, were 2.2 GB
and a lost lease.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection
from typing import Final

from shared.ports.publisher import RawMessage

MESSAGES_MAX: Final = 4_000
"""Read ahead, shared by the topics that have records."""
MESSAGES_OF_TOPIC: Final = 500
"""Each topic may have so many, whatever the others have."""
BYTES_MAX: Final = 32 << 20
"""Of keys and values read ahead, shared as the records are."""
BYTES_OF_TOPIC: Final = 1 << 20
TAKEN_BYTES_MAX: Final = 8 << 20
"""Taken at once; the last record may go beyond it."""
ALIKE: Final = 4
"""One part in so many goes to all topics alike, the rest by age."""


class TopicBuffers:
    """Records of each topic in the order of its log."""

    def __init__(self, first: Collection[str] = ()) -> None:
        self._first = frozenset(first)
        self._buffers: dict[str, deque[RawMessage]] = {}
        """Only topics with records; the next one in turn comes first."""
        self._bytes: dict[str, int] = {}
        """Of the records of each topic."""
        self._awaited: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """Records of all topics."""
        return sum(len(buffer) for buffer in self._buffers.values())

    def __contains__(self, topic: str) -> bool:
        """Whether there are records of this topic."""
        return topic in self._buffers

    def put(self, topic: str, messages: Collection[RawMessage]) -> None:
        """Add records behind those of their topic."""
        if messages:
            self._buffers.setdefault(topic, deque()).extend(messages)
            self._bytes[topic] = self._bytes.get(topic, 0) + sum(map(_size, messages))

    def full(self, topic: str) -> bool:
        """Whether no more of this topic should be read ahead."""
        buffer = self._buffers.get(topic)
        if buffer is None:
            return False
        topics = len(self._buffers)
        most, most_bytes = MESSAGES_MAX // topics, BYTES_MAX // topics
        return len(buffer) >= max(MESSAGES_OF_TOPIC, most) or (
            self._bytes[topic] >= max(BYTES_OF_TOPIC, most_bytes)
        )

    def wait_for(self, topics: Collection[str]) -> None:
        """Nothing is taken before an older record of these, which have more to come.

        With none of them all is as before.
        """
        self._awaited = frozenset(topics)

    @property
    def ready(self) -> bool:
        """Whether a record can be taken."""
        return bool(self._buffers) and self._awaited <= self._buffers.keys()

    def drop(self, topic: str) -> None:
        """Forget what was read of a topic."""
        self._buffers.pop(topic, None)
        self._bytes.pop(topic, None)

    def take(self, most: int) -> list[RawMessage]:
        """Up to `most`: each topic its turn, then the first topics by age, then the rest.

        Fewer where they come to `TAKEN_BYTES_MAX`; at least one where there is one.
        """
        taken = [] if self._awaited else self._turns(most // ALIKE)
        left = TAKEN_BYTES_MAX - sum(map(_size, taken))
        heap = [self._key(name) for name in self._buffers]
        heapq.heapify(heap)
        while self.ready and len(taken) < most and left > 0:
            topic = heap[0][2]
            taken.append(self._pop(topic))
            left -= _size(taken[-1])
            if topic in self._buffers:
                heapq.heapreplace(heap, self._key(topic))
            else:
                heapq.heappop(heap)
        return taken

    def _pop(self, topic: str) -> RawMessage:
        buffer = self._buffers[topic]
        message = buffer.popleft()
        self._bytes[topic] -= _size(message)
        if not buffer:
            self.drop(topic)
        return message

    def _key(self, topic: str) -> tuple[bool, int, str]:
        return topic not in self._first, self._buffers[topic][0].timestamp_ms, topic

    def _turns(self, most: int) -> list[RawMessage]:
        """Equal shares of `most`; a topic that had its turn comes after all others."""
        taken: list[RawMessage] = []
        topics = max(1, len(self._buffers))
        share, share_bytes = max(1, most // topics), TAKEN_BYTES_MAX // ALIKE // topics
        for topic in list(self._buffers):
            if len(taken) == most:
                break
            self._buffers[topic] = self._buffers.pop(topic)
            taken += self._turn(topic, min(share, most - len(taken)), share_bytes)
        return taken

    def _turn(self, topic: str, most: int, most_bytes: int) -> list[RawMessage]:
        taken: list[RawMessage] = []
        while topic in self._buffers and len(taken) < most and most_bytes > 0:
            taken.append(self._pop(topic))
            most_bytes -= _size(taken[-1])
        return taken


def _size(message: RawMessage) -> int:
    return len(message.value) + len(message.key)
