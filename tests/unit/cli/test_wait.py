"""`muster wait`, `--version`, and what a shell completes."""

import pytest

from tests.unit.cli.builders import ID, OTHER, workload


@pytest.mark.parametrize(("end", "code"), [("succeeded", 0), ("failed", 100), ("rejected", 5)])
def test_wait_stays_until_the_end_and_exits_by_it(muster, gateway, end, code):
    ended = workload(end, reason="Because", message="of this")
    gateway.on(f"GET /v1/workloads/{ID}", workload("running"), workload("running"), ended)

    done = muster("wait", ID)

    assert code == done.code
    assert end in done.out
    assert ("Because: of this" in done.err) == (end != "succeeded")


def test_wait_for_a_state_is_over_when_all_are_in_it(muster, gateway):
    for one in (ID, OTHER):
        states = [workload("queued", one), workload("queued", one), workload("running", one)]
        gateway.on(f"GET /v1/workloads/{one}", *states)

    done = muster("wait", ID, OTHER, "--for", "running", "-o", "name")

    assert (0, f"{ID}\n{OTHER}\n") == (done.code, done.out)


def test_what_ended_before_the_state_exits_by_its_end(muster, gateway):
    gateway.on(f"GET /v1/workloads/{ID}", workload("cancelled", reason="Cancelled"))

    assert 103 == muster("wait", ID, "--for", "running").code


@pytest.mark.parametrize(("until", "said"), [([], "ended"), (["--for", "running"], "got there")])
def test_wait_that_is_not_over_in_time_exits_with_101(muster, gateway, until, said):
    gateway.on(f"GET /v1/workloads/{ID}", workload("queued"))

    done = muster("wait", ID, "--timeout", "0.1s", *until)

    assert 101 == done.code
    assert f"1 of 1 have not {said} in time." in done.err


def test_an_unknown_state_is_a_usage_error_with_those_that_are(muster, gateway):
    done = muster("wait", ID, "--for", "runing")

    assert 2 == done.code
    assert "--for must be one of queued, held, placed, bound, running" in done.err
    assert [] == gateway.seen


def test_the_version_is_told(muster):
    done = muster("--version")

    assert (0, "muster 0.1.0\n") == (done.code, done.out)
