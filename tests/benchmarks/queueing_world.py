"""Work that arrives and ends on equal nodes of 8 GPUs, in virtual time, and what a run counts.

Small work is Philly's jobs that fit one node, as long as recorded but no longer than the horizon;
gangs of whole nodes are Kalos' jobs, all scaled by the one factor that makes the load right. Both
arrive evenly over the horizon; size and duration of a job are drawn together, with replacement.
After the horizon nothing arrives and the rest is worked off: waits include that tail.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Protocol

from tests.benchmarks.clos import GPUS, load_gangs, load_small

BIG_GPUS = 256
"""Gangs of so many GPUs are the ones that starve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`hosts` pods of `gpus` GPUs each, for `seconds`; its user says `expected`."""

    number: int
    arrives: float
    seconds: float
    expected: float
    gpus: int
    hosts: int

    @property
    def all_gpus(self) -> int:
        """GPUs of the whole job."""
        return self.gpus * self.hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All of one run. Equal worlds for every policy."""

    nodes: int
    horizon: float
    jobs: Sequence[Job]


class Scheduler(Protocol):
    """A policy at work."""

    def step(self, now: float, ended: Sequence[Job], arrived: Sequence[Job]) -> Sequence[Job]:
        """What starts now."""


@dataclass
class Tally:
    """Waits, and GPU seconds used within the horizon."""

    world: World
    waits: dict[int, float] = field(default_factory=dict)
    used: float = 0.0
    until: float = 0.0

    def start(self, job: Job, now: float) -> None:
        """Count a start."""
        self.waits[job.number] = now - job.arrives
        used = min(now + job.seconds, self.world.horizon) - min(now, self.world.horizon)
        self.used += job.all_gpus * used
        self.until = max(self.until, now + job.seconds)

    def figures(self) -> dict[str, float]:
        """Utilisation within the horizon, and waits in seconds."""
        jobs, capacity = self.world.jobs, self.world.nodes * GPUS * self.world.horizon
        big = sorted(self.waits[job.number] for job in jobs if job.all_gpus >= BIG_GPUS)
        small = [self.waits[job.number] for job in jobs if job.all_gpus < GPUS]
        other = [self.waits[job.number] for job in jobs if GPUS <= job.all_gpus < BIG_GPUS]
        return {
            "utilisation_percent": 100 * self.used / capacity,
            "big_wait_p99_s": big[int(0.99 * len(big))],
            "big_wait_mean_s": statistics.fmean(big),
            "small_wait_mean_s": statistics.fmean(small),
            "other_wait_mean_s": statistics.fmean(other),
            "days_until_empty": self.until / 86_400,
        }


def run(world: World, scheduler: Scheduler) -> Tally:
    """Let all jobs arrive, run and end."""
    tally = Tally(world)
    ends: list[tuple[float, int]] = []
    arrivals = {now: list(jobs) for now, jobs in groupby(world.jobs, lambda job: job.arrives)}
    times = sorted(arrivals, reverse=True)
    while times or ends:
        now = min(times[-1:] + [end for end, _ in ends[:1]])
        if times and times[-1] == now:
            times.pop()
        started = scheduler.step(now, list(_ended(world, ends, now)), arrivals.get(now, []))
        for job in started:
            tally.start(job, now)
            heapq.heappush(ends, (now + job.seconds, job.number))
    return tally


def _ended(world: World, ends: list[tuple[float, int]], now: float) -> Iterator[Job]:
    while ends and ends[0][0] <= now:
        yield world.jobs[heapq.heappop(ends)[1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """From which a world is made."""

    small: Path
    gangs: Path
    nodes: int
    days: float
    small_count: int
    gang_count: int
    load: float


def make(recipe: Recipe, seed: int, over_estimate: float) -> World:
    """Users expect between 1 and `over_estimate` times what their work takes."""
    draw, say = Random(seed), Random(~seed)
    horizon = recipe.days * 86_400
    small = [
        (gpus, 1, min(seconds, horizon))
        for gpus, seconds in draw.choices(load_small(recipe.small), k=recipe.small_count)
    ]
    gangs = [
        (GPUS, min(hosts, recipe.nodes), seconds)
        for hosts, seconds in draw.choices(load_gangs(recipe.gangs), k=recipe.gang_count)
    ]
    offered = recipe.load * recipe.nodes * GPUS * horizon
    scale = (offered - _work(small)) / _work(gangs)
    if scale <= 0:
        message = "the small work alone is more than the load: fewer of it, or more days"
        raise ValueError(message)
    gangs = [(gpus, hosts, seconds * scale) for gpus, hosts, seconds in gangs]
    drawn = sorted((draw.uniform(0, horizon), *job) for job in (*small, *gangs))
    return World(
        nodes=recipe.nodes,
        horizon=horizon,
        jobs=[
            Job(
                number=number,
                arrives=arrives,
                seconds=seconds,
                expected=seconds * say.uniform(1, over_estimate),
                gpus=gpus,
                hosts=hosts,
            )
            for number, (arrives, gpus, hosts, seconds) in enumerate(drawn)
        ],
    )


def _work(jobs: Sequence[tuple[int, int, float]]) -> float:
    """GPU seconds."""
    return sum(gpus * hosts * seconds for gpus, hosts, seconds in jobs)
