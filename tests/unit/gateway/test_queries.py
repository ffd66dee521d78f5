"""Pages and filters of lists; the bucket of requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.problems import Problem
from services.gateway.rate import Rate
from services.gateway.workload_queries import (
    cursor_at,
    cursor_of,
    labels_of,
    page_query,
    place_of,
)
from shared.core.decision import FieldError


@given(st.integers(0, 2**53), st.from_regex(r"[a-z0-9:]{1,40}", fullmatch=True))
def test_a_cursor_is_read_back(submitted_at_ms, identifier):
    row = {"submitted_at_ms": submitted_at_ms, "id": identifier}

    assert place_of(cursor_of(row)) == (submitted_at_ms, identifier)


@given(st.text(max_size=60).filter(lambda text: ":" not in text))
def test_what_is_no_cursor_is_refused_and_never_an_error_of_ours(text):
    with pytest.raises(Problem) as raised:
        place_of(text)

    assert raised.value.status == 400


@pytest.mark.parametrize("identifier", ["", "\0abc", "a\n", "\x7f"])
def test_a_cursor_with_what_no_database_could_be_asked_for_is_refused(identifier):
    cursor = cursor_at(5, identifier)

    with pytest.raises(Problem) as raised:
        place_of(cursor)

    rule = "must be the next_cursor of the page before"
    assert (400, (FieldError(field="cursor", value=cursor, rule=rule),)) == (
        raised.value.status,
        raised.value.document.errors,
    )


def test_values_are_bound_and_never_part_of_the_statement():
    evil = "x'; DROP TABLE gateway.workload; --"
    filters = dict.fromkeys(("queue", "kind", "name", "state", "label"), evil)

    where, arguments = page_query(evil, filters, "")

    assert "DROP" not in where
    assert arguments.count(evil) == 4


def test_states_that_are_not_final_are_looked_up_among_the_live_ones():
    live, _ = page_query(None, {"state": "queued,running"}, "")
    mixed, _ = page_query(None, {"state": "queued,failed"}, "")

    assert ("w.live" in live, "w.live" in mixed) == (True, False)


def test_labels_must_be_equal_or_there():
    assert labels_of("a=b, c ,d=") == ({"a": "b", "d": ""}, ["c"])


def test_a_team_that_sends_too_much_is_stopped_and_the_others_are_not():
    rate = Rate(per_second=10)

    taken = [rate.take("red", 0.0) for _ in range(15)]

    assert taken.count(True) == 10
    assert rate.take("blue", 0.0)
    assert [rate.take("red", 0.5) for _ in range(6)].count(True) == 5


def test_a_batch_larger_than_the_bucket_passes_when_the_bucket_is_full():
    rate = Rate(per_second=10)

    assert rate.take("red", 0.0, 1000)
    assert not rate.take("red", 1.0, 1)


def test_without_a_limit_everything_passes():
    rate = Rate(per_second=0)

    assert all(rate.take("red", 0.0, 10_000) for _ in range(10))
