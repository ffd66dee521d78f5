"""Nodes that are needed: enough for what waits, and none for what finds room or has no quota."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.nouns import Level
from shared.core.model.units import GPU_MILLI
from shared.core.needed_nodes import GangNeed, OpenNode, WaitingGang, lack_of, within_quota
from shared.core.quota.document import NOTHING, FlavorLimits, QuotaDocument
from shared.core.quota.tree import QuotaTree

NODE_GPUS = 8
SIZES = st.sampled_from((1, 2, 4, 8))
GANGS = st.lists(
    st.builds(
        lambda pods, apart, near: GangNeed(
            pods=tuple(sorted(pods, key=lambda one: -one[1])),
            apart=apart,
            level=Level.RACK if near else None,
        ),
        st.lists(st.tuples(st.integers(1, 6), SIZES, st.just(0)), min_size=1, max_size=2),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)
FREE = st.lists(st.integers(1, NODE_GPUS), max_size=6)


def rooms(free: list[int]) -> list[OpenNode]:
    """Nodes with so many free GPUs."""
    racks = {Level.RACK: "r1"}
    return [
        OpenNode(name=f"n{at}", free=gpus, gpus=NODE_GPUS, domains=racks)
        for at, gpus in enumerate(free)
    ]


@given(gangs=GANGS, free=FREE, warm=st.integers(0, 4))
def test_what_is_needed_is_enough_and_no_more_than_a_node_for_each_pod(gangs, free, warm):
    lack = lack_of(Counter(gangs), rooms(free), node_gpus=NODE_GPUS, warm_nodes=warm)

    asked = sum(count * gpus for gang in gangs for count, gpus, _ in gang.pods)
    assert lack.nodes * NODE_GPUS >= asked - sum(free)
    assert lack.nodes <= lack.pods <= sum(one[0] for gang in gangs for one in gang.pods)
    assert lack.warm_nodes <= warm


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    gpus=st.integers(1, NODE_GPUS),
    free=FREE,
)
def test_of_equal_pods_exactly_those_without_room_need_nodes(counts, gpus, free):
    gangs = [GangNeed(pods=((count, gpus, 0),)) for count in counts]

    lack = lack_of(Counter(gangs), rooms(free), node_gpus=NODE_GPUS, warm_nodes=0)

    lacking = max(sum(counts) - sum(one // gpus for one in free), 0)
    assert (lack.pods, lack.nodes) == (lacking, -(-lacking // (NODE_GPUS // gpus)))


@given(
    gpus=st.integers(1, NODE_GPUS),
    owned=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    used=st.integers(0, 40),
    gangs=st.integers(1, 30),
)
def test_gangs_that_come_as_one_count_as_one_by_one(gpus, owned, used, gangs):
    gang = WaitingGang(
        queue="q", need=GangNeed(pods=((1, gpus, 0),)), request=(gpus * GPU_MILLI, 0, 0)
    )

    def counted(*waiting: tuple[WaitingGang, int]) -> dict[str, dict[GangNeed, int]]:
        tree = QuotaTree()
        limits = {
            f"f{at}": FlavorLimits(nominal=(gpus * GPU_MILLI, 0, 0), borrowing_limit=NOTHING)
            for at, gpus in enumerate(owned)
        }
        tree.apply(QuotaDocument(name="q", kind="queue", version=1, parent="all", flavors=limits))
        tree.charge("q", "f0", (used * GPU_MILLI, 0, 0))
        return {name: dict(one) for name, one in within_quota(waiting, tree, {}).items()}

    assert counted((gang, gangs)) == counted(*[(gang, 1)] * gangs)
