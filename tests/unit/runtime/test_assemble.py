"""From an outcome to the unit of work: ids that come again, dense numbers, chained digests."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.model.reason import Reason
from shared.events.codec import MAX_VALUE_BYTES, encode_payload
from shared.events.quotas import NominationWithdrawn
from shared.events.topics import QUOTA_FACTS, SUBMISSION_BYTES_MAX, team_submissions
from shared.events.workloads import PlacementRefused
from shared.ports.errors import Rejected
from shared.runtime.assemble import Counters, DeadLetter, assemble
from shared.runtime.handler import Change, Emit, Outcome
from tests.support.protocol import FIRST_MS, a_message

START = Counters(next_seq=5, next_unit=3, next_audit=9, last_digest=b"before")

REFUSED: dict[str, Any] = {
    "workload_id": "w1",
    "team": "red",
    "queue": "red",
    "nomination": 1,
    "reason": Reason.NODES_UNHEALTHY,
    "next_step": "",
}


def an_emit(cause, subject="w1", nomination=1):
    return Emit(
        payload=NominationWithdrawn(workload_id=subject, nomination=nomination),
        topic=QUOTA_FACTS,
        subject=subject,
        cause=cause,
    )


def a_change(cause, version=1, actor=""):
    return Change(subject="w1", version=version, before="a", after="b", cause=cause, actor=actor)


def unit_of(outcome, *, now_ms=FIRST_MS, dead=()):
    return assemble("quota", START, outcome, consumed=[], dead=dead, now_ms=now_ms)


def test_the_same_outcome_at_another_time_has_the_same_event_ids():
    outcome = Outcome(emits=[an_emit(a_message(1)), an_emit(a_message(2))])

    first, second = unit_of(outcome), unit_of(outcome, now_ms=FIRST_MS + 999)

    assert [row.event_id for row in first.outbox] == [row.event_id for row in second.outbox]


def test_events_of_one_cause_differ_and_so_do_events_of_two_causes():
    emits = [an_emit(a_message(1)), an_emit(a_message(2)), an_emit(a_message(1))]

    unit = unit_of(Outcome(emits=emits))

    assert 3 == len({row.event_id for row in unit.outbox})


def test_numbers_are_dense_over_facts_and_dead_letters():
    letter = DeadLetter(
        topic="t", partition=0, offset=1, key="k", headers=(), value=b"", error="why"
    )

    unit = unit_of(Outcome(emits=[an_emit(a_message(1))] * 2), dead=[letter])

    assert [5, 6, 7] == [row.seq for row in unit.outbox]
    assert "t.dlq" == unit.outbox[-1].topic
    after = START.after(unit)
    assert (8, 4, 9) == (after.next_seq, after.next_unit, after.next_audit)


def test_a_unit_without_rows_only_counts_itself():
    after = START.after(unit_of(Outcome()))

    assert (5, 4, 9, b"before") == (
        after.next_seq,
        after.next_unit,
        after.next_audit,
        after.last_digest,
    )


def test_headers_name_the_cause_and_carry_the_correlation_on():
    cause = a_message(1, correlation_id="first", traceparent="00-1-2-01")

    headers = dict(unit_of(Outcome(emits=[an_emit(cause)])).outbox[0].headers)

    assert cause.event.id.encode() == headers["ce_causationid"]
    assert (b"first", b"00-1-2-01", b"5") == (
        headers["ce_correlationid"],
        headers["traceparent"],
        headers["ce_sequence"],
    )


def test_each_audit_digest_depends_on_every_row_before_it():
    def digests(*changes):
        return [row.digest for row in unit_of(Outcome(changes=list(changes))).audits]

    same = a_change(a_message(2), 2)
    honest = digests(a_change(a_message(1)), same)
    forged = digests(a_change(a_message(1), actor="mallory"), same)

    assert honest[0] != forged[0]
    assert honest[1] != forged[1]


def test_audit_numbers_go_on_from_the_counters():
    unit = unit_of(Outcome(changes=[a_change(a_message(1)), a_change(a_message(2), 2)]))

    assert [9, 10] == [row.seq for row in unit.audits]
    assert 11 == START.after(unit).next_audit


def test_an_error_message_is_cut_and_a_key_is_made_storable():
    letter = DeadLetter(
        topic="t", partition=0, offset=1, key="a\x00b", headers=(), value=b"", error="x" * 5_000
    )

    row = unit_of(Outcome(), dead=[letter]).outbox[0]

    assert "a\ufffdb" == row.key
    assert 1_000 == len(dict(row.headers)["error_message"])


def test_a_dead_letter_always_fits_the_broker():
    letter = DeadLetter(
        topic="t",
        partition=0,
        offset=1,
        key="k" * 100_000,
        headers=(("ce_id", b"x" * 2_000_000),),
        value=b"y" * 2_000_000,
        error="too much",
    )

    row = unit_of(Outcome(), dead=[letter]).outbox[0]

    size = len(row.value) + len(row.key) + sum(len(value) for _, value in row.headers)
    assert size < 1_500_000
    assert b"2000000" == dict(row.headers)["source_value_bytes"]


@pytest.mark.parametrize(
    ("beyond", "topic"), [(0, QUOTA_FACTS), (1, QUOTA_FACTS), (1, team_submissions("red"))]
)
def test_a_row_that_its_topic_or_its_readers_do_not_take_is_refused(beyond, topic):
    empty = len(encode_payload(PlacementRefused(**REFUSED, message="")))
    largest = MAX_VALUE_BYTES if topic is QUOTA_FACTS else SUBMISSION_BYTES_MAX
    payload = PlacementRefused(**REFUSED, message="x" * (largest - empty + beyond))
    emit = Emit(payload=payload, topic=topic, subject="w1", cause=a_message(1))

    if not beyond:
        assert largest == len(unit_of(Outcome(emits=[emit])).outbox[0].value)
        return
    with pytest.raises(Rejected, match=rf"of w1: {largest + 1} bytes, {topic.name} takes \d+"):
        unit_of(Outcome(emits=[emit]))
