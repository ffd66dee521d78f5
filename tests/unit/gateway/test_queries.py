"""Pages and filters of lists; the bucket of requests."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.api.routes import ROUTES
from services.gateway.app.context import RequestContext
from services.gateway.http.authorisation import Role, Subject
from services.gateway.http.problems import Problem
from services.gateway.http.rate import Rate
from services.gateway.workloads.workload_queries import (
    LABEL_RULE,
    cursor_at,
    cursor_of,
    labels_of,
    page_query,
    place_of,
)
from services.gateway.workloads.workload_reads import list_workloads
from shared.core.model.decision import FieldError
from shared.core.model.lifecycle import State


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
    filters = dict.fromkeys(("queue", "kind", "name", "state"), evil)

    where, arguments = page_query(evil, filters, "")

    assert "DROP" not in where
    assert arguments.count(evil) == 4


def test_states_that_are_not_final_are_looked_up_among_the_live_ones():
    live, _ = page_query(None, {"state": "queued,running"}, "")
    mixed, _ = page_query(None, {"state": "queued,failed"}, "")

    assert ("w.live" in live, "w.live" in mixed) == (True, False)


def test_labels_must_be_equal_or_there():
    assert labels_of("a=b, c ,d=") == ({"a": "b", "d": ""}, ["c"])


def test_each_label_that_is_asked_for_counts():
    twenty = [f"k{number}=v" for number in range(20)]

    assert len(labels_of(",".join(twenty))[0]) == 20
    assert labels_of("a=b,a=b,a") == ({"a": "b"}, ["a"])


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        (",".join(["k=v"] * 21), ",".join(["k=v"] * 21), "must be at most 20 labels"),
        ("a=1,b=2,a=2", "a=1,b=2,a=2", "must not ask for two values of a"),
        ("a=,a=2", "a=,a=2", "must not ask for two values of a"),
        ("a=1,=2", "=2", LABEL_RULE),
        ("a b=1", "a b=1", LABEL_RULE),
        ("sweep:42", "sweep:42", LABEL_RULE),
        ("a=b c", "a=b c", LABEL_RULE),
    ],
)
def test_labels_that_could_not_all_count_are_refused(text, value, rule):
    with pytest.raises(Problem) as raised:
        labels_of(text)

    error = FieldError(field="label", value=value, rule=rule)
    assert (400, (error,)) == (raised.value.status, raised.value.document.errors)


async def test_a_state_that_is_none_is_refused():
    with pytest.raises(Problem) as raised:
        await list_workloads(a_door(), a_call("state=queued,queud"))

    error = FieldError(field="state", value="queud", rule=f"must be of {', '.join(State)}")
    assert (400, (error,)) == (raised.value.status, raised.value.document.errors)


async def test_filters_that_are_known_are_asked_for():
    gateway = a_door()

    answered = await list_workloads(gateway, a_call("kind=notebook&label=&name=n&team="))

    assert (200, ["notebook", "n"]) == (answered.status, gateway.reader.asked)


class Reader:
    """Knows nothing, and what it was asked with."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        self.asked += arguments
        return []


def a_door() -> Any:
    return SimpleNamespace(reader=Reader())


def a_call(query: str) -> RequestContext:
    """An operator's."""
    request = make_mocked_request("GET", f"/v1/workloads?{query}")
    route = next(one for one in ROUTES if one.name == "list_workloads")
    subject = Subject(name="o", team="", role=Role.OPERATOR)
    return RequestContext(request=request, route=route, subject=subject)


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
