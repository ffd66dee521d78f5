"""Compressed batches are unpacked here, off the event loop and within bounds, before aiokafka.

aiokafka unpacks a batch whole, on the event loop, whatever it grows to (3 MB of gzip may hold ten
records of 300 MB), and gives up the consumer where it lacks a codec. Here a batch that is too
large or cannot be unpacked becomes one record without content in its place, with the reason beside
it, so that it is a dead letter like any other. What comes out is not compressed.
Source: KIP-98 (record batch, magic 2), KIP-110 (zstd), xerial's frames of snappy.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final

import cramjam
from aiokafka import AIOKafkaConsumer
from aiokafka.codec import snappy_decode

UNPACKED_BYTES_MAX: Final = 4 << 20
"""Of one batch."""
RESPONSE_BYTES_MAX: Final = 8 << 20
"""Unpacked of one partition in one answer; the rest is asked for again."""

_FETCH_API: Final = 1
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM: Final = 12
"""The length counts what follows base offset and length."""
_ATTRIBUTES_AT: Final = 21
_COUNT_AT: Final = 57
_CODEC: Final = 0x07
_CODECS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_EMPTY_RECORD: Final = bytes((12, 0, 0, 0, 1, 1, 0))
"""Length 6, no attributes, both deltas 0, no key, no value, no headers (varints, zigzag)."""
_XERIAL_START: Final = b"\x82SNAPPY\x00"
_XERIAL_BLOCKS_AT: Final = 16


class UnreadableError(Exception):
    """Why a batch cannot be unpacked."""


class Unpacking:
    """Stands between a consumer and its connection; `reasons` are those of its unread places."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._reasons: dict[tuple[int, int], str] = {}
        """By partition and offset."""
        client = consumer._client  # noqa: SLF001  # the one place where answers pass
        self._send = client.send
        client.send = self._sent

    def take_reason(self, partition: int, offset: int) -> str:
        """Why there is nothing in this place, or ""; told once."""
        return self._reasons.pop((partition, offset), "") if self._reasons else ""

    async def _sent(self, node_id: int, request: Any, **more: Any) -> Any:  # noqa: ANN401  # untyped
        response = await self._send(node_id, request, **more)
        if getattr(response, "API_KEY", None) == _FETCH_API:
            response.topics = [
                (topic, [await self._plain_part(part) for part in parts])
                for topic, parts in response.topics
            ]
        return response

    async def _plain_part(self, part: tuple[Any, ...]) -> tuple[Any, ...]:
        records = part[-1]
        if not records or not _has_packed(records):
            return part
        plain, reasons = await asyncio.to_thread(unpacked, records)
        self._reasons |= {(part[0], offset): reason for offset, reason in reasons.items()}
        return (*part[:-1], plain)


def unpacked(records: bytes) -> tuple[bytes, dict[int, str]]:
    """The same batches without compression, and by offset what could not be read.

    Ends early where `RESPONSE_BYTES_MAX` are reached: the consumer asks for the rest.
    """
    out: list[bytes | memoryview] = []
    reasons: dict[int, str] = {}
    size = 0
    for batch in _batches(records):
        attributes, count = _shape(batch)
        if not attributes & _CODEC:
            out.append(batch)
            continue
        if size >= RESPONSE_BYTES_MAX:
            break
        try:
            body = _body(_CODECS.get(attributes & _CODEC, ""), bytes(batch[_HEADER.size :]))
        except UnreadableError as error:
            offset, body = struct.unpack_from(">q", batch)[0], _EMPTY_RECORD
            reasons[offset] = f"record: the batch of {count} at offset {offset} {error}"
            count = 1
        size += len(body)
        out.append(_plain(batch, body, count))
    return b"".join(out), reasons


def _has_packed(records: bytes) -> bool:
    return any(_shape(batch)[0] & _CODEC for batch in _batches(records))


def _batches(records: bytes) -> list[memoryview]:
    """Whole batches; a broker cuts the last one off where its answer ends."""
    view, found, at = memoryview(records), [], 0
    while at + _HEADER.size <= len(view):
        end = at + _LENGTH_FROM + struct.unpack_from(">i", view, at + 8)[0]
        if end > len(view):
            break
        found.append(view[at:end])
        at = end
    return found


def _shape(batch: memoryview) -> tuple[int, int]:
    """(attributes, number of records)."""
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    (count,) = struct.unpack_from(">i", batch, _COUNT_AT)
    return attributes, count


def _body(codec: str, packed: bytes) -> bytes:
    """The records of a batch; raises UnreadableError."""
    if not codec:
        raise UnreadableError("is compressed in a way that Kafka does not know")
    try:
        if codec == "snappy":
            return _snappy(packed)
        space = bytearray(UNPACKED_BYTES_MAX)
        length = getattr(cramjam, codec).decompress_into(packed, space)
    except UnreadableError:
        raise
    except Exception as error:
        if "write whole buffer" in str(error):
            raise _too_large(codec) from error
        raise UnreadableError(f"cannot be unpacked as {codec} ({error})") from error
    return bytes(memoryview(space)[:length])


def _snappy(packed: bytes) -> bytes:
    """Blocks tell what they grow to, in xerial's frames or alone."""
    if sum(map(cramjam.snappy.decompress_raw_len, _snappy_blocks(packed))) > UNPACKED_BYTES_MAX:
        raise _too_large("snappy")
    return bytes(snappy_decode(packed))


def _snappy_blocks(packed: bytes) -> list[bytes]:
    if not packed.startswith(_XERIAL_START):
        return [packed]
    found, at = [], _XERIAL_BLOCKS_AT
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        if length < 0:
            raise UnreadableError("cannot be unpacked as snappy (a block of negative length)")
        found.append(packed[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def _too_large(codec: str) -> UnreadableError:
    return UnreadableError(
        f"is larger than {UNPACKED_BYTES_MAX >> 20} MiB when it is unpacked ({codec}):"
        " send smaller batches"
    )


def _plain(batch: memoryview, body: bytes, count: int) -> bytes:
    """`batch` with other records in it, of which none is compressed; its checksum is void."""
    header = bytearray(batch[: _HEADER.size])
    (attributes,) = struct.unpack_from(">h", header, _ATTRIBUTES_AT)
    struct.pack_into(">i", header, 8, _HEADER.size - _LENGTH_FROM + len(body))
    struct.pack_into(">h", header, _ATTRIBUTES_AT, attributes & ~_CODEC)
    struct.pack_into(">i", header, _COUNT_AT, count)
    return bytes(header) + body
