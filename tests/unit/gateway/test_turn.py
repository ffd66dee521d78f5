"""For whose debt others go first: the level that owes, who is ahead there, and the sentence."""

from dataclasses import replace

import pytest

from services.gateway.why.turn import QueueShares, owed, owing, owned_flavor, turn_view
from services.gateway.why.why_views import NoEvictionView
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree

FLAVOR = "h100"
GPU = 1000
TOLD_AT_MS = 1_763_733_900_000
OTHERS = ("red", "green", "blue")


def a_document(name: str, kind: str, parent: str, gpus: int, flavor: str = FLAVOR):
    flavors = {flavor: FlavorLimits(nominal=(gpus * GPU, 0, 0))}
    return QuotaDocument(name=name, kind=kind, version=1, parent=parent, flavors=flavors)


@pytest.fixture
def tree() -> QuotaTree:
    """64 GPUs: red and green of research, blue of operations; red and blue borrow 8 each."""
    made = QuotaTree()
    made.apply(a_document("org", "cohort", "", 60))
    for name in ("research", "operations"):
        made.apply(a_document(name, "cohort", "org", 0))
    made.apply(a_document("red", "queue", "research", 4))
    for name, parent in (("green", "research"), ("blue", "operations")):
        made.apply(a_document(name, "queue", parent, 0))
    made.charge("red", FLAVOR, (12 * GPU, 0, 0))
    made.charge("blue", FLAVOR, (8 * GPU, 0, 0))
    return made


def found_in(tree: QuotaTree, waiting=OTHERS):
    found = owing(QueueShares(tree), tree.node("red"), (FLAVOR,), waiting)
    return (found.node.name, found.queues_ahead) if found else None


def test_of_several_levels_the_highest_that_owes_and_lets_others_first_is_told(tree):
    tree.set_debt("red", 70_000)
    tree.set_debt("research", 40_000)

    assert ("research", 1) == found_in(tree)
    assert ("red", 1) == found_in(tree, ("green",))


def test_where_departments_are_equal_the_queue_is_told_and_who_of_all_is_ahead(tree):
    tree.set_debt("red", 70_000)

    assert ("red", 2) == found_in(tree)


def test_without_a_debt_of_its_own_it_is_not_told_who_else_goes_first(tree):
    tree.set_debt("blue", -70_000)
    tree.set_debt("operations", -70_000)
    tree.set_debt("red", 499)

    assert found_in(tree) is None


def test_nobody_is_ahead_who_has_more_or_waits_not_or_wants_something_else(tree):
    tree.set_debt("research", 40_000)
    tree.set_debt("operations", 50_000)
    tree.apply(a_document("grey", "queue", "org", 0, "a100"))
    tree.apply(a_document("away", "queue", "", 4))

    assert found_in(tree) is None
    assert found_in(tree, ("grey", "away", "red")) is None
    tree.set_debt("operations", 0)
    assert found_in(tree, ()) is None


def test_what_fits_into_the_queues_own_need_not_borrow(tree):
    def owner(gpus: int) -> str | None:
        return owned_flavor(tree.node("red"), ("a100", FLAVOR), (gpus * GPU, 0, 0))

    assert owner(1) is None
    tree.charge("red", FLAVOR, (12 * GPU, 0, 0), -1)
    assert (FLAVOR, None) == (owner(4), owner(5))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, "borrowers that have run as long as their own queues grant are evicted for it"),
        ({"reclaim": Reclaim.LOWER_PRIORITY}, "borrowers of lower priority that have run"),
        ({"preemption_delay_seconds": 90}, "grant are evicted for it, 90 s after its submission"),
        (
            {"reclaim": Reclaim.NEVER, "preemption_delay_seconds": 90},
            "it waits until borrowers end: by its policy the queue takes nothing back",
        ),
    ],
)
def test_to_whom_the_queue_owes_room_it_is_told_by_which_policy_it_comes(tree, policy, words):
    document = replace(tree.node("red").document, version=2, policy=QueuePolicy(**policy))
    tree.apply(document)

    told = owed(tree.node("red"), FLAVOR)

    start = "queue red owns enough for it (it uses 12 of its 4 h100 GPUs): it comes before all of"
    assert told.startswith(f"{start} its priority that borrow, and ")
    assert words in told
    assert told.endswith(words) == (policy != {"reclaim": Reclaim.LOWER_PRIORITY})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            {"flavor": "H100", "message": "H100: 8 GPUs are not preemptible."},
            "H100: 8 GPUs are not preemptible; wait until they end",
        ),
        (
            {"message": "Others go later.", "retry_at_ms": TOLD_AT_MS + 60_000},
            "others go later, which may change at 2025-11-21 14:06:00Z; wait until they end",
        ),
    ],
)
def test_where_nobody_may_be_evicted_it_is_told_why_not_and_until_when(tree, found, words):
    plain: dict = {"flavor": "", "evidence": {}, "retry_at_ms": None, "at_ms": TOLD_AT_MS}
    plain |= {"obstacle": "VictimsNotEvictable", "next_step": "wait until they end"}

    told = owed(tree.node("red"), FLAVOR, NoEvictionView(**(plain | found)))

    assert told == (
        "queue red owns enough for it (it uses 12 of its 4 h100 GPUs): it comes before all of its"
        " priority that borrow, but nothing is evicted for it (as of 2025-11-21 14:05:00Z): "
        f"{words}"
    )


def test_where_no_other_queue_borrows_it_is_told_of_no_borrowers(tree):
    tree.charge("blue", FLAVOR, (8 * GPU, 0, 0), -1)

    told = owed(tree.node("red"), FLAVOR)

    assert told.endswith(
        "h100 GPUs), and no other queue borrows: there is nothing to take back for it"
    )


def test_where_a_queue_shares_with_nobody_nothing_is_owed(tree):
    tree.apply(a_document("away", "queue", "", 4))

    assert "" == owed(tree.node("away"), FLAVOR)


def test_the_sentence_says_what_is_owed_since_when_and_what_pays_it_back(tree):
    tree.set_debt("research", 40_000)
    found = owing(QueueShares(tree), tree.node("red"), (FLAVOR,), OTHERS)
    assert found is not None

    view = turn_view(found, FLAVOR, TOLD_AT_MS)

    assert (
        "cohort research used more than its fair share: a deficit of 4.0 % of share, 5.1 GPU-hours"
        " of h100, beside the 12.5 % that it borrows (as of 2025-11-21 14:05:00Z), so it comes"
        " after 1 other queue with less of both: 2 h with so much less than its fair share pay it"
        " back, half of it is forgotten in 24 h, and what fits into the queue's own quota is not"
        " delayed by it"
    ) == view.message
    assert ("cohort", 125_000, 40_000) == (view.kind, view.share_millionths, view.debt_millionths)


def test_a_debt_of_what_nobody_owns_a_number_of_is_told_as_share_alone(tree):
    tree.set_debt("red", 70_000)
    found = owing(QueueShares(tree), tree.node("red"), (FLAVOR,), ("green",))
    assert found is not None

    assert "a deficit of 7.0 % of share beside" in turn_view(found, "a100", TOLD_AT_MS).message
