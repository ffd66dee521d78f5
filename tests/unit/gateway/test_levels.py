"""What a level of the quota tree says it has left, for teams that may borrow and for others."""

from __future__ import annotations

import pytest

from services.gateway.queues.queue_views import BudgetSpent
from services.gateway.why.levels import level_of, owned_only
from shared.core.model.team_policy import AtLimit
from shared.core.model.units import UNLIMITED
from shared.core.quota.queue_policy import QueuePolicy
from shared.core.quota.totals import Totals
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from tests.unit.admission.builders import a_spec


def a_tree() -> QuotaTree:
    """Two queues of a cohort own eight GPUs each and any CPU; `red` uses five."""
    tree = QuotaTree()
    tree.apply(QuotaDocument(name="all", kind="cohort", version=1))
    for number, name in enumerate(("red", "blue")):
        limits = FlavorLimits(nominal=(8_000, UNLIMITED, 64))
        document = QuotaDocument(
            name=name, kind="queue", version=number + 2, parent="all", flavors={"h100": limits}
        )
        tree.apply(document)
    tree.charge("red", "h100", (5_000, 1_000, 8))
    return tree


@pytest.mark.parametrize(("owned", "gpus"), [(False, 11_000), (True, 3_000)])
def test_a_queue_that_may_not_borrow_has_only_what_it_owns_left(owned: bool, gpus: int) -> None:
    tree = a_tree()
    totals = Totals(tree)

    queue, cohort = (
        level_of(totals, tree.node(name), "h100", None, owned_only=owned)
        for name in ("red", "all")
    )

    assert (queue.available.gpu_milli, queue.available.cpu_milli) == (gpus, UNLIMITED)
    assert cohort.available.gpu_milli == 11_000


def test_a_queue_that_has_borrowed_before_has_nothing_left() -> None:
    tree = a_tree()
    tree.charge("red", "h100", (6_000, 0, 0))

    level = level_of(Totals(tree), tree.node("red"), "h100", None, owned_only=True)

    assert (level.available.gpu_milli, level.borrowed.gpu_milli) == (0, 3_000)


@pytest.mark.parametrize(
    ("percent", "at_limit", "expected"),
    [
        (99, AtLimit.NOMINAL, False),
        (100, AtLimit.NOMINAL, True),
        (180, AtLimit.NOMINAL, True),
        (180, AtLimit.SPOT, False),
        (180, AtLimit.WARN, False),
    ],
)
def test_a_spent_budget_that_leaves_what_is_owned_forbids_to_borrow(
    percent: int, at_limit: AtLimit, expected: bool
) -> None:
    budget = BudgetSpent(
        month="2026-11",
        percent=percent,
        at_limit=at_limit.value,
        spent_gpu_milli_hours=percent * 1000,
        limit_gpu_milli_hours=100_000,
        spent_microdollars=0,
        limit_microdollars=None,
        told_at_ms=0,
    )

    queue = QuotaTree().node("q")

    assert owned_only(budget, queue, None) is expected
    assert not owned_only(None, queue, None)


@pytest.mark.parametrize("lends", [False, True])
def test_a_queue_borrows_for_whom_nobody_may_evict_only_if_its_policy_says_so(lends: bool) -> None:
    policy = QueuePolicy(unevictable_may_borrow=lends)
    tree = QuotaTree()
    tree.apply(QuotaDocument(name="q", kind="queue", version=1, policy=policy))
    stays = a_spec(preemptible=False)

    assert owned_only(None, tree.node("q"), stays) is not lends
    assert not owned_only(None, tree.node("q"), a_spec())
