"""The audit against its seals: what the chain of digests alone would not tell (I7)."""

import pytest

from operations.check.audit import SEALED, UNSEALED_MS, check_chain, check_seals, digest_of
from operations.check.model import Evidence, Log, Record

NOW_MS = 1_700_000_000_000


def a_row(seq: int, before: bytes, actor: str = "", at_ms: int = NOW_MS - 60_000) -> dict:
    row = {
        "schema": "placement",
        "shard": "cell-0",
        "seq": seq,
        "event_id": f"e{seq}",
        "subject": f"w{seq}",
        "version": 1,
        "kind": "placement",
        "before": "",
        "after": "queued",
        "actor": actor,
        "at_ms": at_ms,
    }
    return row | {"digest": digest_of(before, row)}


def rows_of(count: int, actor: str = "", at_ms: int = NOW_MS - 60_000) -> list[dict]:
    rows: list[dict] = []
    for seq in range(1, count + 1):
        rows.append(a_row(seq, rows[-1]["digest"] if rows else b"", actor, at_ms))
    return rows


def a_seal(row: dict, offset: int) -> Record:
    return Record(
        topic="audit-placement.facts.v1",
        partition=0,
        offset=offset,
        id=f"s{offset}",
        type=SEALED,
        source="placement",
        sequence=offset + 1,
        time_ms=NOW_MS,
        payload={"shard": "cell-0", "sequence": row["seq"], "digest": row["digest"].hex()},
    )


def evidence(
    rows: list[dict], sealed: list[dict], *, away: bool = False, end: int = 100, acked: int = 100
) -> Evidence:
    chain = {"schema": "placement", "shard": "cell-0"}
    return Evidence(
        rows={
            "audit": rows,
            "lease": [chain | {"expired": away}],
            "watermark": [chain | {"acked_seq": acked}],
            "outbox": [chain | {"topic": "audit-placement.facts.v1", "seq": 100}],
            "now": [{"now_ms": NOW_MS}],
        },
        log=Log(
            records=[a_seal(one, offset) for offset, one in enumerate(sealed)],
            ends_before={("audit-placement.facts.v1", 0): end},
        ),
    )


def found(one: Evidence) -> list[str]:
    return [violation.detail for violation in check_seals(one).violations]


def test_an_audit_that_agrees_with_its_seals_is_clean():
    rows = rows_of(5)

    assert [] == found(evidence(rows, [rows[1], rows[4]]))


@pytest.mark.parametrize("kept", [0, 4])
def test_rows_that_are_gone_from_the_end_are_found(kept: int):
    rows = rows_of(5)
    left = evidence(rows[:kept], [rows[4]])

    assert [] == check_chain(left).violations
    assert ["audit row 5 was sealed and is gone, and 0 sealed after it"] == found(left)


def test_a_chain_that_was_computed_anew_is_found():
    rows = rows_of(5)
    forged = evidence(rows_of(5, actor="nobody"), [rows[1], rows[4]])

    assert [] == check_chain(forged).violations
    assert found(forged) == [
        (
            "audit row 2 has another digest than its seal, as 1 after it: rows up to it are not"
            " those that were written"
        )
    ]


def test_a_row_that_was_put_at_the_end_has_no_seal():
    rows = rows_of(6)

    assert found(evidence(rows, [rows[4]])) == [
        "audit row 6 has no seal, as 0 after it: its service seals within 30 s what it has written"
    ]


def test_rows_without_any_seal_are_found():
    assert 1 == len(found(evidence(rows_of(2), [])))


def test_the_newest_rows_may_wait_for_their_seal():
    young = rows_of(2, at_ms=NOW_MS - UNSEALED_MS)

    assert [] == found(evidence(young, []))
    assert [] == found(evidence(rows_of(2), [], away=True))
    assert [] == found(evidence(rows_of(2), [], acked=99))


def test_a_row_of_the_future_is_not_young():
    assert 1 == len(found(evidence(rows_of(1, at_ms=NOW_MS + UNSEALED_MS + 1), [])))


def test_a_seal_that_came_after_the_reading_of_the_rows_is_not_held_against_them():
    rows = rows_of(5)

    assert [] == found(evidence(rows[:4], [rows[3], rows[4]], end=1))
