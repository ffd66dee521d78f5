"""A fleet kept at one utilisation while pods and gangs come and go, decided by a kernel back-end.

The machines are the 8-GPU ones of a trace in openb's form, in its proportions, as many as asked
for (racks of 8, blocks of 32 racks, one zone); single pods are drawn from its pods. Gangs are 2 to
8 pods of 1, 2, 4 or 8 GPUs: one third anywhere, one third in one rack, one third preferably so.
Everything is drawn from one seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from shared.core.cluster import Cluster
from shared.core.demand import Gang, gang_of
from shared.core.kernels import BackEnd
from shared.core.kernels.arrays import (
    ANYWHERE,
    GANG,
    HELD_NODE,
    LEVELS,
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
from shared.core.kernels.fleet import Fleet
from shared.core.mix import DemandMix
from shared.core.model import GpuRequest, Level, TopologyRequest, Workload
from shared.core.topology import LEVELS as SPANS
from shared.core.waste import waste_of
from tests.benchmarks.openb import GPU_MILLI, TraceNode, TracePod
from tests.support import placing

FLAVOR = "a100"
UTILISATION = 0.85
FULL = 0.99
"""Of the utilisation: the next gang is often too large for the last percent."""
TEAMS = 20
GPUS = 8


def fleet_of(machines: Sequence[TraceNode], nodes: int, seed: int) -> Cluster:
    """A cluster of `nodes` machines with 8 GPUs, drawn from those of the trace."""
    large = [machine for machine in machines if machine.gpus == GPUS]
    draw = Random(seed)
    cluster = Cluster(seed=seed)
    for number in range(nodes):
        machine = draw.choice(large)
        cluster.put_node(
            placing.node(
                f"node-{number:05d}",
                flavor=FLAVOR,
                product=machine.model,
                cpu_milli=machine.cpu_milli,
                memory_mib=machine.memory_mib,
                rack=f"r{number // 8}",
                block=f"b{number // 256}",
                zone="z",
            )
        )
    return cluster


def single(pods: Sequence[TracePod], draw: Random) -> Workload:
    """One pod of the trace, for one of the teams."""
    pod = draw.choice(pods)
    gpu = GpuRequest(count=pod.gpus)
    if pod.gpus == 1 and pod.milli < GPU_MILLI:
        gpu = placing.share(pod.milli, placing.A100_MIB * pod.milli // GPU_MILLI)
    asked = placing.pods(gpu, cpu_milli=pod.cpu_milli, memory_mib=pod.memory_mib)
    return placing.workload(asked, team=f"team-{draw.randrange(TEAMS)}")


def gang(draw: Random) -> Workload:
    """2 to 8 pods of whole GPUs."""
    gpus = draw.choice((1, 2, 4, 8))
    asked = placing.pods(
        placing.whole(gpus), draw.randint(2, 8), cpu_milli=8000 * gpus, memory_mib=16_384 * gpus
    )
    topology = draw.choice(
        (
            TopologyRequest(),
            TopologyRequest(required=Level.RACK),
            TopologyRequest(preferred=Level.RACK),
        )
    )
    return placing.workload(asked, topology=topology, team=f"team-{draw.randrange(TEAMS)}")


def span_of_request(topology: TopologyRequest) -> tuple[int, int]:
    """(widest level, whether anywhere will do) as requests of the kernels say it."""
    if topology.required is not None:
        return SPANS.index(topology.required), 0
    return (NONE if topology.preferred is None else LEVELS), 1


@dataclass
class Churn:
    """What is held, and the drawing of what comes and goes. Seconds are CPU time of the kernel."""

    fleet: Fleet
    kernel: BackEnd
    draw: Random
    mix: DemandMix = field(default_factory=DemandMix)
    live: list[tuple[int, Gang]] = field(default_factory=list)
    used_milli: int = 0
    seconds: float = 0.0
    placed: int = 0
    decided: int = 0
    took: list[float] = field(default_factory=list)
    """Of each call, if there are few decisions in one."""
    _leaving: list[tuple[int, Gang]] = field(default_factory=list)
    """Released in the call at work: their slots are not given again in it."""
    _free_slots: dict[int, list[int]] = field(default_factory=dict)
    _slots: int = 0
    _version: int = 0

    @property
    def capacity_milli(self) -> int:
        """All GPUs."""
        return GPU_MILLI * GPUS * len(self.fleet.nodes)

    def full(self) -> bool:
        """Whether nothing large comes in unless something goes."""
        return self.used_milli >= FULL * UTILISATION * self.capacity_milli

    def learn(self, workloads: Sequence[Workload]) -> None:
        """Note demand until there is a mix to go by."""
        for workload in workloads:
            self.mix.note(gang_of(workload), placed=True)
        self._refresh()

    def step(self, workloads: Sequence[Workload]) -> None:
        """Decide all of `workloads` in one call, after what has to go first."""
        gangs = [gang_of(workload) for workload in workloads]
        rows: list[list[int]] = []
        slots = []
        for gang in gangs:
            rows += self._releases(_milli(gang))
            slots.append(self._slot(gang.pods))
            rows.append(self._request(slots[-1], gang))
            self.used_milli += _milli(gang)
        self.fleet.make_slots(self._slots)
        requests: Ints = np.array(rows, dtype=np.int64)
        start = time.thread_time()
        self.kernel.run(requests)
        took = time.thread_time() - start
        self.seconds += took
        self.took.append(took)
        self.decided += len(gangs)
        for slot, gang in zip(slots, gangs, strict=True):
            self._settle(slot, gang)
        for slot, gang in self._leaving:
            self._free_slots.setdefault(gang.pods, []).append(slot)
        self._leaving.clear()
        self._refresh()

    def reset(self) -> None:
        """Begin to measure."""
        self.seconds, self.placed, self.decided = 0.0, 0, 0
        self.took.clear()

    def _releases(self, coming_milli: int) -> list[list[int]]:
        """What was there before this call makes room for what comes, if that finds a place."""
        rows = []
        while self.live and self.used_milli + coming_milli > UTILISATION * self.capacity_milli:
            at = self.draw.randrange(len(self.live))
            self.live[at], self.live[-1] = self.live[-1], self.live[at]
            slot, gang = self.live.pop()
            self.used_milli -= _milli(gang)
            self._leaving.append((slot, gang))
            rows.append([RELEASE, slot, 0, 0, gang.pods, 0, 0])
        return rows

    def _slot(self, pods: int) -> int:
        free = self._free_slots.get(pods)
        if free:
            return free.pop()
        self._slots += pods
        return self._slots - pods

    def _request(self, slot: int, gang: Gang) -> list[int]:
        (demand,) = gang.demands
        row = [0] * REQUEST_COLUMNS
        row[WHAT], row[SLOT] = (PLACE if gang.pods == 1 else GANG), slot
        row[SHAPE] = self.fleet.shape(demand, self.fleet.kinds)
        row[TEAM], row[PODS] = self.fleet.team(gang.team), gang.pods
        row[WIDEST], row[ANYWHERE] = span_of_request(gang.topology)
        return row

    def _settle(self, slot: int, gang: Gang) -> None:
        placed = bool(self.fleet.state.held[slot, HELD_NODE] != NONE)
        self.mix.note(gang, placed=placed)
        if placed:
            self.placed += 1
            self.live.append((slot, gang))
        else:
            self.used_milli -= _milli(gang)
            self._free_slots.setdefault(gang.pods, []).append(slot)

    def _refresh(self) -> None:
        """Go by the mix in force; the tables are part of the cost of deciding."""
        if self.mix.version != self._version:
            self._version = self.mix.version
            start = time.thread_time()
            self.fleet.learn(waste_of(self.mix.counts, self.fleet.kinds))
            self.seconds += time.thread_time() - start


def _milli(gang: Gang) -> int:
    (demand,) = gang.demands
    return gang.pods * (demand.gpus * GPU_MILLI + demand.milli)
