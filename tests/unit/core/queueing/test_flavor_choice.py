"""Which flavors will do, and in what order they are tried."""

from shared.core.model.nouns import GpuChoice
from shared.core.queueing.nomination.flavor_choice import (
    FlavorChoice,
    FlavorKind,
    choice_of,
    has_product,
    in_order_of_use,
    permitted,
)
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from tests.unit.admission.builders import a_spec

KINDS = {
    "h100": FlavorKind(("H100",)),
    "h100-spot": FlavorKind(("H100",), spot=True),
    "a100": FlavorKind(("A100",)),
}
ALL = tuple(KINDS)


def order(choice, *, spot_first=False, flavors=ALL):
    return permitted(flavors, KINDS, choice, spot_first=spot_first)


def test_spot_is_for_work_that_may_be_interrupted():
    assert order(FlavorChoice()) == ["h100", "a100"]
    assert order(FlavorChoice(interruptible=True)) == ["h100", "h100-spot", "a100"]


def test_spot_comes_first_where_the_queue_says_so():
    assert order(FlavorChoice(interruptible=True), spot_first=True)[0] == "h100-spot"
    assert order(FlavorChoice(), spot_first=True) == ["h100", "a100"]


def test_preferred_products_come_first_and_others_as_in_the_document():
    prefers = FlavorChoice(preferred=(("A100", 2), ("L40S", 9)), interruptible=True)

    assert order(prefers) == ["a100", "h100", "h100-spot"]
    assert order(prefers, spot_first=True) == ["h100-spot", "a100", "h100"]


def test_only_wanted_products_and_what_is_not_told_yet():
    assert order(FlavorChoice(products=("A100",)), flavors=(*ALL, "new")) == ["a100", "new"]
    assert has_product(FlavorKind(()), FlavorChoice(products=("H100",)))


def test_a_submission_may_be_interrupted_if_it_saves_and_is_preemptible():
    assert choice_of(a_spec(checkpoint_interval_seconds=600)).interruptible
    assert not choice_of(a_spec()).interruptible
    assert not choice_of(a_spec(checkpoint_interval_seconds=600, preemptible=False)).interruptible
    assert choice_of(a_spec()).evictable
    assert not choice_of(a_spec(preemptible=False)).evictable
    gpu_choice = GpuChoice(products=("H100",), preferred_products={"H100": 3})
    assert choice_of(a_spec(gpu_choice=gpu_choice)) == FlavorChoice(("H100",), (("H100", 3),))


def test_what_is_owned_comes_before_what_is_borrowed():
    tree = QuotaTree()
    limits = {one: FlavorLimits(nominal=(4000, 0, 0)) for one in ("h100", "a100")}
    tree.apply(QuotaDocument(name="q", kind="queue", version=1, parent="c", flavors=limits))
    queue = tree.node("q")

    def use(request, *, before=True):
        flavors = ("h100", "a100")
        return list(in_order_of_use(queue, flavors, request, borrow_before_preempt=before))

    assert use((4000, 0, 0)) == ["h100", "a100"]
    tree.charge("q", "h100", (1000, 0, 0))
    assert use((4000, 0, 0)) == ["a100", "h100"]
    assert use((4000, 0, 0), before=False) == ["a100"]
    assert use((5000, 0, 0), before=False) == ["h100", "a100"]
