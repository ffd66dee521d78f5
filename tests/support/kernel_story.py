"""Three deciders live through one random story: the core in Python, the reference, the kernels.

After each step all three must have given the same devices on the same nodes, and both back-ends
must hold the same state. Requests, releases and gangs are drawn from one seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from shared.core.cluster import Cluster
from shared.core.demand import Gang, gang_of
from shared.core.feasibility import permitted
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
from shared.core.model import GpuChoice, GpuRequest, Level, Placement, TopologyRequest, Workload
from shared.core.placement import place
from shared.core.waste import waste_of
from tests.support import placing
from tests.support.kernel_churn import span_of_request

FLAVOR = "a100"
Devices = list[tuple[str, int]]
"""(node, mask of GPUs) of each pod."""


def any_fleet(draw: Random, nodes: int) -> Cluster:
    """Machines of several kinds, some of them ill, in MIG mode, cordoned or outside the fabric.

    A kind with a cordoned node has one that takes work: the market counts only kinds it has seen.
    """
    reports = [placing.node("first"), placing.node("cordoned", cordoned=True, rack="r0")]
    for number in range(nodes):
        gpus = draw.choice((0, 4, 8, 8, 8))
        reports.append(
            placing.node(
                f"node-{number}",
                gpus=gpus,
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


def any_workload(draw: Random) -> Workload:
    """A single pod of any form without MIG, or a gang of equal pods with whole GPUs."""
    cpu_milli = draw.choice((0, 500, 1000, 2000, 3000, 4000, 5500, 8000, 11_900))
    memory_mib = draw.choice((0, 1024, 8192, 33_000))
    topology, gpu, count = TopologyRequest(), GpuRequest(), 1
    form = draw.random()
    if form < 0.25:
        level = draw.choice((None, *Level))
        topology = draw.choice((TopologyRequest(required=level), TopologyRequest(preferred=level)))
        gpu, count = placing.whole(draw.choice((1, 2, 3, 4, 8))), draw.randint(2, 9)
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


@dataclass
class Story:
    """The three, and what they hold."""

    cluster: Cluster
    draw: Random
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
            self.request(any_workload(self.draw))

    def request(self, workload: Workload) -> None:
        """All three place `workload`, or none of them."""
        self._learn()
        gang = gang_of(workload)
        (demand,) = gang.demands
        tiers = permitted(self.cluster, gang, demand, FLAVOR)
        if not tiers:
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
            wanted = [
                (pod.node, sum(1 << share.index for share in pod.shares)) for pod in answer.pods
            ]
        for fleet in self.fleets:
            assert wanted == _held(fleet, slot, gang.pods), workload.spec
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
        market._waste_now()
        if market.mix.version != self._version:
            self._version = market.mix.version
            market._waste = None
            market._waste_now()
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


def _held(fleet: Fleet, slot: int, pods: int) -> Devices:
    rows = fleet.state.held[slot : slot + pods]
    return [
        (fleet.nodes[row[HELD_NODE]].name, int(row[HELD_GPUS]))
        for row in rows
        if row[HELD_NODE] != NONE
    ]
