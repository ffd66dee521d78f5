"""The same laws as for all placement, once the mix of demand is known and decides."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.model.demand import gang_of
from shared.core.model.nouns import GpuChoice, Placement, Workload
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.mix import LEARNED_MIN
from tests.properties.test_placement_properties import Run, any_fleet, any_gpu
from tests.support import placing
from tests.support.brute_force import Ledger, feasible

seeds = st.integers(0, 2**40)
FLAVOR = "a100"


def single(draw: Random) -> Workload:
    products = draw.choice(((), (), ("A100-80GB",)))
    return placing.workload(
        placing.pods(
            any_gpu(draw),
            cpu_milli=draw.choice((0, 500, 1000, 2000, 3000)),
            memory_mib=draw.choice((0, 10, 30)),
        ),
        team=draw.choice(("red", "blue")),
        choice=GpuChoice(products=products),
    )


def learned_history(seed: int) -> tuple[Run, Random]:
    """A fleet whose mix is known from the start, after some dozen steps."""
    draw = Random(seed)
    fleet = any_fleet(draw)
    run = Run(placing.cluster(*fleet), Ledger({node.name: node for node in fleet}))
    mix = run.cluster.packing(FLAVOR).mix
    while not mix.version:
        mix.note(gang_of(single(draw)), placed=True)
    for _ in range(draw.randint(0, 24)):
        step = draw.choice(("place",) * 9 + ("release",) * 3 + ("health", "cordon", "vanish"))
        if step == "place":
            run.place(single(draw))
        elif step == "release":
            run.release(draw.randrange(100))
        else:
            run.change(step, draw.randrange(100))
    return run, draw


@settings(max_examples=600, deadline=None)
@given(seeds)
def test_a_pod_is_placed_by_the_mix_if_and_only_if_there_is_room(seed: int) -> None:
    run, draw = learned_history(seed)
    for _ in range(4):
        asked = single(draw)
        possible = feasible(run.ledger, asked)

        answer = run.place(asked)

        assert isinstance(answer, Placement) == possible, answer
    run.ledger.check()


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_with_the_same_mix_a_cluster_rebuilt_in_another_order_decides_the_same(seed: int) -> None:
    run, draw = learned_history(seed)
    rebuilt = Cluster()
    for workload, placement in reversed(run.live):
        rebuilt.charge(workload.team, placement.pods, workload.spec.pod_sets)
    for name in sorted(run.ledger.nodes.keys() - run.gone, reverse=True):
        rebuilt.put_node(run.ledger.nodes[name])
    packing = run.cluster.packing(FLAVOR)
    rebuilt.packing(FLAVOR).mix = deepcopy(packing.mix)
    packing.scores._scorer = None  # the tables of both speak of the fleet as it is now

    for _ in range(6):
        request = placing.request(single(draw))
        assert place(rebuilt, request) == place(run.cluster, request)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_the_cells_that_followed_the_changes_hold_every_place_once(seed: int) -> None:
    run, _ = learned_history(seed)
    packing = run.cluster.packing(FLAVOR)
    packing.follow()

    nodes = [member[2].name for members in packing.index.nodes._members for member in members]
    gpus = [
        (member[2].name, member[1])
        for cells in packing.index.shared.values()
        for members in cells._members
        for member in members
    ]

    states = run.cluster.nodes.values()
    assert sorted(nodes) == sorted(state.name for state in states if state.schedulable)
    assert sorted(gpus) == sorted(
        (state.name, index)
        for state in states
        for index, use in state.uses.items()
        if use.offers_shares and use.milli < 1000
    )
    assert LEARNED_MIN <= sum(packing.mix.counts.values())
