"""The checker follows gangs that change their size while they run."""

from operations.check.ledger import check_pods_gone
from operations.check.replay import check_devices, check_gangs, check_quota
from tests.unit.operations.told import (
    PLACED,
    RESIZED,
    TWO,
    answer,
    details,
    holds,
    queued,
    quota,
)


def test_devices_of_a_larger_gang_are_held_and_those_of_a_smaller_one_are_free():
    grown = [holds(PLACED, range(1)), holds(RESIZED, range(2))]

    taken = details(check_devices, *grown, holds(PLACED, range(1, 2), TWO))
    free = details(
        check_devices, *grown, holds(RESIZED, range(1)), holds(PLACED, range(1, 2), TWO)
    )

    assert len(taken) == 1
    assert free == []


def test_growth_above_the_quota_is_found_and_shrinking_above_a_lowered_one_is_not():
    above = details(check_quota, quota(1), holds(PLACED, range(1)), holds(RESIZED, range(2)))
    lowered = details(check_quota, quota(3), holds(PLACED, range(3)), holds(RESIZED, range(2)))

    assert len(above) == 1
    assert lowered == []


def test_a_gang_below_its_least_is_found():
    fine = details(check_gangs, queued(2), holds(PLACED, range(4)), holds(RESIZED, range(2)))
    broken = details(check_gangs, queued(2), holds(PLACED, range(4)), holds(RESIZED, range(1)))

    assert fine == []
    assert len(broken) == 1


def test_devices_given_up_before_the_binder_saw_the_pods_go_are_found():
    told = [holds(PLACED, range(3)), holds(RESIZED, range(2))]

    assert details(check_pods_gone, *told, answer(1)) == []
    assert len(details(check_pods_gone, *told)) == 1
    assert len(details(check_pods_gone, *told, holds(RESIZED, range(1)), answer(1))) == 1
