"""Three deciders live through one random story: the core in Python, the reference, the kernels.

After each step all three must have given the same devices on the same nodes, and both back-ends
must hold the same state. Requests, releases and gangs are drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from shared.core.cluster import Cluster
from shared.core.demand import Gang, PodDemand, gang_of
from shared.core.feasibility import permitted
from shared.core.gang.ranks import in_order
from shared.core.kernels import BackEnd
from shared.core.kernels.arrays import (
    ANYWHERE,
    GANG,
    HELD_GPUS,
    HELD_NODE,
    NONE,
    PLACE,
    PODS,
    RELEASE,
    REQUEST_COLUMNS,
    SHAPE,
    SLOT,
    TEAM,
    WHAT,
    WIDEST,
    Ints,
)
from shared.core.kernels.compiled import Compiled
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.reference import Reference
from shared.core.kernels.scope import decides
from shared.core.model import (
    GpuChoice,
    GpuRequest,
    GpuShare,
    Level,
    Placement,
    PodRole,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.placement import place
from shared.core.value import replace
from shared.core.waste import waste_of
from tests.support import placing
from tests.support.kernel_churn import span_of_request

FLAVOR = "a100"
Devices = list[tuple[str, int]]
"""(node, mask of GPUs) of each pod."""


def any_fleet(draw: Random, nodes: int) -> Cluster:
    """Machines of several kinds, some ill, in MIG mode, of another flavor or outside the fabric.

    A kind with a cordoned node has one that takes work: the market counts only kinds it has seen.
    """
    reports = [placing.node("first"), placing.node("cordoned", cordoned=True, rack="r0")]
    for number in range(nodes):
        gpus = draw.choice((0, 4, 8, 8, 8))
        reports.append(
            placing.node(
                f"node-{number}",
                gpus=gpus,
                flavor=FLAVOR if draw.random() < 0.9 else "another",
                mig=(0,) if gpus and draw.random() < 0.1 else (),
                unhealthy=(1,) if gpus and draw.random() < 0.1 else (),
                product=draw.choice((placing.A100, placing.A100, "V100")),
                cpu_milli=draw.choice((32_000, 64_000, 96_000, 144_000)),
                memory_mib=draw.choice((1 << 17, 1 << 19)),
                gpus_per_numa=draw.choice((2, 4, 8)),
                nvlink_domain=f"d{number // 2}" if draw.random() < 0.3 else "",
                rack=f"r{number // 4}" if draw.random() < 0.9 else "",
                block=f"b{number // 12}",
                zone=draw.choice(("y", "z", "z", "")),
            )
        )
    return placing.cluster(*reports, seed=draw.randrange(100))


def wide_fleet(draw: Random) -> Cluster:
    """Two zones of blocks that differ little, some with nodes or NVLink domains in no rack."""
    reports = [
        placing.node(
            f"{block}-{number}",
            cpu_milli=draw.choice((16_000, 48_000, 96_000)),
            nvlink_domain=f"d{number // 2}" if draw.random() < 0.4 else "",
            rack=f"r{number // 3}" if draw.random() < 0.9 else "",
            block=f"b{block}" if draw.random() < 0.95 else "",
            zone=f"z{block % 2}",
        )
        for block in range(draw.randint(3, 8))
        for number in range(draw.randint(4, 14))
    ]
    return placing.cluster(*reports, seed=draw.randrange(100))


def wide_gang(draw: Random) -> Workload:
    """A gang that may need several racks or blocks, or a single pod in between."""
    gpus = draw.choice((1, 4, 8, 8, 8))
    count = draw.choice((1, draw.randint(3, 12), draw.randint(10, 40)))
    return placing.workload(
        placing.pods(placing.whole(gpus), count, cpu_milli=draw.choice((0, 3000 * gpus))),
        topology=TopologyRequest(required=draw.choice((Level.BLOCK, Level.ZONE, Level.ZONE))),
    )


def any_workload(draw: Random) -> Workload:
    """What the back-ends decide: a pod of any form without MIG, or equal pods with whole GPUs."""
    cpu_milli = draw.choice((0, 500, 1000, 2000, 3000, 4000, 5500, 8000, 11_900))
    memory_mib = draw.choice((0, 1024, 8192, 33_000))
    topology, gpu, count = TopologyRequest(), GpuRequest(), 1
    form = draw.random()
    if form < 0.25:
        level = draw.choice((None, *Level))
        topology = draw.choice((TopologyRequest(required=level), TopologyRequest(preferred=level)))
        gpu = placing.whole(draw.choice((1, 2, 3, 4, 8)))
        count = draw.choice((draw.randint(2, 9), draw.randint(2, 30)))
    elif form < 0.6:
        milli = draw.choice((810, 470, 320, 650, 230, 460, 55, 333, 1, 999))
        gpu = placing.share(milli, draw.choice((1, placing.A100_MIB * milli // 1000, 20_000)))
    elif form < 0.9:
        gpu = placing.whole(draw.choice((1, 1, 1, 2, 4, 8)))
    return placing.workload(
        placing.pods(gpu, count, cpu_milli=cpu_milli, memory_mib=memory_mib),
        team=draw.choice(("red", "blue", "green")),
        choice=GpuChoice(products=draw.choice(((), (), (), (placing.A100,)))),
        topology=topology,
    )


def anything(draw: Random) -> Workload:
    """The same, or with a change that may be for the core alone to decide."""
    asked = any_workload(draw)
    if draw.random() < 0.7:
        return asked
    (pod_set,) = asked.spec.pod_sets
    of_pods: list[dict[str, Any]] = [
        {"slices": (Slice(level=draw.choice(tuple(Level)), pods=1),)},
        {"role": PodRole.LEADER},
        {"min_count": draw.randint(1, pod_set.count)},
        {"count": draw.randint(1, 4)},
        {"gpu": placing.mig("1g.5gb")},
    ]
    choice = GpuChoice(preferred_products={placing.A100: 1})
    of_gang: list[dict[str, Any]] = [
        {"spread": draw.choice(tuple(Spread))},
        {"gpu_choice": choice},
        {"topology": replace(asked.spec.topology, numa_aligned=True)},
        {"pod_sets": (pod_set, replace(pod_set, name="others"))},
        *({"pod_sets": (replace(pod_set, **changes),)} for changes in of_pods),
    ]
    return replace(asked, spec=replace(asked.spec, **draw.choice(of_gang)))


@dataclass
class Story:
    """The three, and what they hold."""

    cluster: Cluster
    draw: Random
    ask: Callable[[Random], Workload] = anything
    fleets: list[Fleet] = field(default_factory=list)
    back_ends: list[BackEnd] = field(default_factory=list)
    live: list[tuple[int, Workload, Placement]] = field(default_factory=list)
    placed: int = 0
    _slots: int = 0
    _version: int = 0

    def __post_init__(self) -> None:
        mix = self.cluster.market(FLAVOR).mix
        while not mix.version:
            mix.note(gang_of(any_workload(self.draw)), placed=True)
        self.begin()

    def begin(self) -> None:
        """Both back-ends take over what the cluster holds now."""
        self.fleets = [Fleet(self.cluster, FLAVOR) for _ in range(2)]
        self.back_ends = [Reference(self.fleets[0]), Compiled(self.fleets[1])]
        self.live.clear()
        self._slots = self._version = 0

    def step(self) -> None:
        """One release, or one request."""
        self._learn()
        if self.live and self.draw.random() < 0.45:
            self._release(self.draw.randrange(len(self.live)))
        else:
            self.request(self.ask(self.draw))

    def request(self, workload: Workload) -> None:
        """All three place `workload`, or none of them; nobody asks for what is not in scope."""
        self._learn()
        gang = gang_of(workload)
        demand = gang.demands[0]
        tiers = permitted(self.cluster, gang, demand, FLAVOR)
        if not decides(gang, tiers):
            return
        slot, self._slots = self._slots, self._slots + gang.pods
        for fleet, back_end in zip(self.fleets, self.back_ends, strict=True):
            fleet.make_slots(self._slots)
            shape = fleet.shape(demand, tiers[0])
            back_end.run(_request(fleet, slot, shape, gang))
        answer = place(self.cluster, placing.request(workload))
        wanted: Devices = []
        if isinstance(answer, Placement):
            self.placed += 1
            self.live.append((slot, workload, answer))
            wanted = [(pod.node, mask_of(pod.shares)) for pod in answer.pods]
        for fleet in self.fleets:
            assert wanted == _held(fleet, slot, demand), workload.spec
        self.compare()

    def go_back_to(self, live: list[tuple[int, Workload, Placement]]) -> None:
        """The cluster holds again what it held when `live` was all of it."""
        for _, workload, placement in (each for each in self.live if each not in live):
            self.cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
        for _, workload, placement in (each for each in live if each not in self.live):
            self.cluster.charge(workload.team, placement.pods, workload.spec.pod_sets)
        self.live = live

    def compare(self) -> None:
        """Both back-ends hold the same."""
        first, second = (fleet.state for fleet in self.fleets)
        for name in ("nodes", "gpus"):
            assert np.array_equal(getattr(first, name), getattr(second, name)), name
        assert np.array_equal(first.held[: self._slots, 0], second.held[: self._slots, 0])

    def _release(self, at: int) -> None:
        slot, workload, placement = self.live.pop(at)
        self.cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
        row = _no_request()
        row[0, [WHAT, SLOT, PODS]] = RELEASE, slot, len(placement.pods)
        for back_end in self.back_ends:
            back_end.run(row)
        self.compare()

    def _learn(self) -> None:
        """The tables of all three are of one moment."""
        market = self.cluster.market(FLAVOR)
        market.follow()
        market.scores.follow(market.mix)
        if market.mix.version != self._version:
            self._version = market.mix.version
            market.scores._waste = None
            market.scores.follow(market.mix)
            waste = waste_of(market.mix.counts, self.fleets[0].kinds)
            for fleet in self.fleets:
                fleet.learn(waste)


def _request(fleet: Fleet, slot: int, shape: int, gang: Gang) -> Ints:
    row = _no_request()
    row[0, [WHAT, SLOT, SHAPE]] = (PLACE if gang.pods == 1 else GANG), slot, shape
    row[0, [TEAM, PODS]] = fleet.team(gang.team), gang.pods
    row[0, [WIDEST, ANYWHERE]] = span_of_request(gang.topology)
    return row


def _no_request() -> Ints:
    return np.zeros((1, REQUEST_COLUMNS), dtype=np.int64)


def _held(fleet: Fleet, slot: int, demand: PodDemand) -> Devices:
    """What a back-end gave to the pods, by rank as `core.gang.ranks` counts them."""
    pods = demand.count
    rows = fleet.state.held[slot : slot + pods]
    held = [
        (demand, fleet.nodes[row[HELD_NODE]], shares_of(int(row[HELD_GPUS])))
        for row in rows
        if row[HELD_NODE] != NONE
    ]
    return [(node.name, mask_of(shares)) for _, node, shares in in_order(held)]


def shares_of(gpus: int) -> tuple[GpuShare, ...]:
    """The GPUs of a mask."""
    indexes = (index for index in range(gpus.bit_length()) if gpus >> index & 1)
    return tuple(GpuShare(index=index, mask=0, milli=0, memory_mib=0) for index in indexes)


def mask_of(shares: Sequence[GpuShare]) -> int:
    """The mask of the GPUs that `shares` are on."""
    return sum(1 << share.index for share in shares)
