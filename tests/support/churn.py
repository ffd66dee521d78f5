"""A fleet kept at one utilisation while pods and gangs come and go, decided by `place()`.

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

from shared.core.model.nouns import GpuRequest, Level, Placement, TopologyRequest, Workload
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.benchmarks.openb import GPU_MILLI, TraceNode, TracePod
from tests.support import placing

FLAVOR = "a100"
UTILISATION = 0.85
TEAMS = 20
GPUS = 8


@dataclass
class Churn:
    """A fleet kept full: once it is, what is held makes room before the next request is decided.

    Seconds are CPU time of the one thread, in the release and in the decision.
    """

    cluster: Cluster
    draw: Random
    live: list[tuple[Workload, Placement]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    """Of each decision since `reset`."""
    placed: int = 0

    def full(self) -> bool:
        """Whether the utilisation is reached."""
        return self.cluster.gpu_milli_used() >= UTILISATION * self.cluster.gpu_milli_total()

    def step(self, workload: Workload) -> bool:
        """Decide one request after what has to go first; whether it was placed."""
        leaving = self._leaving()
        request = placing.request(workload)
        start = time.thread_time()
        for old, placement in leaving:
            self.cluster.release(old.team, placement.pods, old.spec.pod_sets)
        answer = place(self.cluster, request)
        self.took.append(time.thread_time() - start)
        if isinstance(answer, Placement):
            self.live.append((workload, answer))
            self.placed += 1
            return True
        return False

    def reset(self) -> None:
        """Begin to measure."""
        self.took.clear()
        self.placed = 0

    def _leaving(self) -> list[tuple[Workload, Placement]]:
        """Drawn from what is held, until the fleet is below its utilisation without it."""
        used_milli, leaving = self.cluster.gpu_milli_used(), []
        while self.live and used_milli >= UTILISATION * self.cluster.gpu_milli_total():
            at = self.draw.randrange(len(self.live))
            self.live[at], self.live[-1] = self.live[-1], self.live[at]
            leaving.append(self.live.pop())
            used_milli -= leaving[-1][1].charge.gpu_milli
        return leaving


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
