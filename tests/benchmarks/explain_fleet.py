"""The fleet of the `explain` benchmark, one node in ten in MIG mode, and its single pods."""

from __future__ import annotations

import time
from random import Random

from shared.core.model.nouns import GpuRequest, Workload
from shared.core.scoring.cluster import Cluster
from tests.support import placing


def fleet(nodes: int, *, mig_every: int = 10) -> tuple[Cluster, float]:
    """A cluster of `nodes`, one in `mig_every` in MIG mode; and the seconds to report it."""
    reports = [
        placing.node(
            f"node-{number:05d}",
            rack=f"r{number // 8}",
            block=f"b{number // 256}",
            zone="z",
            mig=range(8) if number % mig_every == 0 else (),
        )
        for number in range(nodes)
    ]
    start = time.thread_time()
    cluster = placing.cluster(*reports)
    return cluster, time.thread_time() - start


def single(draw: Random) -> Workload:
    """One pod, in openb's shares of request sizes, with some MIG."""
    pick = draw.random()
    gpu = GpuRequest(count=draw.choice((2, 4, 8)))
    if pick < 0.10:
        gpu = GpuRequest()
    elif pick < 0.45:
        milli = draw.choice((810, 810, 470, 320, 650, 230, 460))
        gpu = placing.share(milli, placing.A100_MIB * milli // 1000)
    elif pick < 0.55:
        gpu = placing.mig(draw.choice(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb")))
    elif pick < 0.97:
        gpu = GpuRequest(count=1)
    cpu_milli = draw.choice((2000, 4000, 6000, 8000, 11000))
    pods = placing.pods(gpu, cpu_milli=cpu_milli, memory_mib=draw.choice((8192, 16384, 65536)))
    return placing.workload(pods, team=f"team-{draw.randrange(20)}")
