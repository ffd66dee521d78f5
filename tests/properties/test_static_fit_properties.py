"""The door refuses what an empty fleet could never run, and nothing that it could."""

from __future__ import annotations

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from shared.core.admission.errors import Errors
from shared.core.admission.form import check_form
from shared.core.admission.static_fit.fit import fitting_flavors
from shared.core.cluster.topology import LEVELS
from shared.core.model.nouns import (
    Level,
    Node,
    Placement,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.support import placing
from tests.unit.admission.fleets import a_fleet

seeds = st.integers(0, 2**32)


def any_fleet(draw: Random) -> tuple[Node, ...]:
    """Labels are missing, and equal in wider domains that differ."""
    return tuple(
        placing.node(
            f"n{number}",
            gpus=draw.randint(1, 4),
            gpus_per_numa=draw.choice((1, 2, 4)),
            zone=draw.choice(("z1", "z2", "")),
            block=draw.choice(("b1", "b2", "")),
            rack=draw.choice(("r1", "r2", "")),
            nvlink_domain=draw.choice(("", "v1", "v2")),
            taints=draw.choice(((), (), ("nvidia.com/gpu=present:NoSchedule",))),
        )
        for number in range(draw.randint(1, 9))
    )


def any_set(draw: Random, name: str, *, sliced: bool) -> PodSet:
    pods, slices = 1, []
    levels = draw.sample(LEVELS, draw.choice((1, 2, 3))) if sliced else ()
    for level in sorted(levels, key=LEVELS.index):
        pods *= draw.choice((1, 2, 2, 3))
        slices.append(Slice(pods=pods, level=level))
    least = pods * draw.choice((1, 1, 2, 3))
    gpu = placing.whole(draw.randint(1, 3)) if draw.random() < 0.8 else None
    one = placing.pods(gpu, least + pods * draw.choice((0, 0, 1)), name=name)
    return replace(one, min_count=least, slices=tuple(reversed(slices)))


def any_gang(draw: Random, *sets: PodSet) -> Workload:
    topology = TopologyRequest(
        required=draw.choice((None, None, *Level)), numa_aligned=draw.random() < 0.2
    )
    spread = draw.choice((Spread.NONE, Spread.NONE, Spread.PREFERRED, Spread.REQUIRED))
    return placing.workload(*sets, topology=topology, spread=spread)


def passes(asked: Workload, nodes: tuple[Node, ...]) -> bool:
    errors = Errors()
    check_form(asked.spec, errors)
    return not errors and fitting_flavors(asked.spec, a_fleet(*nodes))[1] is None


def runs(asked: Workload, nodes: tuple[Node, ...]) -> bool:
    cluster: Cluster = placing.cluster(*nodes)
    return isinstance(place(cluster, placing.request(asked)), Placement)


@given(seeds)
@example(1)
def test_equal_pods_pass_the_door_exactly_when_an_empty_fleet_runs_them(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    asked = any_gang(draw, any_set(draw, "a", sliced=draw.random() < 0.5))

    assert passes(asked, nodes) == runs(asked, nodes)


@given(seeds)
@example(1)
def test_nothing_that_an_empty_fleet_runs_is_refused_at_the_door(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    asked = any_gang(
        draw, any_set(draw, "a", sliced=draw.random() < 0.5), any_set(draw, "b", sliced=False)
    )

    assert passes(asked, nodes) or not runs(asked, nodes)
