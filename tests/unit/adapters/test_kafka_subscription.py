"""Readers of one subscription: one that cannot start leaves none half started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from shared.adapters.kafka import KafkaSubscription, subscription
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.ports.publisher import PartitionLog

LOG = PartitionLog(topic_id="one", start_offset=0, end_offset=7)


class SlowReader:
    """A reader of the topic "refused" fails at once; another starts after a while."""

    started: list[str]
    closed: list[str]

    def __init__(self, _access: KafkaAccess, _prefix: str, topic: str, _receiver: object) -> None:
        self._topic = topic

    async def begin(self, offsets: Mapping[int, int | None]) -> dict[int, PartitionLog]:
        """Logs of the partitions, as `TopicReader.begin` tells them."""
        if self._topic == "refused":
            raise Transient("nobody is let in")
        await asyncio.sleep(0.05)
        self.started.append(self._topic)
        return dict.fromkeys(offsets, LOG)

    async def close(self) -> None:
        """Tell that it ended."""
        self.closed.append(self._topic)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> type[SlowReader]:
    """The class that stands for `TopicReader`."""
    monkeypatch.setattr(subscription, "TopicReader", SlowReader)
    monkeypatch.setattr(SlowReader, "started", [], raising=False)
    monkeypatch.setattr(SlowReader, "closed", [], raising=False)
    return SlowReader


async def test_a_reader_that_is_refused_leaves_no_other_one_starting(
    readers: type[SlowReader],
) -> None:
    topics = KafkaSubscription(KafkaAccess(bootstrap="127.0.0.1:9"), "test-")

    with pytest.raises(Transient, match="nobody is let in"):
        await topics.assign({("refused", 0): 0, ("granted", 0): 0})

    assert readers.started == ["granted"]
    await topics.close()
    assert readers.closed == ["granted"]


async def test_the_log_of_each_partition_of_each_topic_is_told(readers: type[SlowReader]) -> None:
    topics = KafkaSubscription(KafkaAccess(bootstrap="127.0.0.1:9"), "test-")

    logs = await topics.assign({("a", 0): 0, ("a", 1): 3, ("b", 0): None})

    assert logs == {("a", 0): LOG, ("a", 1): LOG, ("b", 0): LOG}
    assert sorted(readers.started) == ["a", "b"]
