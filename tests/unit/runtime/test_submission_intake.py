"""Records of a team's own topic: whatever they hold, admission is told what to answer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.events.malformed import SubmissionMalformed
from shared.events.topics import team_submissions
from shared.events.workloads import SubmitWorkload
from shared.runtime import telemetry
from shared.runtime.dedupe import RecentIds
from shared.runtime.intake import sort_out
from tests.support.protocol import a_record, a_submission, an_event

TOPIC = team_submissions("red").name
RULE = "must be 1 to 200 printable ASCII characters"


async def nothing(identifiers):
    return set()


def sent(key="k1", **headers):
    """A record of the team; a header of None is left out. `_` stands for `-` in names."""
    record = a_record(an_event(1, a_submission(), id=key), 7, topic=TOPIC)
    changed = {name.replace("content_type", "content-type"): one for name, one in headers.items()}
    kept = {**dict(record.headers), **changed}
    return replace(record, headers=tuple((k, v) for k, v in kept.items() if v is not None))


async def read(record):
    """The one message of it, and how many dead letters."""
    batch = await sort_out([record], RecentIds(), nothing)
    (message,) = batch.fresh
    return message, len(batch.dead)


async def told(record):
    """The answer: (field, value, rule) of each error, and the key."""
    message, dead = await read(record)
    assert isinstance(message.event.payload, SubmissionMalformed)
    assert (TOPIC, 7, 1) == (message.topic, message.offset, dead)
    errors = message.event.payload.errors
    return [(one.field, one.value, one.rule) for one in errors], message.event.correlation_id


@pytest.mark.parametrize(
    ("key", "value", "answered"),
    [
        ("ключ", "ключ", "ключ"),
        ("a\nb", "a\ufffdb", "a\ufffdb"),
        ("a\x00b", "a\ufffdb", "a\ufffdb"),
        ("x" * 201, "x" * 100, "x" * 201),
        ("x" * 9_000, "x" * 100, "x" * 201),
    ],
    ids=["not ASCII", "two lines", "NUL", "too long", "far too long"],
)
async def test_a_key_that_is_none_is_answered_with_the_rule(key, value, answered):
    errors, correlation = await told(sent(key))

    assert [("ce_id", value, RULE)] == errors
    assert answered == correlation


async def test_bytes_that_are_no_text_are_answered():
    errors, correlation = await told(sent(ce_id=b"\xff1"))

    assert [("headers", "", "must be UTF-8 text")] == errors
    assert "\ufffd1" == correlation


async def test_the_time_may_be_left_out_as_in_any_cloudevent():
    message, dead = await read(sent(ce_time=None))

    assert isinstance(message.event.payload, SubmitWorkload)
    assert ("k1", 0) == (message.event.correlation_id, dead)
    assert message.event.time_ms > 0


async def test_a_time_that_is_none_is_answered():
    errors, _ = await told(sent(ce_time=b"yesterday"))

    assert ["ce_time"] == [field for field, _, _ in errors]


async def test_a_header_that_is_missing_is_told_by_its_name():
    errors, _ = await told(sent(ce_source=None))

    assert [("ce_source", "", "header is missing")] == errors


async def test_a_record_without_headers_is_answered_by_its_key_with_all_that_is_missing():
    record = replace(sent(), headers=(), key=b"k9")

    errors, correlation = await told(record)

    assert "k9" == correlation
    assert ["ce_type", "ce_id", "ce_source"] == [field for field, _, _ in errors]


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents+json",
        b"application/cloudevents+json; charset=UTF-8",
        b"Application/CloudEvents-batch+json",
    ],
)
async def test_structured_mode_is_answered_with_what_is_expected(content_type):
    structured = replace(
        sent(), headers=(("content-type", content_type),), value=b'{"id":"k1"}', key=b"k1"
    )

    ((field, value, rule),), correlation = await told(structured)

    assert ("content-type", content_type.decode(), "k1") == (field, value, correlation)
    assert "must be application/json" in rule
    assert all(name in rule for name in ("binary mode", "ce_id", "ce_type", "ce_source", "spec"))


@pytest.mark.parametrize("content_type", [b"application/json", b"text/plain", b"", None])
async def test_of_binary_mode_the_content_type_is_not_looked_at(content_type):
    message, dead = await read(sent(content_type=content_type))

    assert isinstance(message.event.payload, SubmitWorkload)
    assert 0 == dead


async def test_refused_submissions_are_counted_apart_from_dead_letters(world):
    def counted():
        of = world.handler.name
        counters = (telemetry.REFUSED_SUBMISSIONS, telemetry.DEAD_LETTERS)
        return [int(one.labels(of)._value.get()) for one in counters]

    before = counted()
    world.handler.wanted = [*world.handler.wanted, (team_submissions("red"), [0])]
    world.feed_raw(replace(a_record(an_event(1), 0), value=b"{"))
    for _ in range(3):
        world.feed_raw(sent("ключ"))
    world.begin()
    await world.until(lambda: (len(world.letters(TOPIC)), len(world.letters())) == (3, 1))

    assert [3, 1] == [after - early for after, early in zip(counted(), before, strict=True)]
