"""What must hold for every plan of moves; the plain ledger of the tests judges each step."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.core.cluster.tenants import Running
from shared.core.model.nouns import Level, Placement, Spread, TopologyRequest, Workload
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.core.preemption.defragmentation.defragment import (
    DefragmentationLimits,
    DefragmentationObstacle,
    NoPlan,
    Plan,
    defragment,
)
from shared.core.preemption.defragmentation.rehearsal import Move
from shared.core.scoring.cluster import Cluster
from tests.properties.test_placement_properties import Run, any_history, any_workload
from tests.support import placing
from tests.support.brute_force import Ledger, feasible

seeds = st.integers(0, 2**40)


def any_fragments(seed: int) -> tuple[Run, Random]:
    """A few nodes filled with small work, of which a third to a half has left."""
    draw = Random(seed)
    mig = draw.random() < 0.2
    fleet = tuple(
        placing.node(
            f"n{number}",
            gpus=(gpus := draw.choice((2, 3, 4))),
            mig=range(gpus) if mig else (),
            cpu_milli=draw.choice((6000, 12_000)),
            memory_mib=200,
            gpu_memory_mib=100,
            product="A100-80GB",
            rack=draw.choice(("", "r1", "r2")),
            zone="z",
        )
        for number in range(draw.randint(3, 5))
    )
    run = Run(placing.cluster(*fleet), Ledger({node.name: node for node in fleet}))
    for _ in range(30):
        run.place(_small(draw, mig=mig))
    for _ in range(int(len(run.live) * draw.uniform(0.3, 0.5))):
        run.release(draw.randrange(100))
    run.live = [(replace(work, id=f"w{at}"), held) for at, (work, held) in enumerate(run.live)]
    return run, draw


def _small(draw: Random, *, mig: bool) -> Workload:
    gpu = draw.choice((placing.whole(1), placing.whole(1), placing.whole(2), placing.share(500)))
    if mig:
        gpu = placing.mig(draw.choice(("1g.10gb", "2g.20gb", "3g.40gb")))
    pods = draw.choice((1, 1, 1, 1, 2))
    cpu_milli = draw.choice((0, 1000, 2000))
    return placing.workload(placing.pods(gpu, pods, cpu_milli=cpu_milli))


def _large(draw: Random, *, mig: bool) -> Workload:
    sizes = draw.choice(((1,), (2,), (3,), (1, 1), (1, 2)))
    return placing.workload(
        *(
            placing.pods(
                placing.mig(draw.choice(("3g.40gb", "4g.40gb", "7g.80gb")))
                if mig
                else placing.whole(draw.choice((2, 2, 3, 4))),
                count,
                name=f"set{number}",
                cpu_milli=draw.choice((0, 1000, 3000)),
            )
            for number, count in enumerate(sizes)
        ),
        spread=draw.choice((Spread.NONE, Spread.NONE, Spread.REQUIRED)),
        topology=TopologyRequest(required=draw.choice((None, None, Level.NODE, Level.RACK))),
    )


def blocked(seed: int) -> tuple[Run, list[Running], Workload] | None:
    """A cluster, who runs on it, and a gang that waits; None if everything fitted."""
    if seed % 4:
        run, draw = any_fragments(seed)
    else:
        run, draw = any_history(seed)
        run.live = [(replace(w, id=f"w{at}"), held) for at, (w, held) in enumerate(run.live)]
    running = [
        Running(
            workload=workload,
            placement=placement,
            cost=draw.randint(0, 3),
            movable=draw.random() < 0.9,
        )
        for workload, placement in run.live
    ]
    mig = any(gpu.mig for node in run.ledger.nodes.values() for gpu in node.gpus)
    for _ in range(6):
        asked = _large(draw, mig=mig) if seed % 4 else any_workload(draw)
        if not feasible(run.ledger, asked):
            return run, running, replace(asked, id="gang")
    return None


def carried_out(run: Run, moves: tuple[Move, ...]) -> Ledger | None:
    """The ledger after `moves` in order, each new place before the old; None if one is taken."""
    ledger = deepcopy(run.ledger)
    live = {workload.id: (workload, placement) for workload, placement in run.live}
    for move in moves:
        workload, old = live.pop(move.workload_id)
        assert old.pods == move.from_pods
        ledger.add(workload, replace(old, pods=move.to_pods))
        try:
            ledger.check()
        except AssertionError:
            return None
        ledger.remove(workload, old)
    return ledger


@settings(max_examples=1000, deadline=None)
@given(seeds)
def test_a_plan_can_be_carried_out_in_order_and_then_the_whole_gang_fits(seed: int) -> None:
    found = blocked(seed)
    if found is None:
        return
    run, running, asked = found
    before = run.cluster.digest()

    plan = defragment(run.cluster, running, placing.request(asked))

    assert run.cluster.digest() == before
    if isinstance(plan, NoPlan):
        assert plan.obstacle is not DefragmentationObstacle.FITS
        return
    may_move = {each.id for each in running if each.movable}
    assert may_move.issuperset(move.workload_id for move in plan.moves)
    ledger = carried_out(run, plan.moves)
    assert ledger is not None
    for move in plan.moves:
        for pod in move.to_pods:
            node = ledger.nodes[pod.node]
            assert node.ready
            assert not node.cordoned
    ledger.add(asked, plan.placement)
    ledger.check()
    assert len(plan.placement.pods) == asked.pods
    assert plan.cost == sum(
        each.cost for each in running if each.id in {move.workload_id for move in plan.moves}
    )


@settings(max_examples=1000, deadline=None)
@given(seeds)
def test_without_any_one_of_its_moves_a_plan_fails(seed: int) -> None:
    found = blocked(seed)
    if found is None:
        return
    run, running, asked = found
    plan = defragment(run.cluster, running, placing.request(asked))
    if isinstance(plan, NoPlan):
        return
    assert plan.moves
    for move in plan.moves:
        rest = tuple(each for each in plan.moves if each is not move)
        ledger = carried_out(run, rest)
        assert ledger is None or not feasible(ledger, asked)


@settings(max_examples=500, deadline=None)
@given(seeds)
def test_no_room_is_said_only_if_the_gang_does_not_fit_without_the_movable(seed: int) -> None:
    found = blocked(seed)
    if found is None:
        return
    run, running, asked = found
    plan = defragment(run.cluster, running, placing.request(asked))
    if isinstance(plan, Plan) or plan.obstacle is not DefragmentationObstacle.NO_ROOM:
        return
    for each in running:
        if each.movable:
            run.ledger.remove(each.workload, each.placement)
    assert not feasible(run.ledger, asked)


@settings(max_examples=300, deadline=None)
@given(seeds)
@example(5223)
def test_planning_leaves_no_trace_in_later_decisions_and_repeats_itself(seed: int) -> None:
    found = blocked(seed)
    if found is None:
        return
    run, running, asked = found
    request = placing.request(asked)
    plan = defragment(run.cluster, running, request)

    assert defragment(run.cluster, list(reversed(running)), request) == plan
    rebuilt = Cluster()
    for workload, placement in run.live:
        rebuilt.charge(workload.team, placement.pods, workload.spec.pod_sets)
    for name in sorted(run.ledger.nodes.keys() - run.gone):
        rebuilt.put_node(run.ledger.nodes[name])
    draw = Random(seed)
    for _ in range(4):
        other = placing.request(any_workload(draw))
        assert place(rebuilt, other) == place(run.cluster, other)


@settings(max_examples=300, deadline=None)
@example(seed=4_391_436_945, moves_max=2).via("who made room for a mover took its place")
@given(seeds, st.integers(0, 3))
def test_a_plan_keeps_within_its_limit_of_moves(seed: int, moves_max: int) -> None:
    found = blocked(seed)
    if found is None:
        return
    run, running, asked = found
    before = run.cluster.digest()

    plan = defragment(
        run.cluster,
        running,
        placing.request(asked),
        DefragmentationLimits(moves_max=moves_max, steps_max=50),
    )

    assert isinstance(plan, NoPlan) or len(plan.moves) <= moves_max
    assert run.cluster.digest() == before


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_gang_that_fits_gets_no_plan(seed: int) -> None:
    run, draw = any_history(seed)
    asked = any_workload(draw)

    answer = defragment(run.cluster, [], placing.request(asked))

    assert isinstance(answer, NoPlan)
    fits = answer.obstacle is DefragmentationObstacle.FITS
    # Not `feasible`: the search for gangs of unlike pods is bounded, and may give up.
    assert fits == isinstance(place(run.cluster, placing.request(asked)), Placement)
