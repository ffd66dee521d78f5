"""No pod lies on a node that is forbidden to its own pod set: of no answer, and of no growth.

What is forbidden is told here by the node as it was reported, apart from the core's filters.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.nouns import (
    GpuChoice,
    Level,
    Node,
    Placement,
    PodPlacement,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.taints import SHUNNED
from shared.core.model.units import UNBOUNDED
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, grow, place
from shared.core.scoring.cluster import Cluster
from tests.support import placing

FOR_GPUS = "nvidia.com/gpu=present:NoSchedule"
FOR_POOL = "dedicated=p:NoSchedule"
TAINTS = ((), (), (FOR_GPUS,), (FOR_POOL,), ("busy:PreferNoSchedule",), ("away:NoSchedule",))
PROMISE = 7


def any_node(draw: Random, name: str, *, zone: str, rack: str) -> Node:
    return placing.node(
        name,
        gpus=draw.randint(0, 4),
        mig=(0,) if draw.random() < 0.3 else (),
        cpu_milli=draw.choice((2000, 16_000, 32_000)),
        product=draw.choice((placing.A100, "NVIDIA-H100-80GB-HBM3", "Tesla-V100")),
        flavor="a100" if draw.random() < 0.9 else "other",
        driver=draw.choice(("535.1", "550.2")),
        cuda=draw.choice(("12.2", "12.4")),
        pool=draw.choice(("", "p")),
        taints=(SHUNNED,) if draw.random() < 0.1 else draw.choice(TAINTS),
        cordoned=draw.random() < 0.05,
        ready=draw.random() < 0.95,
        zone=zone,
        rack=rack,
    )


def any_fleet(draw: Random) -> dict[str, Node]:
    labelled = draw.random() < 0.7
    nodes = (
        any_node(
            draw,
            f"n{number}",
            zone="z" if labelled else "",
            rack=draw.choice(("r1", "r2")) if labelled else "",
        )
        for number in range(draw.randint(2, 9))
    )
    return {node.name: node for node in nodes}


def any_set(draw: Random, name: str) -> PodSet:
    gpu = draw.choice(
        (
            None,
            None,
            placing.whole(1),
            placing.whole(2),
            placing.share(500),
            placing.mig("1g.10gb"),
        )
    )
    made = placing.pods(gpu, draw.randint(1, 4), name=name, cpu_milli=draw.choice((0, 1000, 4000)))
    if draw.random() < 0.2:
        return replace(made, slices=(Slice(pods=made.count, level=Level.RACK),))
    return replace(made, min_count=draw.randint(1, made.count))


def any_workload(draw: Random) -> Workload:
    sets = [any_set(draw, f"s{number}") for number in range(draw.choice((1, 2, 2, 3)))]
    if len(sets) > 1 and draw.random() < 0.6:
        sets[0] = replace(sets[0], count=1, min_count=None, slices=(), role=PodRole.LEADER)
    level = draw.choice((None, None, Level.RACK, Level.ZONE))
    return placing.workload(
        *sets,
        choice=GpuChoice(
            products=draw.choice(((), (), (), (placing.A100,))),
            min_driver=draw.choice(("", "", "", "540")),
            cuda=draw.choice(("", "", "", "12.3")),
            node_pool=draw.choice(("", "", "", "p")),
        ),
        topology=TopologyRequest(**{draw.choice(("required", "preferred")): level}),  # type: ignore[arg-type]
        spread=draw.choice(tuple(Spread)),
    )


def larger_than(asked: Workload) -> Workload:
    """The same with up to three pods more of each set that may have more."""
    sets = tuple(
        each
        if each.slices or each.role is PodRole.LEADER
        else replace(each, count=each.count + 3, min_count=each.min_count)
        for each in asked.spec.pod_sets
    )
    return replace(asked, spec=replace(asked.spec, pod_sets=sets))


def changed(node: Node, draw: Random) -> Node:
    """The same machine, reported in another condition."""
    other = any_node(draw, node.name, zone=node.zone, rack=node.rack)
    same = {"gpus": node.gpus, "product": node.product, "flavor": node.flavor}
    return replace(other, cpu_milli=64_000, **same)


def asking(asked: Workload, pins: tuple[int, ...]) -> PlacementRequest:
    return PlacementRequest(
        workload=asked, flavors=("a100",), headroom={"a100": UNBOUNDED}, pins=pins
    )


def forbidden(
    node: Node, pin: int, asked: Workload, pod_set: PodSet, pins: tuple[int, ...]
) -> str:
    """Why no pod of the set may lie there; empty if it may."""
    choice, gpu = asked.spec.gpu_choice, pod_set.gpu
    wants_gpu = bool(gpu.count or gpu.milli or gpu.mig_profile)
    forgiven = {FOR_GPUS} if wants_gpu else set()
    if choice.node_pool == "p":
        forgiven.add(FOR_POOL)
    hard = {taint for taint in node.taints if not taint.endswith(":PreferNoSchedule")}
    reasons = {
        "flavor": node.flavor != "a100",
        "down": node.cordoned or not node.ready,
        "pool": bool(choice.node_pool) and node.pool != choice.node_pool,
        "taint": bool(hard - forgiven),
        "pin": bool(pin) and pin not in pins,
        "product": wants_gpu and bool(choice.products) and node.product not in choice.products,
        "driver": wants_gpu and bool(choice.min_driver) and node.driver < choice.min_driver,
        "cuda": wants_gpu and bool(choice.cuda) and node.cuda < choice.cuda,
    }
    return " ".join(name for name, holds in reasons.items() if holds)


def check(
    fleet: Cluster, asked: Workload, added: tuple[PodPlacement, ...], pins: tuple[int, ...]
) -> None:
    sets = {each.name: each for each in asked.spec.pod_sets}
    for pod in added:
        state = fleet.nodes[pod.node]
        assert state.inventory is not None
        why = forbidden(state.inventory, state.pin, asked, sets[pod.pod_set], pins)
        assert not why, (pod, why)


def pin_some(fleet: Cluster, draw: Random) -> None:
    for name in sorted(fleet.nodes):
        if draw.random() < 0.15:
            fleet.pin(name, PROMISE)


@given(st.integers(0, 10**7))
def test_no_pod_of_any_answer_lies_where_its_own_pod_set_may_not(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    fleet = placing.cluster(*nodes.values())
    pin_some(fleet, draw)
    asked = any_workload(draw)
    pins = draw.choice(((), (), (PROMISE,)))

    answer = place(fleet, asking(asked, pins))

    if not isinstance(answer, Placement):
        return
    check(fleet, asked, answer.pods, pins)
    for node in nodes.values():
        if draw.random() < 0.5:  # what was allowed when it began need not be so any longer
            fleet.put_node(changed(node, draw))
    pin_some(fleet, draw)
    larger = larger_than(asked)

    added = grow(fleet, asking(larger, pins), answer)

    if added is not None:
        check(fleet, larger, added.pods, pins)
