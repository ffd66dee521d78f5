"""The consumer loop: what each kind of error, duplicate and stop does to a batch."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from msgspec.structs import replace

from shared.adapters.memory import MemoryLease
from shared.adapters.memory_log import MemorySubscription
from shared.events.deadlines import deadline_message
from shared.events.topics import NODE_FACTS, team_submissions
from shared.events.workloads import CancelWorkload, HoldWorkload
from shared.ports.errors import MusterError, Rejected, Stale, Transient, UnknownCommit
from shared.runtime import dedupe
from shared.runtime import loop as loop_module
from shared.runtime import session as session_module
from tests.support.protocol import a_record, a_row, a_submission, a_unit, an_event
from tests.unit.runtime.world import SHARD, TOPIC, SlowPublisher, Telling, World


@pytest.fixture
async def world(monkeypatch):
    world = World(monkeypatch)
    yield world
    if world.task is not None:
        world.task.cancel()
        await asyncio.gather(world.task, return_exceptions=True)


def names(*numbers):
    """Workloads of the messages `numbers`."""
    return [f"w{number}" for number in numbers]


async def test_messages_pass_in_order_with_their_effects(world):
    world.feed_numbers(*range(20))
    world.begin(batch=7)
    await world.read_to(20)
    await world.end()

    assert names(*range(20)) == world.out() == list(world.passed())
    assert all(len(batch) <= 7 for batch in world.handler.batches)


MALFORMED = {
    "no attributes": {"headers": ()},
    "unknown type": {"headers": (("ce_id", b"x"), ("ce_type", b"y"))},
    "broken JSON": {"value": b"{"},
    "no value": {"value": b""},
    "NUL in the value": {"value": b'{"workload_id":"a\\u0000","team":"t"}'},
    "a header that is null": {"headers": (("ce_id", None),)},
    "a header that is not text": {"headers": (("ce_id", b"\xff"),)},
    "NUL in the key": {"key": b"a\x00b", "value": b""},
    "a key that is not text": {"key": b"\xff\xfe", "value": b""},
}


@pytest.mark.parametrize("fault", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_message_goes_to_the_dead_letters_and_the_partition_goes_on(
    world, fault
):
    world.feed_numbers(0)
    world.feed_raw(replace(a_record(an_event(1), 0), **fault))
    world.feed_numbers(2)
    world.begin()
    await world.read_to(3)

    (letter,) = world.letters()
    assert (TOPIC, "0", "1") == (
        letter["source_topic"],
        letter["source_partition"],
        letter["source_offset"],
    )
    assert letter["error_message"]
    assert names(0, 2) == world.out()
    assert 1 == world.handler.loads


BAD_ATTRIBUTES = {
    "ce_id": b"not-a-uuid",
    "ce_time": b"yesterday",
    "ce_sequence": b"many",
    "ce_type": b"muster.unheard.of.v1",
}


@pytest.mark.parametrize("name", BAD_ATTRIBUTES)
async def test_an_attribute_that_cannot_be_read_is_named_in_the_dead_letter(world, name):
    record = a_record(an_event(0), 0)
    headers = tuple(
        (key, BAD_ATTRIBUTES[name] if key == name else value) for key, value in record.headers
    )
    world.feed_raw(replace(record, headers=headers))
    world.begin()
    await world.read_to(1)

    assert name in world.letters()[0]["error_message"]


async def test_a_duplicate_inside_a_batch_is_decided_once(world):
    world.feed_numbers(1, 2, 1, 1)
    world.begin()
    await world.read_to(4)

    assert [names(1, 2)] == world.handler.batches
    assert names(1, 2) == world.out()


async def test_a_duplicate_of_an_earlier_batch_moves_only_the_offset(world):
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    world.feed_numbers(1)
    await world.read_to(2)

    assert {"w1": 1} == world.passed()
    assert 1 == world.handler.loads


async def test_a_duplicate_of_an_earlier_life_is_known(world):
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    await world.end()
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(3)

    assert {"w1": 1, "w2": 1} == world.passed()


@pytest.mark.parametrize("poison", [0, 3, 7])
async def test_the_batch_is_halved_until_the_poison_message_stands_alone(world, poison):
    world.handler.poison = {f"w{poison}"}
    world.feed_numbers(*range(8))
    world.begin()
    await world.read_to(8)

    (letter,) = world.letters()
    assert str(poison) == letter["source_offset"]
    assert "poison" in letter["error_message"]
    rest = [number for number in range(8) if number != poison]
    assert names(*rest) == world.out() == list(world.passed())


async def test_every_poison_message_and_every_malformed_one_has_one_dead_letter(world):
    world.handler.poison = set(names(2, 5))
    world.feed_numbers(0)
    world.feed_raw(replace(a_record(an_event(1), 0), value=b"{"))
    world.feed_numbers(2, 3, 4, 5)
    world.feed_raw(replace(a_record(an_event(6), 0), value=b"{"))
    world.begin()
    await world.read_to(7)

    assert ["1", "2", "5", "6"] == sorted(letter["source_offset"] for letter in world.letters())
    assert names(0, 3, 4) == world.out()


async def test_a_crash_in_the_middle_of_halving_loses_no_dead_letter(world):
    world.handler.poison = {"w3"}
    world.feed_raw(replace(a_record(an_event(0), 0), value=b"{"))
    world.feed_numbers(1, 2, 3, 4)
    world.faults.extend([None, None, UnknownCommit("gone")])  # rejected, first half, second half
    world.begin()
    await world.read_to(5)

    assert {"0", "3"} == {letter["source_offset"] for letter in world.letters()}
    assert {"w1": 1, "w2": 1, "w4": 1} == world.passed()


async def test_a_poison_deadline_is_buried_and_does_not_come_back(world):
    world.handler.poison = {"w1"}
    world.handler.deadlines = [deadline_message("bind", "w1", 1, 1_700_000_000_000)]
    world.begin()
    await world.until(lambda: len(world.shard.inbox) == 1)
    world.feed_numbers(2)
    await world.read_to(1)

    assert names(2) == world.out()
    assert [["w1"], ["w2"]] == world.handler.batches


async def test_a_commit_that_happened_unseen_is_not_done_again(world):
    world.late_faults.append(UnknownCommit("connection lost"))
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(2)

    assert 2 == world.handler.loads
    assert {"w1": 1, "w2": 1} == world.passed()
    assert names(1, 2) == world.out()


async def test_an_unknown_commit_that_did_not_happen_is_decided_again(world):
    world.faults.append(UnknownCommit("connection lost"))
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(2)

    assert 2 == world.handler.loads
    assert [names(1, 2), names(1, 2)] == world.handler.batches
    assert names(1, 2) == world.out()


async def test_a_transient_error_tries_the_same_unit_again(world):
    world.faults.extend([Transient("deadlock"), Transient("deadlock")])
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 1 == world.handler.loads
    assert [names(1)] == world.handler.batches


async def test_an_error_that_stays_transient_begins_a_new_life(world):
    world.faults.extend([Transient("deadlock")] * 5)
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 2 == world.handler.loads
    assert {"w1": 1} == world.passed()


async def test_a_stale_unit_is_decided_again_after_a_reload(world):
    world.faults.append(Stale("version"))
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 2 == world.handler.loads
    assert [names(1), names(1)] == world.handler.batches


async def test_protocol_rows_that_are_rejected_do_not_stop_later_lives(world):
    world.faults.append(Rejected("the watermark"))
    world.feed_raw(replace(a_record(an_event(0), 0), value=b"{"))
    world.begin()
    await world.read_to(1)

    assert 1 == len(world.letters())


def _idle_every_other_time():
    """A poll that finds nothing at first in every life: that is no success."""
    poll, calls = MemorySubscription.poll, itertools.count()

    async def idle(self, max_messages, wait_seconds):
        return [] if next(calls) % 2 == 0 else await poll(self, max_messages, wait_seconds)

    return idle


async def test_protocol_rows_that_are_always_rejected_end_the_process(world, monkeypatch):
    monkeypatch.setattr(loop_module, "FAILED_LIVES_MAX", 3)
    monkeypatch.setattr(MemorySubscription, "poll", _idle_every_other_time())
    world.faults.extend([Rejected("the watermark")] * 1_000)
    world.feed_raw(replace(a_record(an_event(0), 0), value=b"{"))
    world.begin()

    with pytest.raises(MusterError):
        await asyncio.wait_for(world.task, 5)
    assert 1 < world.handler.loads < 20


async def test_messages_that_the_handler_does_not_read_are_passed_over(world):
    world.handler.readable = [CancelWorkload]
    other = HoldWorkload(workload_id="w2", team="t")
    world.feed(an_event(1), an_event(2, other), an_event(3), an_event(4, other))
    world.begin()
    await world.read_to(4)

    assert names(1, 3) == world.out()
    assert {an_event(1).id, an_event(3).id} == set(world.shard.inbox)


async def test_offsets_of_messages_passed_over_are_noted_once_a_second(world):
    world.handler.readable = []
    world.feed_numbers(1, 2)
    world.begin()
    await asyncio.sleep(0.1)
    assert {} == world.shard.offsets

    await world.read_to(2)

    assert not any(world.handler.batches)


async def test_an_idle_holder_notices_that_it_was_overtaken(world, monkeypatch):
    monkeypatch.setattr(session_module, "RENEW_SECONDS", 0.01)
    world.begin()
    await world.until(lambda: world.loop.ready)
    await MemoryLease(world.database, SHARD, "a").try_acquire()

    await world.until(lambda: world.shard.epoch == 3)


async def test_a_holder_that_was_overtaken_decides_again_under_a_new_epoch(world):
    world.begin()
    await world.until(lambda: world.loop.ready)
    await MemoryLease(world.database, SHARD, "a").try_acquire()
    world.feed_numbers(1)
    await world.read_to(1)

    assert 3 == world.shard.epoch
    assert {"w1": 1} == world.passed()


async def test_without_a_lease_nothing_is_read(world):
    await MemoryLease(world.database, SHARD, "b").try_acquire()
    world.feed_numbers(1)
    world.begin()
    await asyncio.sleep(0.05)
    assert [] == world.handler.batches

    world.clock.advance(60)
    await world.read_to(1)

    assert {"w1": 1} == world.passed()


async def test_work_of_the_handler_s_own_is_suspended_before_every_reload(world):
    world.faults.append(Stale("version"))
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    assert 1 == world.handler.suspended

    await world.end()

    assert 2 == world.handler.suspended


async def test_too_many_failed_lives_in_a_row_end_the_process(world, monkeypatch):
    monkeypatch.setattr(loop_module, "FAILED_LIVES_MAX", 3)

    async def never(reader):
        world.handler.loads += 1
        raise Transient("no database")

    monkeypatch.setattr(world.handler, "load", never)
    world.begin()

    with pytest.raises(MusterError):
        await asyncio.wait_for(world.task, 5)
    assert 4 == world.handler.loads


async def test_a_deadline_that_is_due_is_decided_and_consumed_like_a_message(world):
    deadline = deadline_message("bind", "w9", 2, 1_700_000_000_000)
    world.handler.deadlines = [deadline]
    world.begin()
    await world.until(lambda: deadline.event.id in world.shard.inbox)

    assert [["w9"]] == world.handler.batches
    assert {} == world.shard.offsets


class ByVersion(Telling):
    """Goes by versions."""

    by_version = True


async def test_a_handler_that_goes_by_versions_has_only_deadlines_in_its_inbox(world):
    deadline = deadline_message("turn", "w9", 1, 1_700_000_000_000)
    world.handler = ByVersion()
    world.handler.deadlines = [deadline]
    world.feed_numbers(1, 2, 1)
    world.feed_raw(replace(a_record(an_event(4), 0), value=b"{"))
    world.begin()
    await world.read_to(4)
    await world.until(lambda: deadline.event.id in world.shard.inbox)

    assert [deadline.event.id] == list(world.shard.inbox)
    assert {"": 3, "w9": 1} == world.passed(), "what comes twice is read twice, nameless"
    assert 1 == len(world.letters())


async def test_who_goes_by_versions_reads_on_beyond_what_memory_remembers(world, monkeypatch):
    monkeypatch.setattr(dedupe, "RECENT_IDS_MAX", 10)
    world.handler = ByVersion()
    world.feed_numbers(*range(50))
    world.begin(batch=7)
    await world.read_to(50)

    assert {"": 50} == world.passed()


async def test_a_topic_that_the_handler_asks_for_later_is_read_from_its_beginning(world):
    world.feed(an_event(7), topic=NODE_FACTS.name)
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    world.handler.wanted.append((NODE_FACTS, [0]))
    world.feed_numbers(2)
    await world.read_to(1, NODE_FACTS.name)

    assert {"w1": 1, "w2": 1, "w7": 1} == world.passed()


async def test_on_a_team_s_topic_the_team_s_id_is_only_a_correlation(world):
    topic = team_submissions("red")
    world.handler.wanted = [(topic, [0])]
    event = an_event(1, a_submission(), id="my key")
    world.feed(event, event, topic=topic.name)
    world.begin()
    await world.read_to(2, topic.name)

    messages = list(world.shard.inbox.values())
    assert ["my key", "my key"] == [one.event.correlation_id for one in messages]
    assert 2 == len(world.shard.inbox)


async def test_what_a_dead_holder_had_committed_is_published_first(world):
    await MemoryLease(world.database, SHARD, "a").try_acquire()
    session = world.session()
    await session._lease.try_acquire()
    await session._store.commit(
        a_unit(outbox=[a_row(1, topic="old.facts.v1"), a_row(2, topic="old.facts.v1")])
    )
    world.feed_numbers(3)
    world.begin()
    await world.read_to(1)

    assert [1, 2, 3] == world.published_seqs()


async def test_a_graceful_stop_publishes_all_writes_the_watermark_and_frees_the_lease(world):
    world.publisher = SlowPublisher(world.log)
    world.publisher.gate.clear()
    world.feed_numbers(1, 2, 3)
    world.begin()
    await world.until(lambda: len(world.shard.outbox) == 3)
    world.loop.stop()
    await asyncio.sleep(0.05)
    assert not world.task.done()

    world.publisher.gate.set()
    await asyncio.wait_for(world.task, 5)

    assert names(1, 2, 3) == world.out()
    assert 3 == world.shard.acked_seq
    assert await MemoryLease(world.database, SHARD, "b").try_acquire()


async def test_while_the_relay_is_full_nothing_is_read(world, monkeypatch):
    monkeypatch.setattr("shared.runtime.relay.QUEUED_BYTES_MAX", 100)
    world.publisher = SlowPublisher(world.log)
    world.publisher.gate.clear()
    world.feed_numbers(*range(30))
    world.begin(batch=10)
    await world.until(lambda: len(world.shard.outbox) == 10)
    await asyncio.sleep(0.05)
    assert 10 == world.shard.offsets[TOPIC, 0]

    world.publisher.gate.set()
    await world.read_to(30)

    assert names(*range(30)) == world.out()


@pytest.mark.parametrize("point", ["unit.before_commit", "unit.after_commit", "loop.polled"])
async def test_an_error_at_a_failpoint_loses_and_doubles_nothing(world, point):
    world.failpoints = type(world.failpoints).parse(f"{point}:0.3:raise", seed=1)
    world.feed_numbers(*range(30))
    world.begin(batch=3)
    await world.read_to(30)

    assert dict.fromkeys(names(*range(30)), 1) == world.passed()
    assert names(*range(30)) == list(dict.fromkeys(world.out()))
