"""Ranks of queues: who is owed goes first, then who borrows least by weight, from the top down."""

from shared.core.quota.fair_share import (
    FIRST,
    LAST,
    SHARE_ONE,
    arrears,
    borrowers,
    rank,
    share,
    shares,
    within_nominal,
)
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree

GPU = 1000


def a_tree(*documents):
    tree = QuotaTree()
    for number, (name, parent, gpus, weight) in enumerate(documents):
        has_members = any(parent_of == name for _, parent_of, _, _ in documents)
        tree.apply(
            QuotaDocument(
                name=name,
                kind="cohort" if has_members else "queue",
                version=number + 1,
                parent=parent,
                weight=weight,
                flavors={"h100": FlavorLimits(nominal=(gpus * GPU, 0, 0))},
            )
        )
    return tree


def use(tree, queue, gpus, flavor="h100"):
    tree.charge(queue, flavor, (gpus * GPU, 0, 0))


def ranked(tree, queue, gpus=1, used=0, flavors=("h100",)):
    return rank(tree.node(queue), flavors, (gpus * GPU, 0, 0), used)


def test_what_a_queue_owns_goes_before_all_that_is_borrowed():
    tree = a_tree(("org", "", 0, 1), ("a", "org", 8, 1), ("b", "org", 8, 1))
    use(tree, "a", 6)

    assert ranked(tree, "a", 2) < ranked(tree, "b", 9)  # a still owns two, b would borrow one
    assert ranked(tree, "a", 3) > ranked(tree, "b", 8)
    assert ranked(tree, "b", 8, used=10**9) < ranked(tree, "a", 3)


def test_the_share_is_what_is_borrowed_of_what_the_cohort_owns_by_weight():
    tree = a_tree(("org", "", 4, 1), ("a", "org", 8, 1), ("b", "org", 8, 2))
    use(tree, "a", 10)
    use(tree, "b", 10)

    assert share(tree.node("a")) == SHARE_ONE * 2 // 20
    assert share(tree.node("b")) == SHARE_ONE * 2 // 20 // 2
    assert share(tree.node("org")) == 0


def test_the_dominant_share_is_the_largest_of_flavors_and_units():
    tree = QuotaTree()
    limits = {
        "h100": FlavorLimits(nominal=(8 * GPU, 64_000, 1000)),
        "l40s": FlavorLimits(nominal=(4 * GPU, 64_000, 1000)),
    }
    for name in "ab":
        tree.apply(QuotaDocument(name=name, kind="queue", version=1, parent="org", flavors=limits))
    tree.apply(QuotaDocument(name="org", kind="cohort", version=1))
    tree.charge("a", "h100", (9 * GPU, 1000, 0))
    tree.charge("a", "l40s", (6 * GPU, 0, 0))

    assert share(tree.node("a")) == SHARE_ONE * 2 // 8

    tree.charge("a", "l40s", (0, 0, 2500))
    assert share(tree.node("a")) == SHARE_ONE * 3 // 4


def test_a_borrower_of_weight_0_is_last_and_a_lender_of_weight_0_is_not():
    tree = a_tree(("org", "", 8, 1), ("a", "org", 8, 0), ("b", "org", 0, 1))
    use(tree, "b", 8)

    assert ranked(tree, "a") < ranked(tree, "b")
    use(tree, "a", 9)
    assert share(tree.node("a")) == LAST
    assert ranked(tree, "b") < ranked(tree, "a")


def test_departments_are_compared_before_their_teams():
    """One hungry team of a modest department goes before a modest team of a hungry one."""
    tree = a_tree(
        ("org", "", 100, 1),
        ("modest", "org", 10, 1),
        ("hungry", "org", 10, 1),
        ("one", "modest", 0, 1),
        ("small", "hungry", 0, 1),
        ("large", "hungry", 0, 1),
    )
    use(tree, "one", 20)
    use(tree, "large", 30)
    use(tree, "small", 1)

    assert ranked(tree, "one") < ranked(tree, "small") < ranked(tree, "large")


def test_of_those_who_are_promised_devices_the_one_who_was_kept_shortest_goes_first():
    """Added up along the path; what each has at the moment does not count."""
    tree = a_tree(
        ("org", "", 100, 1),
        ("left", "org", 10, 1),
        ("right", "org", 10, 1),
        ("a", "left", 4, 1),
        ("b", "left", 4, 1),
        ("c", "right", 4, 1),
    )
    for node, debt in (("left", 50), ("right", -20), ("a", -100), ("b", 10)):
        tree.set_debt(node, debt)
    use(tree, "a", 30)

    turns = {
        name: arrears(tree.node(name), ("h100",), (gpus * GPU, 0, 0))
        for name, gpus in (("a", 8), ("b", 8), ("c", 8))
    }
    owed = arrears(tree.node("b"), ("h100",), (4 * GPU, 0, 0))

    assert [owed, turns["a"], turns["c"], turns["b"]] == sorted([*turns.values(), owed])


def test_depth_alone_makes_no_difference():
    tree = a_tree(
        ("org", "", 8, 1), ("dep", "org", 0, 1), ("deep", "dep", 0, 1), ("b", "org", 0, 1)
    )

    assert shares(tree.node("deep")) == shares(tree.node("b"))
    assert ranked(tree, "deep", used=1) > ranked(tree, "b")


def test_equal_shares_are_told_apart_by_use_over_time_and_weight():
    tree = a_tree(("org", "", 8, 1), ("a", "org", 0, 2), ("b", "org", 0, 1))

    assert ranked(tree, "a", used=100) == ranked(tree, "b", used=50)
    assert ranked(tree, "a", used=99) < ranked(tree, "b", used=50)


def test_promises_count_as_use():
    tree = a_tree(("org", "", 8, 1), ("a", "org", 1, 1))
    tree.promise("a", "h100", (GPU, 0, 0))

    assert not within_nominal(tree.node("a"), "h100", (GPU, 0, 0))
    tree.promise("a", "h100", (GPU, 0, 0))
    assert share(tree.node("a")) > 0


def test_any_flavor_that_is_owned_will_do():
    tree = a_tree(("org", "", 8, 1), ("a", "org", 1, 1))

    assert ranked(tree, "a", flavors=("l40s", "h100")) == FIRST
    assert ranked(tree, "a", flavors=("l40s",)) > FIRST


def test_what_nobody_owns_is_all_of_it_and_a_queue_alone_has_no_share():
    tree = a_tree(("org", "", 0, 1), ("a", "org", 0, 1), ("alone", "", 1, 1))
    use(tree, "a", 1)
    use(tree, "alone", 5)

    assert share(tree.node("a")) == SHARE_ONE
    assert not any(shares(tree.node("alone")))
    assert share(tree.node("nobody")) == 0


def test_of_several_promised_starts_those_borrow_for_which_those_before_leave_too_little():
    tree = a_tree(("all", "", 0, 1), ("a", "all", 10, 1), ("b", "all", 8, 1))
    use(tree, "b", 1)

    def starts(*asked):
        return [(name, tree.node(name[0]), "h100", (gpus * GPU, 0, 0)) for name, gpus in asked]

    assert borrowers(starts(("a1", 8), ("a2", 8), ("a3", 2), ("a4", 1))) == {"a2", "a4"}
    assert borrowers(starts(("a1", 8), ("b1", 7), ("b2", 1))) == {"b2"}
    assert borrowers(starts(("b1", 8), ("b2", 7))) == {"b1"}
    assert borrowers([]) == set()
