"""The ideal part of each node: what is owned first, the rest by weight, to who asks for it."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.quota.ideal_share import ideal_borrowing, pour
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree

FLAVOR = "h100"


def a_tree(*nodes):
    """(name, parent, GPUs, weight, lending limit or None); queues are lower case."""
    tree = QuotaTree()
    for name, parent, gpus, weight, lends in nodes:
        limits = FlavorLimits(
            nominal=(gpus, 0, 0), lending_limit=None if lends is None else (lends, 0, 0)
        )
        tree.apply(
            QuotaDocument(
                name=name,
                kind="queue" if name.islower() else "cohort",
                version=1,
                parent=parent,
                weight=weight,
                flavors={FLAVOR: limits},
            )
        )
    return tree


def test_what_a_member_owns_and_wants_is_nobody_elses():
    tree = a_tree(("ORG", "", 0, 1, None), ("a", "ORG", 6, 1, None), ("b", "ORG", 2, 1, None))

    assert ideal_borrowing(tree.node("ORG"), FLAVOR, {"a": 4, "b": 9}) == {"a": 0, "b": 2}


def test_what_runs_counts_as_wanted():
    tree = a_tree(("ORG", "", 6, 1, None), ("a", "ORG", 0, 1, None), ("b", "ORG", 0, 2, None))
    tree.charge("a", FLAVOR, (6, 0, 0))

    assert ideal_borrowing(tree.node("ORG"), FLAVOR, {"b": 9}) == {"a": 2, "b": 4}


def test_what_is_never_lent_is_not_poured_and_counts_for_nobody_above():
    tree = a_tree(("ORG", "", 0, 1, None), ("a", "ORG", 8, 1, 3), ("b", "ORG", 0, 1, None))

    assert ideal_borrowing(tree.node("ORG"), FLAVOR, {"b": 9}) == {"a": 0, "b": 3}
    assert ideal_borrowing(tree.node("ORG"), FLAVOR, {"a": 6, "b": 9}) == {"a": 0, "b": 2}


def test_departments_come_before_their_queues():
    tree = a_tree(
        ("ORG", "", 12, 1, None),
        ("LEFT", "ORG", 0, 1, None),
        ("RIGHT", "ORG", 0, 1, None),
        ("a", "LEFT", 0, 1, None),
        ("b", "RIGHT", 0, 1, None),
        ("c", "RIGHT", 0, 1, None),
    )

    found = ideal_borrowing(tree.node("ORG"), FLAVOR, dict.fromkeys("abc", 99))

    assert found == {"LEFT": 6, "RIGHT": 6, "a": 6, "b": 3, "c": 3}


def test_weight_0_has_what_the_others_leave():
    assert pour(10, [4, 9, 3], [1, 0, 1]) == [4, 3, 3]


@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4)), min_size=1, max_size=5),
)
def test_pouring_is_giving_one_after_the_other_to_who_has_least_by_weight(amount, members):
    wants, weights = [one for one, _ in members], [one for _, one in members]
    got = [0] * len(members)
    for _ in range(amount):
        hungry = [at for at, want in enumerate(wants) if got[at] < want]
        if hungry:
            got[min(hungry, key=lambda at: ((got[at] + 1) / weights[at], at))] += 1

    poured = pour(amount, wants, weights)

    assert sum(poured) <= sum(got) < sum(poured) + len(members)
    assert all(abs(one - other) <= len(members) for one, other in zip(got, poured, strict=True))


@given(st.integers(0, 2**32))
def test_nothing_is_poured_twice_in_any_tree(seed):
    """All members together never have more than the tree owns, nor anybody more than he asks."""
    draw = Random(seed)
    nodes = [("ORG", "", draw.randint(0, 9), 1, None)]
    nodes += [(name, "ORG", draw.randint(0, 9), draw.randint(0, 3), None) for name in ("A", "B")]
    nodes += [
        (name, draw.choice(("A", "B", "ORG")), draw.randint(0, 9), draw.randint(0, 3), None)
        for name in "abcde"
    ]
    tree = a_tree(*nodes)
    waiting = {name: draw.randint(0, 20) for name in "abcde"}

    found = ideal_borrowing(tree.node("ORG"), FLAVOR, waiting)

    held = {
        name: min(waiting[name], tree.node(name).owned(FLAVOR)[0]) + found[name]
        for name in "abcde"
    }
    assert sum(held.values()) <= tree.node("ORG").owned(FLAVOR)[0]
    assert all(held[name] <= waiting[name] for name in held)
