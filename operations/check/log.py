"""Reads the whole Kafka log of one prefix, and goes on from there when asked again.

Plain aiokafka with `assign` from the earliest offset; nothing is committed and no group is
joined, so reading never disturbs a service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any, Final, Self, cast

import msgspec

from operations.check.fields import Fields
from operations.check.model import CannotCheck, Log, Payload, Place, Record

DEAD_LETTERS: Final = ".dlq"
NEEDED: Final = frozenset(
    f"muster.{name}.v1"
    for name in (
        "submit.workload",
        "workload.queued",
        "workload.rejected",
        "workload.placed",
        "workload.bound",
        "workload.running",
        "workload.resized",
        "workload.succeeded",
        "workload.failed",
        "workload.cancelled",
        "workload.cancelling",
        "workload.evicted",
        "workload.requeued",
        "workload.held",
        "workload.released",
        "workload.reprioritised",
        "quota.changed",
        "bind.workload",
        "resize.pods",
        "evict.pods",
        "pods.bound",
        "pods.running",
        "pods.finished",
        "pods.gone",
        "bind.refused",
        "pods.resized",
        "resize.refused",
        "node-inventory.reported",
        "node.removed",
        "eviction-plan.accepted",
        "reservation.expired",
        "priority-class.applied",
        "idleness.noticed",
        "device-health.changed",
        "node-devices.learned",
        "audit.sealed",
    )
)
"""Types with a payload that some check reads; of all others the headers are enough."""
IGNORED: Final = ("usage.facts.", "gpu.facts.")
"""Telemetry samples carry no state and expire by themselves."""
_decoder: Final = msgspec.json.Decoder(Fields)
POLL_MS: Final = 500
MAX_RECORDS: Final = 5000


@dataclass(slots=True, kw_only=True)
class LogReader:
    """The log so far; `extend` reads on to the end as it is now."""

    bootstrap: str
    prefix: str
    login: Mapping[str, Any] = field(default_factory=dict)
    """How to connect, as keyword arguments of a client of aiokafka."""
    records: list[Record] = field(default_factory=list)
    unreadable: int = 0
    complete: bool = True
    _dead: dict[Place, frozenset[str]] = field(default_factory=dict)
    _next: dict[tuple[str, int], int] = field(default_factory=dict)

    async def ends(self) -> dict[tuple[str, int], int]:
        """End offset of every partition under the prefix, by (topic without prefix, number).

        Raises:
            CannotCheck: the broker does not answer, or has no such topic.
        """
        partitions = await self._partitions()
        async with _Consumer(self.bootstrap, self.login) as consumer:
            consumer.kafka.assign(partitions)  # else each topic waits for its own metadata
            ends = await consumer.kafka.end_offsets(partitions)
        return {(self._short(one.topic), one.partition): end for one, end in ends.items()}

    async def extend(self, ends_before: dict[tuple[str, int], int]) -> Log:
        """Everything up to the end as it is now; raises CannotCheck as `ends` does."""
        partitions = await self._partitions()
        async with _Consumer(self.bootstrap, self.login) as consumer:
            await self._read_on(consumer.kafka, partitions)
        return Log(
            records=self.records,
            ends_before=ends_before,
            dead=dict(self._dead),
            complete=self.complete,
        )

    async def _read_on(self, kafka: Any, partitions: list[Any]) -> None:  # noqa: ANN401  # untyped
        kafka.assign(partitions)
        ends = await kafka.end_offsets(partitions)
        begins = await kafka.beginning_offsets(partitions)
        behind = set()
        for one in partitions:
            self.complete &= begins[one] == 0
            start = max(self._next.get((self._short(one.topic), one.partition), 0), begins[one])
            kafka.seek(one, start)
            if start < ends[one]:
                behind.add(one)
        while behind:
            batches = await kafka.getmany(*behind, timeout_ms=POLL_MS, max_records=MAX_RECORDS)
            for one, batch in batches.items():
                self._take(self._short(one.topic), batch)
            for one in list(behind):
                position = await kafka.position(one)
                self._next[self._short(one.topic), one.partition] = position
                if position >= ends[one]:
                    behind.discard(one)

    def _take(self, topic: str, batch: Iterable[Any]) -> None:
        for message in batch:
            if topic.endswith(DEAD_LETTERS):
                place, reader = dead_place(message)
                self._dead[place] = self._dead.get(place, frozenset()) | {reader}
                continue
            record = decode(topic, message)
            if record is None:
                self.unreadable += 1
            else:
                self.records.append(record)

    async def _partitions(self) -> list[Any]:
        """Every partition under the prefix, as the broker describes them now."""
        from aiokafka import TopicPartition
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.errors import KafkaError

        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, **self.login)
        try:
            await admin.start()
            names = [name for name in await admin.list_topics() if self._wanted(name)]
            topics = await admin.describe_topics(names) if names else []
        except (KafkaError, OSError) as error:
            raise CannotCheck(
                f"Kafka at {self.bootstrap}: {error}; is it up, and does it"
                " know you (MUSTER_KAFKA_USER, MUSTER_KAFKA_PASSWORD)?"
            ) from error
        finally:
            await admin.close()
        if not topics:
            raise CannotCheck(f"Kafka at {self.bootstrap} has no topic {self.prefix}.*")
        return [
            TopicPartition(topic["topic"], part["partition"])
            for topic in sorted(topics, key=lambda one: str(one["topic"]))
            for part in topic["partitions"]
        ]

    def _wanted(self, name: str) -> bool:
        return name.startswith(f"{self.prefix}.") and not self._short(name).startswith(IGNORED)

    def _short(self, name: str) -> str:
        return name.removeprefix(f"{self.prefix}.")


class _Consumer:
    """A consumer without a group, stopped at the end of the block."""

    def __init__(self, bootstrap: str, login: Mapping[str, Any]) -> None:
        from aiokafka import AIOKafkaConsumer

        self.kafka = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            **login,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_bytes=64 << 20,
            max_partition_fetch_bytes=8 << 20,
        )

    async def __aenter__(self) -> Self:
        await self.kafka.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kafka.stop()


def decode(topic: str, message: Any) -> Record | None:  # noqa: ANN401  # untyped library
    """One record; None when it is no event (the services send those to the dead letters)."""
    try:
        headers = {name: value.decode() for name, value in message.headers}
        kind = headers["ce_type"]
        return Record(
            topic=topic,
            partition=message.partition,
            offset=message.offset,
            id=headers["ce_id"],
            type=intern(kind),
            source=intern(headers["ce_source"]),
            sequence=int(headers.get("ce_sequence", "0")),
            time_ms=_time_ms(headers["ce_time"]),
            causation_id=headers.get("ce_causationid", ""),
            subject=intern(headers.get("ce_subject", "")),
            payload=_payload(message.value) if kind in NEEDED else {},
            redriven="redriven_from" in headers,
        )
    except (KeyError, ValueError, AttributeError, msgspec.DecodeError):
        return None


def dead_place(message: Any) -> tuple[Place, str]:  # noqa: ANN401  # untyped library
    """Where a dead letter was read from, and by which service, by its own headers."""
    headers = {name: value.decode(errors="replace") for name, value in message.headers}
    place = (
        headers.get("source_topic", ""),
        int(headers.get("source_partition", -1)),
        int(headers.get("source_offset", -1)),
    )
    return place, headers.get("source_consumer", "").partition("/")[0]


def _payload(value: bytes) -> Payload:
    return cast("Payload", _decoder.decode(value))


@lru_cache(maxsize=1024)
def _time_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
