"""The checker's own copies and sums: the table of states, the quota tree, its independence."""

import ast
from pathlib import Path

import pytest

import operations.check
from operations.check.limits import Change, Limits
from operations.check.states import ALLOWED, HOLDING, TERMINAL
from shared.core.model import lifecycle


def test_the_copy_of_the_table_is_the_table():
    table = {
        (before.value, after.value)
        for before, afters in lifecycle.TRANSITIONS.items()
        for after in afters
    }

    assert table == ALLOWED
    assert {state.value for state in lifecycle.TERMINAL} == TERMINAL
    assert {state.value for state in lifecycle.HOLDING} == HOLDING


def test_the_checker_imports_nothing_of_what_it_checks():
    folder = Path(operations.check.__file__).parent
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).split(".")[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}

    assert imported
    assert not imported & {"shared", "services", "muster", "migrations", "deploy"}


def quota(name: str, gpus: int, *, unit: int = 0, parent: str = "", **limits: int) -> Change:
    flavor = {"flavor": "h100", "nominal": {"gpu_milli": gpus}}
    flavor |= {key: {"gpu_milli": value} for key, value in limits.items()}
    return {"name": name, "kind": "queue", "parent": parent, "flavors": [flavor]}, unit


def broken(
    changes: list[Change], used: dict[str, int], queue: str, first: int = 1, last: int = 1
) -> list[str]:
    by_node = {(name, "h100", "gpu_milli"): amount for name, amount in used.items()}
    entry = (queue, "h100", {"gpu_milli": 1})
    return list(Limits.of(changes).broken((first, last), by_node, entry))


def test_a_queue_alone_may_use_its_nominal_quota_and_not_one_more():
    changes = [quota("a", 8)]

    assert broken(changes, {"a": 8}, "a") == []
    assert broken(changes, {"a": 9}, "a") == ["a uses 9 of 8 gpu_milli in h100"]


def test_a_queue_borrows_what_its_cohort_has_left():
    changes = [quota("all", 0), quota("a", 8, parent="all"), quota("b", 8, parent="all")]

    assert broken(changes, {"a": 12, "b": 4}, "a") == []
    assert broken(changes, {"a": 12, "b": 5}, "a") == ["all uses 17 of 16 gpu_milli in h100"]


def test_a_borrowing_limit_holds_even_when_the_cohort_has_more():
    changes = [
        quota("all", 0),
        quota("a", 8, parent="all", borrowing_limit=2),
        quota("b", 8, parent="all"),
    ]

    assert broken(changes, {"a": 10}, "a") == []
    assert broken(changes, {"a": 11}, "a") == ["a uses 11 of 10 gpu_milli in h100"]


def test_what_is_not_lent_cannot_be_borrowed():
    changes = [
        quota("all", 0),
        quota("a", 8, parent="all"),
        quota("b", 8, parent="all", lending_limit=3),
    ]

    assert broken(changes, {"a": 11}, "a") == []
    assert broken(changes, {"a": 12}, "a") == ["all uses 12 of 11 gpu_milli in h100"]
    assert broken(changes, {"a": 11, "b": 5}, "a") == []


@pytest.mark.parametrize(
    ("first", "last", "holds"), [(1, 4, False), (5, 5, False), (4, 6, False), (6, 6, True)]
)
def test_a_lowered_limit_holds_in_the_units_after_its_own(first: int, last: int, *, holds: bool):
    changes = [quota("a", 8), quota("a", 4, unit=5)]

    assert bool(broken(changes, {"a": 8}, "a", first, last)) is holds


def test_a_queue_without_quota_may_use_nothing():
    assert broken([quota("a", 8)], {"b": 1}, "b") == ["queue b had no quota at that time"]
    assert broken([], {"b": 1}, "b") == ["queue b had no quota at that time"]


def test_what_a_cohort_does_not_name_passes_through_it():
    cohort = quota("some", 0, parent="all")
    cohort[0].update(kind="cohort", flavors=[])
    changes = [quota("all", 5), cohort, quota("a", 0, parent="some")]

    assert broken(changes, {"a": 5}, "a") == []
    assert broken(changes, {"a": 6}, "a") == ["all uses 6 of 5 gpu_milli in h100"]


def test_a_placement_is_not_blamed_for_a_level_that_does_not_count_it():
    changes = [
        quota("all", 0),
        quota("a", 8, parent="all"),
        quota("b", 8, parent="all", lending_limit=3),
        quota("a", 1, parent="all", unit=5),
    ]

    assert broken(changes, {"a": 8, "b": 5}, "b", 6, 6) == []
    assert broken(changes, {"a": 8, "b": 6}, "b", 6, 6) != []
