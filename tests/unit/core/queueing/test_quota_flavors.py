"""In which flavors work may be tried, and what changes that."""

from shared.core.model.decision import Reason
from shared.core.queueing.nomination.flavor_choice import FlavorKind
from tests.unit.quota.builders import Desk, a_pending, a_queue


def test_a_nomination_is_given_anew_when_its_flavors_change():
    desk = Desk(a_queue(flavors={"h100": 8}))
    desk.queue(a_pending("w1"))

    desk.core.apply(a_queue(version=2, flavors={"h100": 8, "a100": 8}))

    assert desk.settle() == ["-w1", "+w1"]
    assert desk.offers["w1"] == ("h100", "a100")


def test_a_flavor_without_the_product_is_not_permitted():
    desk = Desk(a_queue(flavors={"a100": 8, "h100": 8}))
    desk.core.apply_flavor("a100", FlavorKind(("A100",)))
    desk.core.apply_flavor("h100", FlavorKind(("H100", "H100-NVL")))

    desk.queue(a_pending("w1", products=("H100",)), a_pending("w2", products=("B200",)))

    assert desk.offers == {"w1": ("h100",)}
    assert desk.refusals["w2"].reason is Reason.NO_MATCHING_NODE


def test_quota_promised_in_one_flavor_and_charged_in_another_is_free_again():
    desk = Desk(a_queue(flavors={"h100": 4, "a100": 4}))
    first = a_pending("w1", 4)
    desk.queue(first, a_pending("w2", 4), a_pending("w3", 4))

    assert desk.place(first, "a100") == ["+w3"]


def test_a_second_flavor_is_used_when_the_first_is_full():
    desk = Desk(a_queue(flavors={"h100": 4, "a100": 4}))
    second = a_pending("w2", 4)

    assert desk.queue(a_pending("w1", 4), second, a_pending("w3", 4))[:2] == ["+w1", "+w2"]
    assert second.flavor == "a100"


def test_a_nomination_is_taken_back_when_its_flavor_loses_the_product():
    desk = Desk(a_queue())
    desk.core.apply_flavor("h100", FlavorKind(("H100",)))
    desk.queue(a_pending("w1", products=("H100",)))

    desk.core.apply_flavor("h100", FlavorKind(("H200",)))

    assert desk.settle() == ["-w1", "?w1:NoMatchingFlavor"]


def test_a_flavor_that_is_told_again_unchanged_costs_nothing():
    desk = Desk(a_queue())
    desk.core.apply_flavor("h100", FlavorKind(("H100",)))
    desk.queue(a_pending("w1"))

    desk.core.apply_flavor("h100", FlavorKind(("H100",)))

    assert not desk.core.unsettled
