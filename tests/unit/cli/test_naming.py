"""How a workload is named: by id, by name, by the first characters of its id."""

import pytest

from tests.unit.cli.builders import ID, OTHER, workload
from tests.unit.cli.gateway import Answer

NOTHING: dict = {"items": [], "next_cursor": ""}


def test_the_first_characters_of_one_id_are_enough(muster, gateway):
    gateway.on("GET /v1/workloads", NOTHING, NOTHING, {"items": [workload()]})
    gateway.on(f"GET /v1/workloads/{ID}", workload())

    done = muster("status", "waaa", "-o", "name")

    assert (0, f"{ID}\n") == (done.code, done.out)
    assert [None, None, "waaa"] == [
        one.query.get("id") for one in gateway.requests("GET /v1/workloads")
    ]


def test_characters_with_which_several_ids_begin_are_refused_with_all_of_them(muster, gateway):
    both = {"items": [workload(), workload("queued", OTHER, name="eval")]}
    gateway.on("GET /v1/workloads", NOTHING, NOTHING, both)

    done = muster("cancel", "waaa")

    assert 2 == done.code
    assert "several workloads have an id that begins with 'waaa'; give an id:" in done.err
    assert f"  {OTHER}  queued  eval" in done.err


@pytest.mark.parametrize("text", ["waa", "xaaaa", "w0000"])
def test_what_no_id_begins_with_is_only_a_name(muster, gateway, text):
    gateway.on("GET /v1/workloads", NOTHING)

    done = muster("status", text)

    assert 3 == done.code
    assert f"No workload is named '{text}'" in done.err
    assert 2 == len(gateway.seen)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("held", "release requested"),
        ("running", "not held: it is running; only a hold that is on its way is undone"),
    ],
)
def test_release_of_work_that_is_not_held_says_so(muster, gateway, state, said):
    answer = {"id": ID, "command": "release", "state": state}
    gateway.on(f"POST /v1/workloads/{ID}/release", Answer(answer, 202))

    done = muster("release", ID)

    assert (0, f"{ID}: {said}\n") == (done.code, done.out)


def test_a_hold_of_running_work_is_no_special_case(muster, gateway):
    answer = {"id": ID, "command": "hold", "state": "running"}
    gateway.on(f"POST /v1/workloads/{ID}/hold", Answer(answer, 202))

    assert f"{ID}: hold requested\n" == muster("hold", ID).out
