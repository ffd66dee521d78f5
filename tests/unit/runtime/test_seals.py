"""When the audit is sealed, and what a seal says."""

from __future__ import annotations

from shared.events.audits import AuditSealed
from shared.events.codec import decode_payload
from shared.events.topics import AUDIT_FACTS
from shared.runtime.seals import SEAL_SECONDS, Chain, Seals
from tests.support.protocol import FIRST_MS, an_audit

TOPIC = AUDIT_FACTS["placement"]


def a_chain(sequence: int) -> Chain:
    return Chain(sequence=sequence, digest=b"\x01\x02")


def the_seals() -> Seals:
    return Seals("placement", "cell-3", TOPIC, 3)


def test_a_life_begins_with_a_seal_of_what_it_finds():
    seals = the_seals()

    assert seals.due(a_chain(7), 100.0)
    assert not seals.due(a_chain(0), 100.0)


def test_a_second_later_what_was_written_since_is_due():
    seals = the_seals()
    seals.sealed(a_chain(7), 100.0)

    assert not seals.due(a_chain(7), 100.0 + SEAL_SECONDS)
    assert not seals.due(a_chain(8), 99.9 + SEAL_SECONDS)
    assert seals.due(a_chain(8), 99.9 + SEAL_SECONDS, at_once=True)
    assert seals.due(a_chain(8), 100.0 + SEAL_SECONDS)


def test_the_next_life_seals_again():
    seals = the_seals()
    seals.sealed(a_chain(7), 100.0)
    seals.begin()

    assert seals.due(a_chain(7), 100.0)


def test_a_service_without_a_topic_seals_nothing():
    assert not Seals("quota", "cell-0", None, 0).due(a_chain(7), 100.0, at_once=True)


def test_a_seal_says_how_far_the_audit_goes():
    seals = the_seals()
    seals.sealed(a_chain(5), 100.0)

    row = seals.row(a_chain(7), 12, FIRST_MS)

    assert (row.topic, row.partition, row.seq, row.key) == (TOPIC.name, 3, 12, "cell-3")
    assert row.value == (b'{"shard":"cell-3","sequence":7,"digest":"0102","count":2}')
    assert AuditSealed is type(decode_payload("muster.audit.sealed.v1", row.value))


def test_a_chain_goes_on_with_the_rows_that_are_written():
    chain = a_chain(7)

    assert chain is chain.after([])
    assert Chain(sequence=9, digest=b"d9") == chain.after([an_audit(8), an_audit(9, b"d9")])
