"""Who is announced as the next for what his queue owns: placed within that, silent otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.events.nodes import CordonNode
from shared.events.quotas import NominationWithdrawn
from tests.support.placement_driver import Driver, a_node, a_quota, a_workload, nominated, reported
from tests.unit.placement.trying import driver_with, free, placed, refusals


def announced(name: str, gpus: int, *, order: int = 0, number: int = 1, **rest: Any) -> Any:
    """What quota tells of one who waits on."""
    work = a_workload(name, queue="owner", gpus=gpus, **rest)
    return replace(nominated(work, order=order, number=number), next_of_own=True)


def full(gpus: int = 8) -> Driver:
    """`owner` and `borrower` own four GPUs each and hold them; the borrower waits for more."""
    driver: Driver = driver_with(a_node(gpus=gpus))
    driver.send(a_quota("top", gpus=0, kind="cohort"))
    for name in ("owner", "borrower"):
        driver.send(a_quota(name, gpus=4, parent="top"))
        driver.send(nominated(a_workload(name, queue=name, gpus=4)))
    driver.send(nominated(a_workload("more", queue="borrower", gpus=4)))
    return driver


def test_it_is_not_answered_and_goes_before_borrowers_once_its_queue_owns_room():
    driver = full()

    assert [] == driver.send(announced("w", 4))
    assert State.QUEUED is driver.state("w")

    assert ["w"] == placed(free(driver, "owner"))


def test_without_it_the_borrower_has_the_room():
    assert ["more"] == placed(free(full(), "owner"))


def test_room_of_others_is_not_for_it():
    driver = full()
    driver.send(announced("w", 4, order=-9))

    assert ["more"] == placed(free(driver, "borrower"))
    assert State.QUEUED is driver.state("w")


def test_room_in_part_is_for_the_one_whom_it_is_enough_for():
    driver = driver_with(a_node(gpus=8))
    driver.send(a_quota("top", gpus=0, kind="cohort"))
    driver.send(a_quota("owner", gpus=4, parent="top"), a_quota("lender", gpus=4, parent="top"))
    for name, gpus in (("one", 1), ("three", 3)):
        driver.send(nominated(a_workload(name, queue="owner", gpus=gpus)))
    driver.send(announced("large", 3), announced("small", 1, order=1))

    assert ["small"] == placed(free(driver, "one"))
    assert ["large"] == placed(free(driver, "three"))


def test_equal_ones_go_one_after_the_other_as_their_queue_gives_back():
    driver = driver_with(a_node(gpus=8))
    driver.send(a_quota("top", gpus=0, kind="cohort"))
    driver.send(a_quota("owner", gpus=2, parent="top"), a_quota("lender", gpus=6, parent="top"))
    for name in ("a", "b"):
        driver.send(nominated(a_workload(name, queue="owner")))

    assert [] == driver.send(*(announced(f"w{at}", 1, order=at) for at in range(3)))
    assert ["w0"] == placed(free(driver, "a"))
    assert [] == driver.send(announced("w3", 1, order=3))
    assert ["w1"] == placed(free(driver, "b"))


def test_who_owns_room_and_finds_no_node_is_answered_and_waits_as_any_other():
    driver = full()
    driver.send(announced("w", 4))
    driver.send(CordonNode(node="n1", actor="alice"))

    payloads = free(driver, "owner")

    assert [("w", Reason.NODES_UNHEALTHY)] == [one for one in refusals(payloads) if one[0] == "w"]
    assert ["w"] == placed(driver.send(reported(a_node("n2", gpus=4))))


def test_once_answered_it_may_borrow_as_any_other():
    driver = full()
    driver.send(announced("w", 4))
    driver.send(CordonNode(node="n1", actor="alice"))
    free(driver, "owner")
    driver.send(NominationWithdrawn(workload_id="more", nomination=1))

    driver.send(a_quota("owner", gpus=0, parent="top", version=2))
    driver.send(a_quota("top", gpus=8, kind="cohort", version=2))

    assert ["w"] == placed(driver.send(reported(a_node("n2", gpus=4))))


@pytest.mark.parametrize("strict", [False, True])
def test_an_equal_one_that_was_nominated_is_answered_beside_it(strict):
    driver = full()
    driver.send(replace(announced("w", 4), strict=strict))
    equal = nominated(a_workload("v", queue="owner", gpus=4), order=1, strict=strict)

    assert ["v"] == [name for name, _ in refusals(driver.send(equal))]


def test_it_is_forgotten_when_it_is_taken_back():
    driver = full()
    driver.send(announced("w", 4))
    driver.send(NominationWithdrawn(workload_id="w", nomination=1))

    assert ["more"] == placed(free(driver, "owner"))


def test_a_nomination_after_it_is_answered():
    driver = full()
    driver.send(announced("w", 4))

    payloads = driver.send(nominated(a_workload("w", queue="owner", gpus=4), number=2))

    assert ["w"] == [name for name, _ in refusals(payloads)]


def test_more_quota_for_its_queue_is_room_too():
    driver = full(gpus=16)
    driver.send(announced("w", 4))

    assert ["w"] == placed(driver.send(a_quota("owner", gpus=8, parent="top", version=2)))
