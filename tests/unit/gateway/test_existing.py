"""Names that do not exist are told with those that do."""

import pytest

from services.gateway.app.existing import missing
from services.gateway.http.problems import Problem
from services.gateway.workloads.workload_queries import page_query


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "there is none"),
        (("",), "there is none"),
        (("b", "a"), "there are: a, b"),
        (("alpha", "visoin", "beta"), "there are: visoin, alpha, beta"),
        (
            [f"n{number:02}" for number in range(12)],
            "there are: n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more",
        ),
    ],
)
def test_the_nearest_names_come_first_and_there_are_ten_at_most(names, said):
    problem = missing("queue", "vision", names)

    assert 404 == problem.status
    assert f"queue vision does not exist; {said}" == problem.document.detail


def test_ids_are_asked_for_as_ranges_of_the_primary_key():
    _, arguments = page_query(None, {"id": "wab, w2"}, "")

    first, last = arguments
    assert (["wab" + "0" * 24, "w2" + "0" * 25], ["wab" + "z" * 24, "w2" + "z" * 25]) == (
        first,
        last,
    )


@pytest.mark.parametrize("text", ["x", "wAB", "w" * 28, "w%", ",".join(["w"] * 101)])
def test_what_no_id_begins_with_is_refused(text):
    with pytest.raises(Problem) as raised:
        page_query(None, {"id": text}, "")

    assert "id" == raised.value.document.errors[0].field
