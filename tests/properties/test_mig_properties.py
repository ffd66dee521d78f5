"""What must hold for GPUs in MIG mode, whatever came and went."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.model.mig.table import MASK, MigTable, holders
from shared.core.model.nouns import Placement, Workload
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.mig_pool import MigPool
from tests.support import placing

A30 = "NVIDIA-A30"
PRODUCTS = {
    placing.A100: ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me"),
    A30: ("1g.6gb", "2g.12gb", "4g.24gb", "1g.6gb+me", "2g.12gb+me"),
}
History = tuple[Cluster, list[tuple[Workload, Placement]]]


def any_history(seed: int) -> tuple[Random, str, History]:
    """Instances that came and went on a few boards of one product."""
    draw = Random(seed)
    product = draw.choice(sorted(PRODUCTS))
    boards = [
        placing.node(f"n{number}", gpus=3, mig=draw.choice(((0, 1, 2), (1, 2))), product=product)
        for number in range(draw.randint(1, 3))
    ]
    fleet = placing.cluster(*boards)
    live: list[tuple[Workload, Placement]] = []
    for _ in range(draw.randint(0, 40)):
        if live and draw.random() < 0.4:
            workload, placement = live.pop(draw.randrange(len(live)))
            fleet.release(workload.team, placement.pods, workload.spec.pod_sets)
            continue
        name = draw.choice(PRODUCTS[product])
        count = 1 if name.endswith("+me") else draw.choice((1, 1, 1, 2))
        workload = placing.workload(placing.pods(placing.mig(name, count), draw.choice((1, 1, 2))))
        answer = place(fleet, placing.request(workload))
        if isinstance(answer, Placement):
            live.append((workload, answer))
        if draw.random() < 0.1:
            node = draw.choice(boards)
            fleet.set_gpu_health(node.name, 1, draw.random() < 0.5)
    return draw, product, (fleet, live)


def pool_of(fleet: Cluster) -> tuple[MigTable, MigPool]:
    (kind,) = fleet.node_classes.values()
    assert kind.table is not None
    assert isinstance(kind.pool, MigPool)
    return kind.table, kind.pool


def states_of(fleet: Cluster) -> Counter[int]:
    return Counter(
        use.state for node in fleet.nodes.values() for use in node.uses.values() if use.offers_mig
    )


seeds = st.integers(0, 2**40)


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_the_pool_knows_every_gpu_and_what_there_is_room_for(seed: int) -> None:
    _, _, (fleet, _) = any_history(seed)
    table, pool = pool_of(fleet)
    states = states_of(fleet)

    known = {state: int(pool._gpus[number]) for state, number in pool._numbers.items()}
    worth = [sum(each) for each in zip(*map(table.worth, states.elements()), strict=True)]

    assert {state: gpus for state, gpus in known.items() if gpus} == states
    assert pool._stock.tolist() == (worth or [0] * len(table.plain))


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_state_is_what_the_ledger_says_holder_by_holder(seed: int) -> None:
    _, _, (fleet, live) = any_history(seed)
    held: dict[tuple[str, int], list[int]] = {}
    for _, placement in live:
        for pod in placement.pods:
            for share in pod.shares:
                held.setdefault((pod.node, share.index), []).append(share.mask)

    for name, node in fleet.nodes.items():
        for index, use in node.uses.items():
            masks = held.get((name, index), [])
            assert use.state & MASK == sum(masks)
            for part in holders(use.state):
                assert any(part & mask == part for mask in masks)


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_one_instance_goes_to_the_cheapest_of_all_legal_positions(seed: int) -> None:
    draw, product, (fleet, _) = any_history(seed)
    table, pool = pool_of(fleet)
    name = draw.choice(PRODUCTS[product])
    prices = pool._prices().tolist()
    costs = {
        (state, move.start): sum(
            price * loss for price, loss in zip(prices, move.loss, strict=True)
        )
        for state in states_of(fleet)
        for move in table.moves(state, name)
    }
    before = {
        (node.name, index): use.state
        for node in fleet.nodes.values()
        for index, use in node.uses.items()
    }

    answer = place(fleet, placing.request(placing.workload(placing.pods(placing.mig(name)))))

    if not isinstance(answer, Placement):
        assert not costs
        return
    (pod,) = answer.pods
    (share,) = pod.shares
    start = (share.mask & -share.mask).bit_length() - 1
    assert costs[before[pod.node, share.index], start] == min(costs.values())
