"""What was read ahead, by topic, and in which order it is handled.

As it arrived, so that nothing waits for what came later, and what a handler wants to know before
the rest goes before it. A quarter goes to all topics alike: a team that floods its own topic does
not hold up the next one, nor a burst of submissions the news of what runs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from shared.ports.publisher import RawMessage

MESSAGES_MAX: Final = 4_000
"""Read ahead, shared by the topics that have records."""
MESSAGES_OF_TOPIC: Final = 500
"""Each topic may have so many, whatever the others have."""
ALIKE: Final = 4
"""One part in so many goes to all topics alike, the rest by age."""


class TopicBuffers:
    """Records of each topic in the order of its log."""

    def __init__(self, first: Collection[str] = ()) -> None:
        self._first = frozenset(first)
        self._buffers: dict[str, deque[RawMessage]] = {}
        """Only topics with records; whose turn it is comes first."""

    def __len__(self) -> int:
        """Records of all topics."""
        return sum(len(buffer) for buffer in self._buffers.values())

    def put(self, topic: str, messages: Iterable[RawMessage]) -> None:
        """Add records behind those of their topic."""
        buffer = self._buffers.get(topic, deque())
        buffer.extend(messages)
        if buffer:
            self._buffers[topic] = buffer

    def full(self, topic: str) -> bool:
        """Whether no more of this topic should be read ahead."""
        buffer = self._buffers.get(topic)
        if buffer is None:
            return False
        return len(buffer) >= max(MESSAGES_OF_TOPIC, MESSAGES_MAX // len(self._buffers))

    def drop(self, topic: str) -> None:
        """Forget what was read of a topic."""
        self._buffers.pop(topic, None)

    def take(self, most: int) -> list[RawMessage]:
        """Up to `most`: each topic its turn, then the first topics by age, then the rest."""
        taken = self._turns(most // ALIKE)
        heap = [self._key(name, buffer) for name, buffer in self._buffers.items()]
        heapq.heapify(heap)
        while heap and len(taken) < most:
            topic = heap[0][2]
            buffer = self._buffers[topic]
            taken.append(buffer.popleft())
            if buffer:
                heapq.heapreplace(heap, self._key(topic, buffer))
            else:
                heapq.heappop(heap)
                del self._buffers[topic]
        return taken

    def _key(self, topic: str, buffer: deque[RawMessage]) -> tuple[bool, int, str]:
        return topic not in self._first, buffer[0].timestamp_ms, topic

    def _turns(self, most: int) -> list[RawMessage]:
        """Equal shares of `most`; who had his turn comes after all others."""
        taken: list[RawMessage] = []
        share = max(1, most // max(1, len(self._buffers)))
        for topic in list(self._buffers):
            if len(taken) == most:
                break
            buffer = self._buffers.pop(topic)
            count = min(share, len(buffer), most - len(taken))
            taken += [buffer.popleft() for _ in range(count)]
            if buffer:
                self._buffers[topic] = buffer
        return taken
