"""The order of all waiting work: total, without a cycle, and fair by weight."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.ordering import order_key
from shared.core.queueing.waiting import WaitingIndex
from shared.core.quota.fair_share import rank
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree

GPU = 1000
QUEUES = ("a", "b", "c", "d", "alone")
PARENTS = {
    "a": "x",
    "b": "x",
    "c": "y",
    "d": "org",
    "x": "org",
    "y": "org",
    "alone": "",
    "org": "",
}
AMOUNTS = st.tuples(
    st.integers(0, 12).map(lambda gpus: gpus * GPU), st.integers(0, 9), st.integers(0, 9)
)


@st.composite
def trees(draw):
    tree = QuotaTree()
    for name, parent in PARENTS.items():
        flavors = {one: FlavorLimits(nominal=draw(AMOUNTS)) for one in ("h100", "l40s")}
        tree.apply(
            QuotaDocument(
                name=name,
                kind="queue" if name in QUEUES else "cohort",
                version=1,
                parent=parent,
                weight=draw(st.integers(0, 3)),
                flavors=flavors,
            )
        )
    for queue in QUEUES:
        tree.charge(queue, draw(st.sampled_from(("h100", "l40s"))), draw(AMOUNTS))
    for name in PARENTS:
        tree.set_debt(name, draw(st.integers(-3, 3)) * 100_000)
    return tree


@st.composite
def waiting(draw):
    return (
        draw(st.sampled_from(QUEUES)),
        draw(st.lists(st.sampled_from(("h100", "l40s")), min_size=1, max_size=2, unique=True)),
        draw(AMOUNTS),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 3)),
    )


def keys_of(tree, members):
    used = {queue: number % 3 for number, queue in enumerate(QUEUES)}
    keys = []
    for number, (queue, flavors, request, priority, at_ms) in enumerate(members):
        key = order_key(priority, at_ms, f"w{number:08}")
        ranked = rank(tree.node(queue), flavors, request, used[queue])
        keys.append((key[0], ranked, key, f"w{number:08}"))
    return keys


@given(trees(), st.lists(waiting(), min_size=3, max_size=7))
def test_the_order_is_total_and_transitive(tree, members):
    keys = keys_of(tree, members)

    for one, other in itertools.combinations(keys, 2):
        assert (one < other) != (other < one)
    for one, other, third in itertools.permutations(keys, 3):
        assert not (one < other < third) or one < third


@given(trees(), st.lists(waiting(), min_size=2, max_size=6))
def test_ranks_only_grow_while_work_is_placed(tree, members):
    """What the lazy heap of the waiting index stands on."""
    before = keys_of(tree, members)
    for queue, flavors, request, *_ in members:
        tree.charge(queue, flavors[0], request)
        after = keys_of(tree, members)
        assert all(old <= new for old, new in zip(before, after, strict=True))
        before = after


@given(
    st.dictionaries(st.sampled_from(QUEUES[:4]), st.integers(1, 5), min_size=2),
    st.integers(1, 400),
)
def test_weights_divide_what_is_lent(weights, lent):
    """One GPU at a time over equals with equal appetite: as much for each as its weight says."""
    tree = QuotaTree()
    pool = {"h100": FlavorLimits(nominal=(lent * GPU, 0, 0))}
    tree.apply(QuotaDocument(name="org", kind="cohort", version=1, flavors=pool))
    index = WaitingIndex(lambda one: rank(tree.node(one[0]), ("h100",), (GPU, 0, 0), 0))
    nothing = {"h100": FlavorLimits(nominal=(0, 0, 0))}
    for queue, weight in weights.items():
        tree.apply(
            QuotaDocument(
                name=queue, kind="queue", version=1, parent="org", weight=weight, flavors=nothing
            )
        )
        for number in range(lent):
            index.add(f"{queue}{number:04}", queue, (0, number))

    for _ in range(lent):
        workload = index.pop()
        assert workload is not None
        tree.charge(workload[0], "h100", (GPU, 0, 0))

    total = sum(weights.values())
    for queue, weight in weights.items():
        got = tree.node(queue).used.get("h100", [0])[0] // GPU
        assert abs(got - lent * weight / total) <= len(weights)
