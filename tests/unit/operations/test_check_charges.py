"""The checker holds what the ledger charges against what the log told of it."""

from typing import Any

import pytest

from operations.check.charges import check_charges
from operations.check.model import Evidence, Row
from tests.unit.operations.told import ONE, PLACED, RESIZED, TWO, evidence, holds

Told = tuple[str, dict[str, Any]]


def charged(gpus: int, workload: str = ONE, **changed: Any) -> Row:
    amounts = {"gpu_milli": 1000 * gpus, "cpu_milli": 0, "memory_mib": 0}
    return {
        "workload_id": workload,
        "attempt": 1,
        "queue": "q",
        "flavor": "f",
        **amounts,
    } | changed


def requeued(workload: str = ONE) -> Told:
    released = {"workload_id": workload, "released_at_ms": 1, "released_attempt": 1}
    return "workload.requeued", released


def seen(*told: Told, ledger: list[Row], last: int | None = None) -> Evidence:
    """Of which the snapshot knows the facts up to number `last`, all where it is None."""
    found = evidence(*told)
    acked = len(told) - 1 if last is None else last
    mark = {"schema": "placement", "shard": "cell-0", "acked_seq": acked}
    found.rows |= {"charged": ledger, "watermark": [mark], "outbox": []}
    return found


GROWN = holds(PLACED, range(1)), holds(RESIZED, range(3))


@pytest.mark.parametrize(
    ("told", "ledger", "what"),
    [
        (GROWN, [charged(3)], ""),
        (GROWN, [charged(1)], "attempt 1: the log charges q in f 3000/0/0"),
        (GROWN, [], "the ledger nothing"),
        (GROWN, [charged(3, queue="other")], "the ledger other in f 3000/0/0"),
        (GROWN, [charged(3, cpu_milli=1)], "the ledger q in f 3000/1/0"),
        ((*GROWN, requeued()), [], ""),
        ((*GROWN, requeued()), [charged(3)], "the log charges nothing"),
    ],
)
def test_an_attempt_is_charged_what_the_log_told(told: tuple[Told, ...], ledger: Any, what: str):
    # the first fact has number 0, which no outbox gives
    found = check_charges(seen(requeued(TWO), *told, ledger=ledger))

    assert [what in one.detail for one in found.violations] == ([True] if what else [])


def test_facts_that_the_snapshot_does_not_know_do_not_count():
    told = (requeued(TWO), *GROWN)

    assert not check_charges(seen(*told, ledger=[charged(1)], last=1)).violations
    assert check_charges(seen(*told, ledger=[charged(1)], last=2)).violations


def test_an_attempt_that_is_older_than_the_log_and_a_log_with_a_gap_are_not_judged():
    told = (requeued(TWO), *GROWN)
    older = seen(*told, ledger=[charged(3), charged(5, workload="w-of-last-week")])
    unpublished = seen(*told, ledger=[])
    unpublished.rows["outbox"] = [
        {
            "schema": "placement",
            "shard": "cell-0",
            "seq": 9,
            "event_id": "not in the log",
            "topic": "workload.facts.v1",
        }
    ]

    assert (check_charges(older).checked, check_charges(older).violations) == (1, [])
    assert check_charges(unpublished).checked == 0
