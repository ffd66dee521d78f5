"""Compressed batches come out plain and in bounds; what cannot be unpacked is one empty record."""

from __future__ import annotations

import struct

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from shared.adapters.kafka import unpacking
from shared.adapters.kafka.unpacking import RESPONSE_BYTES_MAX, UNPACKED_BYTES_MAX, unpacked

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MIB = 1 << 20


def batch(*values: bytes, codec: int = 0, offset: int = 0) -> bytes:
    """A batch as a producer sends it, at the place that the broker gives it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=64 * MIB,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(number, timestamp=1_000, key=b"k", value=value, headers=[("h", b"v")])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, offset)
    return bytes(built)


def read(records: bytes) -> list[tuple[int, bytes | None]]:
    """As aiokafka does."""
    found, memory = [], MemoryRecords(records)
    while memory.has_next():
        found += [(one.offset, one.value) for one in memory.next_batch()]
    return found


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_records_of_every_codec_are_read(codec: int) -> None:
    packed = batch(b"one", b"two", codec=codec, offset=7) + batch(b"three", offset=9)

    plain, reasons = unpacked(packed)

    assert [(7, b"one"), (8, b"two"), (9, b"three")] == read(plain)
    assert not reasons
    memory = MemoryRecords(plain)
    assert memory.next_batch().next_offset == 9


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_that_grows_too_large_is_one_empty_record(codec: int) -> None:
    zeros = bytes(UNPACKED_BYTES_MAX // 2)
    packed = batch(zeros, zeros, codec=codec, offset=4) + batch(b"next", offset=6)

    plain, reasons = unpacked(packed)

    assert [(4, None), (6, b"next")] == read(plain)
    assert {4} == set(reasons)
    assert "the batch of 2 at offset 4 is larger than 4 MiB when it is unpacked" in reasons[4]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_junk_in_place_of_a_body_is_one_empty_record(codec: int) -> None:
    packed = bytearray(batch(b"one", b"two", codec=codec))
    packed[61:] = bytes(range(7, 7 + len(packed) - 61))

    plain, reasons = unpacked(bytes(packed))

    assert [(0, None)] == read(plain)
    assert "cannot be unpacked as" in reasons[0]


def test_an_unknown_codec_is_named() -> None:
    packed = bytearray(batch(b"one"))
    struct.pack_into(">h", packed, 21, 5)

    assert "in a way that Kafka does not know" in unpacked(bytes(packed))[1][0]


def test_snappy_in_one_block_is_read() -> None:
    """As clients on librdkafka send it; aiokafka and Java send xerial's frames."""
    plain = batch(b"one")
    packed = bytearray(plain[:61] + bytes(cramjam.snappy.compress_raw(plain[61:])))
    struct.pack_into(">i", packed, 8, len(packed) - 12)
    struct.pack_into(">h", packed, 21, 2)

    assert [(0, b"one")] == read(unpacked(bytes(packed))[0])


def test_an_answer_ends_where_it_is_large_and_the_rest_is_asked_for_again() -> None:
    third = bytes(3 * MIB)
    packed = [batch(third, codec=1, offset=n) for n in range(6)]

    plain, reasons = unpacked(b"".join(packed))

    assert [0, 1, 2] == [offset for offset, _ in read(plain)]
    assert len(plain) < RESPONSE_BYTES_MAX + UNPACKED_BYTES_MAX
    assert not reasons


def test_a_batch_cut_off_by_the_broker_is_left_for_the_next_answer() -> None:
    packed = batch(b"one", codec=1) + batch(b"two", codec=1, offset=1)[:-3]

    assert [(0, b"one")] == read(unpacked(packed)[0])


def test_what_is_not_compressed_is_not_touched() -> None:
    assert not unpacking._has_packed(batch(b"one"))
