"""Commands that act: on each that is named, or on all that are selected."""

import json

import pytest
import yaml

from tests.unit.cli.builders import ID, OTHER
from tests.unit.cli.gateway import Answer, problem


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_a_command_acts_on_each_and_goes_on_after_a_failure(muster, gateway, verb: str):
    gateway.on(f"POST /v1/workloads/{OTHER}/{verb}", Answer({"id": OTHER}, 202))

    done = muster(verb, ID, OTHER)

    assert done.code == 3
    assert done.out == f"{OTHER}: {verb} requested\n"


def test_the_highest_code_of_several_is_given_whatever_comes_last(muster, gateway):
    gateway.on(f"POST /v1/workloads/{ID}/cancel", problem(409, "it has ended"))

    assert 5 == muster("cancel", ID, OTHER).code
    assert 5 == muster("cancel", OTHER, ID).code


def test_what_was_done_is_one_document_when_asked_for_also_after_a_failure(muster, gateway):
    gateway.on(f"POST /v1/workloads/{OTHER}/cancel", Answer({"id": OTHER}, 202))
    gateway.on("POST /v1/workloads:cancel", Answer({"ids": [OTHER], "more": True}, 202))
    gateway.on("POST /v1/workloads:cancel", problem(403, "not any more"))

    named = muster("cancel", ID, OTHER, "-o", "json")
    selected = muster("cancel", "-q", "vision", "-o", "yaml")
    name = muster("cancel", OTHER, "-o", "name")

    items = [{"id": OTHER, "result": "cancel requested"}]
    assert (3, {"items": items}) == (named.code, json.loads(named.out))
    assert (4, {"items": items}) == (selected.code, yaml.safe_load(selected.out))
    assert f"{OTHER}\n" == name.out


@pytest.mark.parametrize(
    ("route", "words", "item"),
    [
        (f"{ID}/hold", ["hold", ID], {"id": ID, "result": "hold requested"}),
        (f"{ID}/release", ["release", ID], {"id": ID, "result": "release requested"}),
        (f"{ID}/resize", ["resize", ID, "4"], {"id": ID, "result": "4 pods requested"}),
        (f"{ID}/evict", ["admin", "evict", ID], {"id": ID, "result": "eviction requested"}),
        (
            f"{ID}/reprioritise",
            ["reprioritise", ID, "--to", "a"],
            {"id": ID, "result": "change to a requested"},
        ),
    ],
)
def test_each_command_that_acts_has_a_format(muster, gateway, route, words, item):
    gateway.on(f"POST /v1/workloads/{route}", Answer({"id": ID}, 202))

    assert {"items": [item]} == json.loads(muster(*words, "-o", "json").out)


def test_reprioritise_sends_the_class(muster, gateway):
    gateway.on(f"POST /v1/workloads/{ID}/reprioritise", Answer({"id": ID}, 202))

    assert muster("reprioritise", ID, "--to", "urgent").code == 0
    assert gateway.seen[0].body == {"priority_class": "urgent"}


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_a_command_acts_on_all_that_are_selected(muster, gateway, verb: str):
    pages = Answer({"ids": [ID], "more": True}, 202), Answer({"ids": [OTHER], "more": False}, 202)
    gateway.on(f"POST /v1/workloads:{verb}", *pages)

    done = muster(verb, "-l", "sweep=42", "-l", "x=", "-s", "queued", "-t", "red")

    assert done.out == f"{ID}: {verb} requested\n{OTHER}: {verb} requested\n"
    selection = {"labels": {"sweep": "42", "x": ""}, "state": "queued", "team": "red"}
    assert [one.body for one in gateway.seen] == [selection, {**selection, "after": ID}]


def test_an_operator_evicts_with_a_reason(muster, gateway):
    gateway.on(f"POST /v1/workloads/{ID}/evict", Answer({"id": ID}, 202))
    gateway.on("POST /v1/workloads:evict", Answer({"ids": [OTHER], "more": False}, 202))

    one = muster("admin", "evict", ID, "--note", "new firmware")
    many = muster("admin", "evict", "-q", "vision")

    assert (one.out, many.out) == (
        f"{ID}: eviction requested\n",
        f"{OTHER}: eviction requested\n",
    )
    assert [each.body for each in gateway.seen] == [
        {"note": "new firmware"},
        {"queue": "vision"},
    ]


def test_what_selects_nothing_says_so(muster, gateway):
    gateway.on("POST /v1/workloads:cancel", Answer({"ids": [], "more": False}, 202))

    assert "Nothing is selected" in muster("cancel", "-q", "vision").err


@pytest.mark.parametrize(
    "words",
    [
        ["cancel"],
        ["cancel", "-t", "red"],
        ["cancel", ID, "-q", "vision"],
        ["cancel", "-l", "nothing"],
        ["cancel", "-l", "=x"],
        ["resize", ID, "many"],
        ["resize", "4"],
    ],
)
def test_a_command_says_what_it_is_to_act_on(muster, gateway, words: list[str]):
    done = muster(*words)

    assert done.code == 2
    assert done.err
    assert not gateway.seen


def test_resize_sends_the_number_of_pods(muster, gateway):
    gateway.on(f"POST /v1/workloads/{ID}/resize", Answer({"id": ID}, 202))
    gateway.on("POST /v1/workloads:resize", Answer({"ids": [ID], "more": False}, 202))

    one, all_ = muster("resize", ID, "4"), muster("resize", "-l", "sweep=42", "2")

    assert one.out == f"{ID}: 4 pods requested\n"
    assert all_.out == f"{ID}: 2 pods requested\n"
    assert gateway.seen[0].body == {"pods": 4}
    assert gateway.seen[1].body == {"labels": {"sweep": "42"}, "pods": 2}


def test_reprioritise_takes_a_labelled_set_too(muster, gateway):
    gateway.on("POST /v1/workloads:reprioritise", Answer({"ids": [ID], "more": False}, 202))

    assert muster("reprioritise", "-l", "sweep=42", "--to", "urgent").code == 0
    assert gateway.seen[0].body == {"labels": {"sweep": "42"}, "priority_class": "urgent"}
