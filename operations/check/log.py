"""Reads the whole Kafka log of one prefix, and goes on from there when asked again.

Plain aiokafka with `assign` from the earliest offset; nothing is committed and no group is
joined, so reading never disturbs a service. A record that cannot be read is stepped over and
noted: any login that may write to a topic of a team may write one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any, Final, Protocol, Self, cast

import msgspec
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError

from operations.check.fields import Fields
from operations.check.model import CannotCheck, Log, Payload, Place, Record, foreign

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
CAREFUL_RECORDS: Final = 2_000
"""Records read one by one after one that could not be read."""
REASON_LENGTH_MAX: Final = 200
UNREADABLE: Final = (
    CorruptRecordException,
    UnsupportedCodecError,
    ValueError,  # a name of a header that is not UTF-8, among others
    IndexError,
    struct.error,
)
"""What the client raises for a record itself; it gives up the whole batch."""


class Unpacking(Protocol):
    """Unpacks what a consumer of one topic is sent, within bounds."""

    def take_reason(self, partition: int, offset: int) -> str:
        """Why there is nothing in this place, or ""; told once."""
        ...


@dataclass(slots=True, kw_only=True)
class LogReader:
    """The log so far; `extend` reads on to the end as it is now."""

    bootstrap: str
    prefix: str
    login: Mapping[str, Any] = field(default_factory=dict)
    """How to connect, as keyword arguments of a client of aiokafka."""
    records: list[Record] = field(default_factory=list)
    bounded: Callable[[Any], Unpacking] | None = None
    """Called with a consumer before it reads a topic of a team; None: all is unpacked whole."""
    unreadable: dict[Place, str] = field(default_factory=dict)
    _begins: dict[tuple[str, int], int] = field(default_factory=dict)
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
        ours = [one for one in partitions if not foreign(self._short(one.topic))]
        if ours:
            async with _Consumer(self.bootstrap, self.login) as consumer:
                await self._read_together(consumer.kafka, ours)
        for one in partitions:
            if one not in ours:
                await self._read_foreign(one)
        return Log(
            records=self.records,
            ends_before=ends_before,
            dead=dict(self._dead),
            unreadable=self.unreadable,
            begins=dict(self._begins),
        )

    async def _read_foreign(self, partition: Any) -> None:  # noqa: ANN401  # untyped
        """What a team has written may unpack to anything, so it is unpacked within bounds."""
        checks = self.bounded is None  # what was unpacked before has no checksum any more
        async with _Consumer(self.bootstrap, self.login, check_crcs=checks) as consumer:
            unpacking = self.bounded(consumer.kafka) if self.bounded is not None else None
            for one, end in (await self._places(consumer.kafka, [partition])).items():
                await self._read_alone(consumer.kafka, one, end, unpacking)

    async def _places(self, kafka: Any, partitions: list[Any]) -> dict[Any, int]:  # noqa: ANN401
        """Seek each to where its reading goes on; those that have more, with their ends."""
        kafka.assign(partitions)
        ends = await kafka.end_offsets(partitions)
        begins = await kafka.beginning_offsets(partitions)
        for one in partitions:
            place = self._place(one)
            # What was read before it was removed is known.
            self._begins.setdefault(place, begins[one])
            self._next[place] = max(self._next.get(place, 0), begins[one])
            kafka.seek(one, self._next[place])
        return {one: ends[one] for one in partitions if self._next[self._place(one)] < ends[one]}

    async def _read_together(self, kafka: Any, partitions: list[Any]) -> None:  # noqa: ANN401
        behind = await self._places(kafka, partitions)
        while behind:
            try:
                batches = await kafka.getmany(*behind, timeout_ms=POLL_MS, max_records=MAX_RECORDS)
            except UNREADABLE:
                for one, end in behind.items():
                    await self._read_alone(kafka, one, end, None)
                return
            for one, batch in batches.items():
                self._take(one, batch, None)
            for one in list(behind):
                position = self._next[self._place(one)] = await kafka.position(one)
                if position >= behind[one]:
                    del behind[one]

    async def _read_alone(
        self,
        kafka: Any,  # noqa: ANN401  # untyped
        one: Any,  # noqa: ANN401
        end: int,
        unpacking: Unpacking | None,
    ) -> None:
        """Read one partition; what cannot be read is stepped over, record by record."""
        place = self._place(one)
        careful = 0
        kafka.seek(one, self._next[place])
        while self._next[place] < end:
            count = 1 if careful else MAX_RECORDS
            careful = max(0, careful - 1)
            try:
                batches = await kafka.getmany(one, timeout_ms=POLL_MS, max_records=count)
            except UNREADABLE as error:
                if count == 1:
                    self._set_aside(one, self._next[place], f"{type(error).__name__}: {error}")
                    self._next[place] += 1
                careful = CAREFUL_RECORDS
                kafka.seek(one, self._next[place])
                continue
            self._take(one, batches.get(one, ()), unpacking)
            self._next[place] = await kafka.position(one)

    def _take(self, one: Any, batch: Iterable[Any], unpacking: Unpacking | None) -> None:  # noqa: ANN401
        topic = self._short(one.topic)
        for message in batch:
            reason = unpacking.take_reason(one.partition, message.offset) if unpacking else ""
            if reason:
                self._set_aside(one, message.offset, reason)
            elif topic.endswith(DEAD_LETTERS):
                place, reader = dead_place(message)
                self._dead[place] = self._dead.get(place, frozenset()) | {reader}
            elif (record := decode(topic, message)) is not None:
                self.records.append(record)
            else:
                self._set_aside(one, message.offset, "it is no event")

    def _set_aside(self, one: Any, offset: int, reason: str) -> None:  # noqa: ANN401  # untyped
        self.unreadable[*self._place(one), offset] = " ".join(reason.split())[:REASON_LENGTH_MAX]

    def _place(self, one: Any) -> tuple[str, int]:  # noqa: ANN401  # untyped
        return self._short(one.topic), one.partition

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

    def __init__(
        self, bootstrap: str, login: Mapping[str, Any], *, check_crcs: bool = True
    ) -> None:
        from aiokafka import AIOKafkaConsumer

        self.kafka = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            **login,
            check_crcs=check_crcs,
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
    """One record; None when it is no event (the services send those to the dead letters).

    Of what a team has written only the id counts: all else may be anything, of any size.
    """
    theirs = foreign(topic)
    try:
        headers = {name: value.decode() for name, value in message.headers}
        kind = headers["ce_type"]
        return Record(
            topic=topic,
            partition=message.partition,
            offset=message.offset,
            id=headers["ce_id"],
            type=kind if theirs else intern(kind),
            source="" if theirs else intern(headers["ce_source"]),
            sequence=0 if theirs else int(headers.get("ce_sequence", "0")),
            time_ms=0 if theirs else _time_ms(headers["ce_time"]),
            causation_id="" if theirs else headers.get("ce_causationid", ""),
            subject="" if theirs else intern(headers.get("ce_subject", "")),
            payload=_payload(message.value) if kind in NEEDED and not theirs else {},
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
