"""What the runtime relies on, of a store: one unit is all or nothing, under one epoch."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shared.ports.errors import LeaseLost, Rejected, Stale
from shared.ports.store import Unit
from tests.contract.protocol_worlds import bad, mark, of_nobody, world_of
from tests.support.protocol import a_message, a_row, a_unit, an_audit, an_event

TOPIC = a_message(1).topic


@pytest.fixture(params=["memory", "postgres"])
async def world(request):
    database = request.getfixturevalue("database") if request.param == "postgres" else None
    async with world_of(request.param, database) as world:
        yield world


@pytest.fixture
async def store(world):
    return await opened(world)


async def opened(world, slot="a"):
    """A store under a fresh lease."""
    lease = world.lease(slot)
    assert await lease.try_acquire()
    store = world.store(lease)
    await store.restore()
    return store


def full_unit(**parts) -> Unit:
    """A unit with a row of each kind."""
    defaults: dict[str, Any] = {
        "consumed": [a_message(1), a_message(2)],
        "skipped": [(TOPIC, 0, 3)],
        "outbox": [a_row(1), a_row(2)],
        "audits": [an_audit(1), an_audit(2, b"last")],
        "writes": [mark()],
    }
    return a_unit(**(defaults | parts))


async def test_nothing_is_restored_from_nothing(world, store):
    restored = await (await opened(world)).restore()

    assert (1, 1, 1, 0) == (
        restored.next_seq,
        restored.next_unit,
        restored.next_audit,
        restored.acked_seq,
    )
    assert [] == restored.unacked == restored.recent_ids
    assert {} == restored.offsets
    assert restored.recent_complete


async def test_a_unit_is_restored_whole(world, store):
    await store.commit(full_unit())

    restored = await (await opened(world)).restore()

    assert {(TOPIC, 0): 4} == restored.offsets
    assert [a_row(1), a_row(2)] == restored.unacked
    assert (3, 2, 3) == (restored.next_seq, restored.next_unit, restored.next_audit)
    assert b"last" == restored.last_digest
    assert sorted([an_event(1).id, an_event(2).id]) == restored.recent_ids
    assert 1 == await world.marks()


@pytest.mark.parametrize(("write", "error"), [(bad, Rejected), (of_nobody, Stale)])
async def test_a_write_that_fails_leaves_nothing_of_its_unit(world, store, write, error):
    with pytest.raises(error):
        await store.commit(full_unit(writes=[mark(), write()]))

    await nothing_happened(world)


async def nothing_happened(world, marks=0):
    restored = await (await opened(world)).restore()
    assert {} == restored.offsets
    assert [] == restored.unacked == restored.recent_ids
    assert (1, 1, 1) == (restored.next_seq, restored.next_unit, restored.next_audit)
    assert marks == await world.marks()


async def test_content_that_the_database_cannot_hold_is_rejected_whole(world, store):
    row = replace(a_row(2), key="a\x00b")

    with pytest.raises(Rejected):
        await store.commit(full_unit(outbox=[a_row(1), row]))

    await nothing_happened(world)


async def test_a_stale_epoch_writes_nothing(world, store):
    await opened(world)

    with pytest.raises(LeaseLost):
        await store.commit(full_unit())

    await nothing_happened(world)


async def test_a_message_consumed_before_makes_the_unit_stale(world, store):
    await store.commit(a_unit(consumed=[a_message(1)]))

    with pytest.raises(Stale):
        await store.commit(full_unit(number=2))

    restored = await (await opened(world)).restore()
    assert {(TOPIC, 0): 2} == restored.offsets
    assert [] == restored.unacked
    assert 0 == await world.marks()


async def test_a_message_twice_in_one_unit_makes_it_stale(world, store):
    with pytest.raises(Stale):
        await store.commit(full_unit(consumed=[a_message(1), a_message(1)]))

    await nothing_happened(world)


async def test_after_a_refused_unit_the_next_one_is_taken(world, store):
    with pytest.raises(Rejected):
        await store.commit(full_unit(writes=[bad()]))

    await store.commit(full_unit())

    assert 3 == (await (await opened(world)).restore()).next_seq


async def test_offsets_never_go_back(world, store):
    await store.commit(a_unit(skipped=[(TOPIC, 0, 9)]))
    await store.commit(a_unit(2, consumed=[a_message(5)]))

    assert {(TOPIC, 0): 10} == (await (await opened(world)).restore()).offsets


async def test_an_offset_is_restored_with_the_id_of_its_topic(world, store):
    await store.commit(a_unit(consumed=[a_message(1)], topic_ids={TOPIC: "first"}))

    restored = await (await opened(world)).restore()

    assert ({(TOPIC, 0): 2}, {(TOPIC, 0): "first"}) == (restored.offsets, restored.topic_ids)


async def test_an_offset_without_an_id_adopts_the_first_one_and_does_not_go_back(world, store):
    await store.commit(a_unit(skipped=[(TOPIC, 0, 9)]))
    await store.commit(a_unit(2, skipped=[(TOPIC, 0, 4)], topic_ids={TOPIC: "first"}))

    restored = await (await opened(world)).restore()

    assert ({(TOPIC, 0): 10}, {(TOPIC, 0): "first"}) == (restored.offsets, restored.topic_ids)


async def test_in_another_topic_of_the_same_name_an_offset_begins_anew(world, store):
    await store.commit(
        a_unit(skipped=[(TOPIC, 0, 9), (TOPIC, 1, 9)], topic_ids={TOPIC: "first", "other": "x"})
    )
    await store.commit(a_unit(2, skipped=[(TOPIC, 0, -1)], topic_ids={TOPIC: "second"}))
    read_from_0 = (await (await opened(world)).restore()).offsets
    store = await opened(world)
    await store.commit(a_unit(3, consumed=[a_message(3)], topic_ids={TOPIC: "second"}))
    await store.commit(a_unit(4, skipped=[(TOPIC, 0, 1)], topic_ids={TOPIC: "second"}))

    restored = await (await opened(world)).restore()

    assert {(TOPIC, 0): 0, (TOPIC, 1): 10} == read_from_0
    assert {(TOPIC, 0): 4, (TOPIC, 1): 10} == restored.offsets
    assert {(TOPIC, 0): "second", (TOPIC, 1): "first"} == restored.topic_ids


async def test_who_does_not_know_the_id_leaves_it_as_it_is(world, store):
    await store.commit(a_unit(skipped=[(TOPIC, 0, 9)], topic_ids={TOPIC: "first"}))
    await store.commit(a_unit(2, skipped=[(TOPIC, 0, 4)]))

    restored = await (await opened(world)).restore()

    assert ({(TOPIC, 0): 10}, {(TOPIC, 0): "first"}) == (restored.offsets, restored.topic_ids)


async def test_a_deadline_has_no_offset(world, store):
    deadline = msgspec.structs.replace(a_message(1), offset=-1)

    await store.commit(a_unit(consumed=[deadline]))

    restored = await (await opened(world)).restore()
    assert {} == restored.offsets
    assert [deadline.event.id] == restored.recent_ids


async def test_rows_above_the_watermark_are_restored_in_order(world, store):
    await store.commit(a_unit(1, outbox=[a_row(1), a_row(2)]))
    await store.commit(a_unit(2, outbox=[a_row(3), a_row(4)], acked_seq=2))

    restored = await (await opened(world)).restore()

    assert [3, 4] == [row.seq for row in restored.unacked]
    assert (2, 5) == (restored.acked_seq, restored.next_seq)


async def test_the_watermark_never_goes_back(world, store):
    await store.commit(a_unit(1, outbox=[a_row(1), a_row(2)]))
    await store.commit(a_unit(2, acked_seq=2))
    await store.commit(a_unit(3, acked_seq=1))

    restored = await (await opened(world)).restore()

    assert (2, []) == (restored.acked_seq, restored.unacked)


async def test_headers_come_back_byte_by_byte(world, store):
    row = replace(a_row(1), headers=[("x", bytes(range(256))), ("x", b"")], value=b"\x00\xff")

    await store.commit(a_unit(outbox=[row]))

    assert [row] == (await (await opened(world)).restore()).unacked


async def test_the_inbox_knows_what_was_consumed(world, store):
    await store.commit(a_unit(consumed=[a_message(1), a_message(2)]))

    seen = await store.seen([an_event(2).id, an_event(3).id])

    assert {an_event(2).id} == seen


async def test_nothing_of_now_is_forgotten_by_maintenance(world, store):
    await store.commit(full_unit())

    await store.maintain()

    assert {an_event(1).id} == await store.seen([an_event(1).id])
    assert [a_row(1), a_row(2)] == (await (await opened(world)).restore()).unacked


async def test_a_unit_without_rows_still_checks_the_lease(world, store):
    await opened(world)

    with pytest.raises(LeaseLost):
        await store.commit(a_unit())
