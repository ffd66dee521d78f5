"""Duplicates and untrusted senders: what is asked of memory and what of the inbox."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.events.envelope import event_id, time_of_id
from shared.events.malformed import SubmissionMalformed
from shared.events.topics import NODE_FACTS, USAGE_FACTS, team_submissions
from shared.runtime import dedupe
from shared.runtime.dedupe import RecentIds
from shared.runtime.intake import payloads_of, sort_out
from tests.support.protocol import FIRST_MS, a_record, a_submission, an_event


class Inbox:
    """Answers what was consumed, and remembers what it was asked."""

    def __init__(self, *known):
        self.known = set(known)
        self.asked = []

    async def seen(self, identifiers):
        self.asked.extend(identifiers)
        return {one for one in identifiers if one in self.known}


def ids(*numbers):
    """Ids of the events `numbers`; their time is FIRST_MS plus the number."""
    return [an_event(number).id for number in numbers]


def records(*numbers):
    """The events `numbers`, as records of the log."""
    return [a_record(an_event(number), offset) for offset, number in enumerate(numbers)]


def fresh(batch):
    """Ids that go on to a decision."""
    return [one.event.id for one in batch.fresh]


async def test_ids_younger_than_memory_are_not_asked_of_the_inbox():
    inbox = Inbox()
    recent = RecentIds(ids(10, 11), complete=False)

    batch = await sort_out(records(11, 12), recent, inbox.seen)

    assert ids(12) == fresh(batch)
    assert [] == inbox.asked


async def test_an_id_older_than_memory_is_asked_of_the_inbox():
    inbox = Inbox(*ids(3))
    recent = RecentIds(ids(10, 11), complete=False)

    batch = await sort_out(records(3, 4, 12), recent, inbox.seen)

    assert ids(3, 4) == inbox.asked
    assert ids(4, 12) == fresh(batch)
    assert 1 == batch.duplicates
    assert [("submission.commands.v1", 0, 0)] == batch.skipped


async def test_when_memory_holds_every_id_the_inbox_is_never_asked():
    inbox = Inbox()

    batch = await sort_out(records(3), RecentIds(ids(10)), inbox.seen)

    assert ids(3) == fresh(batch)
    assert [] == inbox.asked


async def test_what_memory_forgets_is_asked_of_the_inbox_from_then_on(monkeypatch):
    monkeypatch.setattr(dedupe, "RECENT_IDS_MAX", 3)
    inbox = Inbox(*ids(1))
    recent = RecentIds()
    recent.add(ids(1, 2, 3, 4))

    batch = await sort_out(records(1, 2, 5), recent, inbox.seen)

    assert ids(1) == inbox.asked
    assert ids(5) == fresh(batch)


async def test_the_horizon_does_not_fall_when_an_old_id_is_forgotten(monkeypatch):
    monkeypatch.setattr(dedupe, "RECENT_IDS_MAX", 2)
    recent = RecentIds()
    recent.add(ids(9, 1, 10, 11))

    assert FIRST_MS + 9 == recent.horizon_ms
    assert recent.uncertain(*ids(9))


async def test_of_equal_ids_in_one_batch_the_first_goes_on():
    batch = await sort_out(records(1, 1, 2, 1), RecentIds(), Inbox().seen)

    assert ids(1, 2) == fresh(batch)
    assert [1, 3] == [offset for _, _, offset in batch.skipped]


async def test_a_team_s_message_gets_its_id_from_its_place_and_its_time_from_the_broker():
    topic = team_submissions("red").name
    record = a_record(an_event(5, a_submission(), id="their key", time_ms=5), 17, topic=topic)

    batch = await sort_out([replace(record, timestamp_ms=FIRST_MS)], RecentIds(), Inbox().seen)

    (message,) = batch.fresh
    assert event_id(FIRST_MS, f"{topic}/0/17", "broker", 0) == message.event.id
    assert FIRST_MS == message.event.time_ms == time_of_id(message.event.id)
    assert "their key" == message.event.correlation_id


async def test_a_team_cannot_hide_a_message_behind_an_id_that_was_used():
    topic = team_submissions("red").name
    used = an_event(5, a_submission())
    inbox = Inbox(used.id)
    records = [a_record(used, offset, topic=topic) for offset in range(2)]

    batch = await sort_out(records, RecentIds([used.id]), inbox.seen)

    assert 2 == len(batch.fresh)


@pytest.mark.parametrize(
    "identifier",
    [
        "x",
        "0" * 36,
        "-" * 36,
        "00000000-0000-0000-0000-00000000000g",
        "0000000-00000-0000-0000-000000000000",
        "AAAAAAAA-0000-0000-0000-000000000000",
        "00000000-0000-0000-0000-000000000000\n",
    ],
)
async def test_an_id_that_is_not_a_uuid_as_the_database_writes_it_is_malformed(identifier):
    batch = await sort_out([a_record(an_event(1, id=identifier), 0)], RecentIds(), Inbox().seen)

    assert [] == batch.fresh
    assert "ce_id" in batch.dead[0].error


async def test_a_team_whose_record_cannot_be_read_is_told_and_the_record_is_a_dead_letter():
    topic = team_submissions("red").name
    record = replace(
        a_record(an_event(1, a_submission(), id="their key"), 7, topic=topic), value=b"{oops"
    )

    batch = await sort_out([record], RecentIds(), Inbox().seen)

    (message,) = batch.fresh
    assert isinstance(message.event.payload, SubmissionMalformed)
    assert "must be JSON" in message.event.payload.errors[0].rule
    assert "their key" == message.event.correlation_id
    assert (topic, 7) == (message.topic, message.offset)
    assert b"{oops" == batch.dead[0].value


async def test_a_type_that_nobody_reads_only_moves_the_offset():
    wanted, other = an_event(1), an_event(2)
    passed_over = {dict(a_record(other, 0).headers)["ce_type"]}

    batch = await sort_out([a_record(wanted, 0)], RecentIds(), Inbox().seen, passed_over)

    assert [] == batch.fresh
    assert [0] == [offset for _, _, offset in batch.skipped]


async def test_nothing_on_a_team_s_topic_is_passed_over_in_silence():
    topic = team_submissions("red").name
    record = a_record(an_event(1, id="their key"), 0, topic=topic)
    passed_over = {dict(record.headers)["ce_type"]}

    batch = await sort_out([record], RecentIds(), Inbox().seen, passed_over)

    payload = batch.fresh[0].event.payload
    assert isinstance(payload, SubmissionMalformed)
    (error,) = payload.errors
    assert ("ce_type", "muster.cancel.workload.v1") == (error.field, error.value)
    assert 1 == len(batch.dead)


async def test_records_from_before_a_topic_is_wanted_only_move_the_offset():
    early, late = (replace(one, timestamp_ms=FIRST_MS + n) for n, one in enumerate(records(1, 2)))

    batch = await sort_out(
        [early, late], RecentIds(), Inbox().seen, since_ms=lambda _: FIRST_MS + 1
    )

    assert (ids(2), [0]) == (fresh(batch), [offset for _, _, offset in batch.skipped])


@pytest.mark.parametrize(("topic", "dead"), [(USAGE_FACTS, 0), (NODE_FACTS, 1)])
@pytest.mark.parametrize("by_version", [False, True])
async def test_a_sample_that_cannot_be_read_is_counted_and_no_dead_letter(topic, dead, by_version):
    record = replace(a_record(an_event(1), 4, topic=topic.name), value=b"{oops")
    if by_version:
        batch = payloads_of([record], ())
    else:
        batch = await sort_out([record], RecentIds(), Inbox().seen)

    assert (dead, 1 - dead) == (len(batch.dead), batch.unreadable)
    assert [(topic.name, 0, 4)] == batch.skipped
    assert not batch.fresh
