"""What was had beyond one's part is a debt, what was missed a credit; both are forgotten."""

from shared.core.quota.deficits import HALF_LIFE_MS, REPAID_MS, FairShareDeficits
from shared.core.quota.fair_share import SHARE_ONE, rank, share
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree

FLAVOR = "h100"
EPOCH_MS = 1_800_000_000_000
GPU = 1000


def a_pool(gpus=8, weights=(1, 1)):
    tree = QuotaTree()
    pool = {FLAVOR: FlavorLimits(nominal=(gpus * GPU, 0, 0))}
    tree.apply(QuotaDocument(name="org", kind="cohort", version=1, flavors=pool))
    for name, weight in zip("ab", weights, strict=True):
        limits = {FLAVOR: FlavorLimits(nominal=(0, 0, 0))}
        tree.apply(
            QuotaDocument(
                name=name, kind="queue", version=1, parent="org", weight=weight, flavors=limits
            )
        )
    return tree


def of(debts, tree, at_ms):
    return [debts.of(tree.node(name), at_ms) for name in "ab"]


def test_who_has_all_while_another_waits_owes_him_the_half():
    tree, debts = a_pool(), FairShareDeficits()
    tree.charge("a", FLAVOR, (8 * GPU, 0, 0))
    assert sorted(debts.review(tree, {FLAVOR: {"b": 8 * GPU}}, EPOCH_MS)) == ["a", "b"]

    mine, theirs = of(debts, tree, EPOCH_MS + REPAID_MS)

    assert 0.95 * SHARE_ONE / 2 < mine < SHARE_ONE / 2
    assert abs(mine + theirs) <= 2


def test_nobody_makes_debts_while_nobody_waits_and_old_ones_are_forgotten():
    tree, debts = a_pool(), FairShareDeficits()
    tree.charge("a", FLAVOR, (8 * GPU, 0, 0))
    debts.review(tree, {FLAVOR: {"b": 8 * GPU}}, EPOCH_MS)
    debts.review(tree, {}, EPOCH_MS + REPAID_MS)
    before = of(debts, tree, EPOCH_MS + REPAID_MS)

    after = of(debts, tree, EPOCH_MS + REPAID_MS + HALF_LIFE_MS)

    assert not debts.moving
    assert all(abs(2 * new - old) <= 2 for new, old in zip(after, before, strict=True))
    assert debts.review(tree, {}, EPOCH_MS + HALF_LIFE_MS) == []


def test_a_debt_counts_by_weight_and_without_a_weight_not_at_all():
    tree, debts = a_pool(weights=(4, 0)), FairShareDeficits()
    tree.charge("b", FLAVOR, (8 * GPU, 0, 0))
    debts.review(tree, {FLAVOR: {"a": 8 * GPU}}, EPOCH_MS)

    credit, debt = of(debts, tree, EPOCH_MS + REPAID_MS)

    assert -SHARE_ONE / 4 <= credit < 0.95 * -SHARE_ONE / 4
    assert debt == 0


def test_a_debt_is_part_of_the_share_and_of_the_order():
    tree = a_pool()
    tree.charge("a", FLAVOR, (2 * GPU, 0, 0))
    tree.charge("b", FLAVOR, (2 * GPU, 0, 0))
    tree.set_debt("b", -1)

    assert share(tree.node("b")) == share(tree.node("a")) - 1
    ranks = [rank(tree.node(name), (FLAVOR,), (GPU, 0, 0), 0) for name in "ab"]
    assert ranks[1] < ranks[0]


def test_a_flavor_that_nobody_owns_makes_no_debts():
    tree, debts = a_pool(), FairShareDeficits()

    assert debts.review(tree, {"other": {"b": GPU}}, EPOCH_MS) == []
