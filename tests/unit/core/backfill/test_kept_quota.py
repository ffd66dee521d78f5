"""When quota will be there for one who needs much of it, and what is left beside it."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.backfill.kept_quota import Keeping, QuotaHolder, keeping
from shared.core.backfill.timeline import NEVER
from shared.core.model.units import UNLIMITED
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree

FLAVOR = "h100"


def gpus(count: int) -> tuple[int, int, int]:
    return count * 1_000, 0, 0


def a_tree(**owned: int) -> QuotaTree:
    """Queues that own so many GPUs of cohort `all`."""
    tree = QuotaTree()
    tree.apply(QuotaDocument(name="all", kind="cohort", version=1))
    for name, count in owned.items():
        limits = {FLAVOR: FlavorLimits(nominal=gpus(count))}
        queue = QuotaDocument(name=name, kind="queue", version=1, parent="all", flavors=limits)
        tree.apply(queue)
    return tree


def charged(tree: QuotaTree, *holders: QuotaHolder) -> list[QuotaHolder]:
    for one in holders:
        tree.charge(one.queue, FLAVOR, one.amount)
    return list(holders)


def asked(tree: QuotaTree, count: int, holders: list[QuotaHolder], **more: int) -> Keeping | None:
    return keeping(tree, tree.node("a"), FLAVOR, gpus(count), holders, **more)


def test_it_is_there_once_enough_has_ended_and_what_else_ends_then_is_left_over():
    tree = a_tree(a=4, b=4)
    ends = ((30, 2), (10, 1), (20, 1), (30, 3))
    holders = charged(tree, *(QuotaHolder(at, "b", gpus(count)) for at, count in ends))

    found = asked(tree, 4, holders)

    assert found == Keeping(levels=("all",), until_ms=30, spare=(4_000, UNLIMITED, UNLIMITED))
    assert gpus(7) == tree.node("all").taken(FLAVOR), "as before"


def test_what_never_ends_is_not_counted_on():
    tree = a_tree(a=4, b=4)
    holders = charged(tree, QuotaHolder(NEVER, "b", gpus(5)), QuotaHolder(10, "b", gpus(3)))

    assert asked(tree, 4, holders) is None
    assert asked(tree, 3, holders) == Keeping(("all",), 10, (0, UNLIMITED, UNLIMITED))


def test_nothing_is_kept_for_whom_quota_is_there_unless_he_waits_for_nodes():
    tree = a_tree(a=4, b=4)
    holders = charged(tree, QuotaHolder(10, "b", gpus(3)), QuotaHolder(30, "b", gpus(1)))

    assert asked(tree, 4, holders) is None
    waits = asked(tree, 4, holders, start_ms=20)
    assert waits == Keeping(("a", "all"), 20, (3_000, UNLIMITED, UNLIMITED))


def test_whoever_waits_for_both_has_both_at_the_later_time():
    tree = a_tree(a=4, b=4)
    holders = charged(tree, QuotaHolder(10, "b", gpus(4)), QuotaHolder(20, "b", gpus(4)))

    assert asked(tree, 4, holders, start_ms=15) == Keeping(("all",), 15, (0, UNLIMITED, UNLIMITED))
    later = asked(tree, 4, holders, start_ms=25)
    assert later == Keeping(("all",), 25, (4_000, UNLIMITED, UNLIMITED))


def test_its_own_limit_is_in_nobody_elses_way():
    tree = a_tree(b=4)
    no_more = FlavorLimits(nominal=gpus(4), borrowing_limit=gpus(0))
    tree.apply(
        QuotaDocument(name="a", kind="queue", version=1, parent="all", flavors={FLAVOR: no_more})
    )
    holders = charged(tree, QuotaHolder(10, "a", gpus(2)))

    found = asked(tree, 4, holders)

    assert found is not None
    assert ("a",) == found.levels


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**40))
def test_not_before_it_fits_and_not_more_than_fits_beside_it(seed: int) -> None:
    random = Random(seed)
    tree = a_tree(a=random.randint(0, 6), b=random.randint(0, 6), c=random.randint(0, 6))
    holders = []
    for _ in range(random.randint(0, 12)):
        one = QuotaHolder(random.randint(1, 9), random.choice("abc"), gpus(random.randint(1, 3)))
        if tree.blocked_by(tree.node(one.queue), FLAVOR, one.amount) is None:
            holders += charged(tree, one)
    size = random.randint(1, 8)
    fitted = tree.blocked_by(tree.node("a"), FLAVOR, gpus(size)) is None

    found = asked(tree, size, holders)

    times = sorted({one.end_ms for one in holders})
    fits_at = [at for at in times if _left(tree, holders, at) >= size]
    if fitted or not fits_at:
        assert found is None
    else:
        assert found is not None
        spare = (_left(tree, holders, fits_at[0]) - size) * 1_000
        assert (fits_at[0], (spare, UNLIMITED, UNLIMITED)) == (found.until_ms, found.spare)


def _left(tree: QuotaTree, holders: list[QuotaHolder], at_ms: int) -> int:
    """GPUs of the whole cohort, as nothing is limited below it."""
    owned = sum(tree.node(one).owned(FLAVOR)[0] for one in "abc")
    return (owned - sum(one.amount[0] for one in holders if one.end_ms > at_ms)) // 1_000
