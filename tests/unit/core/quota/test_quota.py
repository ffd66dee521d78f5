"""The quota tree: limits, sums at every level, and documents that are refused."""

import pytest

from shared.core.model.units import UNLIMITED
from shared.core.quota.totals import Totals
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from tests.unit.quota.builders import a_cohort, a_queue, gpus


def a_tree(*documents):
    tree = QuotaTree()
    for document in documents:
        assert tree.apply(document)[1] == ""
    return tree


def test_a_queue_has_its_nominal_quota_available():
    tree = a_tree(a_queue(flavors={"h100": 8}))

    assert tree.node("q").available("h100") == (8000, UNLIMITED, UNLIMITED)
    assert tree.node("q").available("a100") == (0, 0, 0)


def test_use_and_promises_are_taken_off_at_every_level():
    tree = a_tree(a_cohort(), a_queue(parent="c"), a_queue("r", parent="c"))

    tree.charge("q", "h100", gpus(3))
    tree.promise("q", "h100", gpus(2))

    for name in ("q", "c", "r"):
        assert tree.node(name).available("h100")[0] == 11_000


def test_the_ceiling_of_a_cohort_is_what_its_subtree_owns():
    tree = a_tree(
        a_cohort("top"),
        a_cohort(parent="top", flavors={"h100": 4}),
        a_queue(parent="c", flavors={"h100": 8}),
        a_queue("r", parent="top", flavors={"a100": 1}),
    )

    assert tree.node("c").owned("h100")[0] == 12_000
    assert tree.node("top").owned("h100")[0] == 12_000
    assert tree.node("top").owned("a100")[0] == 1000


def test_a_change_tells_every_node_whose_limits_it_changed():
    tree = a_tree(a_cohort("top"), a_cohort(parent="top"))

    changed, _ = tree.apply(a_queue(parent="c"))

    assert changed is tree.node("q")


def test_a_queue_that_moves_takes_its_use_along():
    tree = a_tree(a_cohort("c"), a_cohort("d"), a_queue(parent="c"))
    tree.charge("q", "h100", gpus(3))

    tree.apply(a_queue(parent="d", version=2))

    assert tree.node("c").used["h100"] == [0, 0, 0]
    assert tree.node("d").used["h100"] == list(gpus(3))
    assert tree.node("c").limits == {}
    assert tree.node("d").owned("h100")[0] == 8000


def test_a_level_above_can_be_what_stands_in_the_way():
    tree = a_tree(a_cohort(), a_queue(parent="c"), a_queue("r", parent="c"))
    tree.charge("r", "h100", gpus(8))
    tree.apply(a_queue("r", parent="c", flavors={"h100": 1}, version=2))

    blocker = tree.blocked_by(tree.node("q"), "h100", gpus(2))

    assert blocker is tree.node("c")


def test_an_older_version_changes_nothing():
    tree = a_tree(a_queue(version=2))

    changed, problem = tree.apply(a_queue(version=1, flavors={"h100": 1}))

    assert (changed, problem) == (None, "")
    assert tree.node("q").owned("h100")[0] == 8000


def test_a_parent_may_be_applied_after_its_children():
    tree = a_tree(a_queue(parent="c"), a_cohort(parent="top"), a_cohort("top"))

    assert tree.node("top").owned("h100")[0] == 8000


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (a_queue("q", flavors={"h100": -1}), "negative"),
        (a_queue("q", flavors={"h100": UNLIMITED // 100}), "larger than unlimited"),
        (a_queue("q", parent="q"), "its own parent"),
        (a_queue("q", weight=-1), "weight"),
        (a_queue("q", flavors={str(i): 1 for i in range(257)}), "more than 256 flavors"),
        (a_cohort("c", version=2, parent="e"), "cycle"),
        (a_queue("q", parent="r"), "is a queue"),
        (a_cohort("r", version=2), "is a queue already"),
    ],
)
def test_a_document_that_makes_no_sense_is_refused_and_the_old_stays(document, words):
    tree = a_tree(
        a_cohort("c"), a_cohort("d", parent="c"), a_cohort("e", parent="d"), a_queue("r")
    )
    before = {name: (node.document, node.parent) for name, node in tree.nodes.items()}

    changed, problem = tree.apply(document)

    assert changed is None
    assert words in problem
    assert {name: (node.document, node.parent) for name, node in tree.nodes.items()} == before


def test_a_tree_has_a_greatest_depth():
    tree = QuotaTree()
    problems = [
        tree.apply(a_cohort(f"c{i}", parent=f"c{i - 1}" if i else ""))[1] for i in range(40)
    ]

    assert problems[:31] == [""] * 31
    assert any("deeper than" in problem for problem in problems)


def test_a_queue_that_leaves_its_cohort_takes_use_and_promises_along():
    tree = a_tree(a_cohort("top"), a_cohort("c", parent="top"), a_queue(parent="c"))
    tree.charge("q", "h100", gpus(3))
    tree.promise("q", "h100", gpus(2))

    changed, _ = tree.apply(a_queue(version=2))

    assert changed is tree.node("q")
    for name in ("c", "top"):
        assert tree.node(name).taken("h100") == (0, 0, 0)
        assert tree.node(name).limits == {}
    assert tree.node("q").taken("h100") == (5000, 2, 2)
    assert tree.node("q").root is tree.node("q")


def a_member(name, nominal, *, parent="c", borrowing=None, lending=None, kind="queue"):
    def milli(count):
        return None if count is None else (count * 1000, UNLIMITED, UNLIMITED)

    limits = FlavorLimits(
        nominal=(nominal * 1000, UNLIMITED, UNLIMITED),
        borrowing_limit=milli(borrowing),
        lending_limit=milli(lending),
    )
    return QuotaDocument(name=name, kind=kind, version=1, parent=parent, flavors={"h100": limits})


def gpu(amount):
    return amount[0] / 1000


def test_what_is_never_lent_is_the_owners_and_not_counted_above():
    tree = a_tree(a_cohort(), a_member("own", 8, lending=3), a_member("guest", 0))

    assert gpu(tree.node("own").guaranteed("h100")) == 5
    assert gpu(tree.node("c").owned("h100")) == 3
    assert tree.charge("own", "h100", (5000, 0, 0)) == ["own"]
    assert tree.charge("own", "h100", (1000, 0, 0)) == ["own", "c"]
    assert gpu(tree.node("guest").available("h100")) == 2
    assert tree.charge("own", "h100", (3000, 0, 0), -1) == ["own", "c"]
    assert gpu(tree.node("c").charged("h100")) == 0


def test_promises_within_the_guaranteed_part_are_not_counted_above():
    tree = a_tree(a_cohort(), a_member("own", 8, lending=3))

    tree.promise("own", "h100", (4000, 0, 0))
    tree.charge("own", "h100", (4000, 0, 0))

    assert gpu(tree.node("c").taken("h100")) == 3
    assert gpu(tree.node("c").charged("h100")) == 0
    assert gpu(tree.node("own").available("h100")) == 0
    assert gpu(tree.node("own").unpromised("h100")) == 4


def test_a_borrowing_limit_holds_however_much_there_is():
    tree = a_tree(a_cohort(flavors={"h100": 99}), a_member("q", 1, borrowing=2))

    assert gpu(tree.node("q").available("h100")) == 3
    tree.charge("q", "h100", (3000, 0, 0))
    assert tree.blocked_by(tree.node("q"), "h100", (1, 0, 0)) is tree.node("q")
    assert gpu(tree.node("q").borrowed("h100")) == 2


def test_what_is_guaranteed_may_be_used_while_the_cohort_is_over_its_limits():
    tree = a_tree(a_cohort(), a_member("own", 4, lending=0), a_member("guest", 4))
    tree.charge("guest", "h100", (4000, 0, 0))
    tree.apply(a_queue("guest", version=2, parent="c", flavors={"h100": 1}))

    assert gpu(tree.node("c").available("h100")) == -3
    assert gpu(tree.node("own").available("h100")) == 4
    assert tree.blocked_by(tree.node("own"), "h100", (4000, 0, 0)) is None


def test_lenders_lend_by_what_they_have_to_spare_after_the_pool_of_their_cohort():
    tree = a_tree(
        a_cohort(flavors={"h100": 2}),
        a_member("rich", 6),
        a_member("poor", 3),
        a_member("guest", 0),
    )
    tree.charge("guest", "h100", (8000, 0, 0))

    lent = {name: gpu(tree.node(name).lent("h100")) for name in ("rich", "poor", "guest", "c")}

    assert lent == {"rich": 4, "poor": 2, "guest": 0, "c": 0}


def test_a_cohort_lends_for_its_members_to_the_cohort_beside_it():
    tree = a_tree(
        a_cohort("top"),
        a_cohort("c", parent="top"),
        a_cohort("d", parent="top"),
        a_member("own", 8, lending=4),
        a_member("guest", 0, parent="d"),
    )
    tree.charge("own", "h100", (5000, 0, 0))
    tree.charge("guest", "h100", (3000, 0, 0))

    assert gpu(tree.node("own").spare("h100")) == 3
    assert [gpu(tree.node(name).lent("h100")) for name in ("c", "own")] == [3, 3]
    assert gpu(tree.node("top").available("h100")) == 0


def test_to_readers_a_cohort_is_all_that_is_in_it_also_what_its_members_keep():
    tree = a_tree(
        a_cohort("top", flavors={"h100": 3}),
        a_cohort("c", parent="top"),
        a_member("own", 8, lending=4),
        a_member("other", 2),
    )
    tree.charge("own", "h100", (5000, 1, 2))
    totals = Totals(tree)

    told = [totals.of(tree.node(name), "h100") for name in ("top", "c", "own", "other")]

    assert [gpu(one.nominal) for one in told] == [13, 10, 8, 2]
    assert [one.used for one in told] == [(5000, 1, 2)] * 3 + [(0, 0, 0)]
    assert gpu(tree.node("c").charged("h100")) == 1  # what decisions count of it
    tree.charge("own", "h100", (1000, 0, 0))
    assert totals.of(tree.node("top"), "h100") is told[0]  # of that moment


def test_a_queue_cannot_take_the_name_of_the_cohort_of_others():
    tree = a_tree(a_queue("q", parent="early"))

    assert "is the cohort of q already" in tree.apply(a_queue("early"))[1]
