"""An idempotent publisher by aiokafka; the library's defaults would lose data (acks=1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from shared.adapters.kafka.client import REQUEST_TIMEOUT_MS, options, start, stop
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow

BATCH_BYTES: Final = 1 << 20
PUBLISH_TIMEOUT_SECONDS: Final = 30.0


class KafkaPublisher:
    """`ports.Publisher`: batches of one partition are sent one after the other."""

    def __init__(self, access: KafkaAccess, prefix: str, *, compress: bool = False) -> None:
        """`compress`: batches are packed with LZ4, as pays for reports that are much alike."""
        self._access = access
        self._compression = "lz4" if compress else None
        self._prefix = prefix
        self._producer: AIOKafkaProducer | None = None

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        """Acknowledged when it returns; after an error the producer is built anew."""
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_SECONDS):
                producer = await self._ready()
                acknowledged = []
                for (topic, partition), group in _by_partition(rows).items():
                    name = f"{self._prefix}.{topic}"
                    acknowledged += await self._send(producer, name, partition, group)
                await asyncio.gather(*acknowledged)
        except (KafkaError, TimeoutError, OSError) as error:
            await self._drop()
            raise Transient(f"publish: {type(error).__name__}: {error}") from error

    async def _ready(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **options(self._access),
                enable_idempotence=True,
                acks="all",
                linger_ms=0,
                compression_type=self._compression,
                max_batch_size=BATCH_BYTES,
                max_request_size=5 * BATCH_BYTES,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            )
            try:
                await start(producer, self._access)
            except BaseException:
                await stop(producer)
                raise
            self._producer = producer
        return self._producer

    async def _send(
        self, producer: AIOKafkaProducer, topic: str, partition: int, rows: Sequence[OutboxRow]
    ) -> list[asyncio.Future[object]]:
        acknowledged: list[asyncio.Future[object]] = []
        batch = producer.create_batch()
        for row in rows:
            item = {
                "key": row.key.encode(),
                "value": row.value,
                "timestamp": None,
                "headers": row.headers,
            }
            if batch.append(**item) is None:
                acknowledged.append(await producer.send_batch(batch, topic, partition=partition))
                batch = producer.create_batch()
                batch.append(**item)
        acknowledged.append(await producer.send_batch(batch, topic, partition=partition))
        return acknowledged

    async def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop(producer)

    async def close(self) -> None:
        """Flush what is in flight and disconnect."""
        await self._drop()


def _by_partition(rows: Sequence[OutboxRow]) -> dict[tuple[str, int], list[OutboxRow]]:
    groups: dict[tuple[str, int], list[OutboxRow]] = {}
    for row in rows:
        groups.setdefault((row.topic, row.partition), []).append(row)
    return groups
