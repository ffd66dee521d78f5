"""A fabric and the jobs that arrive: Alibaba's Lingjun hosts, Philly's small jobs, Kalos' gangs.

Hosts have 8 GPUs and hang under a leaf (ASW) of a pod (PSW) of the Clos. Small jobs (at most one
host, Philly 2017) and gangs of whole hosts (Kalos 2023) arrive as two independent Poisson streams,
each with half of the GPU time offered; size and duration of a job are drawn together, with
replacement, from what was recorded.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from random import Random

GPUS = 8
"""GPUs of a host."""
CPU_PER_GPU = 15
"""Cores beside each GPU, as in Kalos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine and its place in the fabric; leaf names are unique in the fabric."""

    name: str
    leaf: str
    pod: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`hosts` pods of `gpus` GPUs each; more than one host is a gang that takes them whole."""

    arrives: float
    seconds: float
    gpus: int
    hosts: int = 1

    @property
    def all_gpus(self) -> int:
        """GPUs of the whole job."""
        return self.gpus * self.hosts

    @property
    def stages(self) -> int:
        """Pipeline stages when a gang has a shape: consecutive ranks are one pipeline.

        Tensor parallel inside the host, 4 (or 2) stages, data parallel over the rest.
        """
        return next((size for size in (4, 2) if self.hosts % size == 0), 1)


def load_hosts(path: Path) -> list[Host]:
    """The hosts, in the order of the file."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Host(name=row["ip"][:16], leaf=f"{row['PSW']}-{row['ASW']}", pod=row["PSW"])
            for row in csv.DictReader(lines)
        ]


def load_small(path: Path) -> list[tuple[int, float]]:
    """(GPUs, seconds) of Philly's jobs that fit one host."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = [(int(row["num_gpus"]), float(row["duration"])) for row in csv.DictReader(lines)]
    return [(gpus, seconds) for gpus, seconds in rows if 1 <= gpus <= GPUS and seconds > 0]


def load_gangs(path: Path) -> list[tuple[int, float]]:
    """(hosts, seconds) of Kalos' jobs; each worker of the file is a whole host."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [(int(row["gpu_workers"]), _seconds(row)) for row in csv.DictReader(lines)]


def _seconds(row: dict[str, str]) -> float:
    computing, networking = row["iteration_computing_time"], row["iteration_networking_time"]
    return int(row["num_iteration"]) * (float(computing) + float(networking))


def arrivals(
    small: Sequence[tuple[int, float]],
    gangs: Sequence[tuple[int, float]],
    gpus_offered: float,
    seconds: float,
    seed: int,
) -> list[Job]:
    """Jobs in order of arrival; `gpus_offered` are kept busy on average if none is refused."""
    halves = (
        _stream(small, [(gpus, 1) for gpus, _ in small], gpus_offered / 2, seconds, Random(seed)),
        _stream(
            gangs, [(GPUS, hosts) for hosts, _ in gangs], gpus_offered / 2, seconds, Random(~seed)
        ),
    )
    return list(merge(*halves, key=lambda job: job.arrives))


def _stream(
    recorded: Sequence[tuple[int, float]],
    shapes: Sequence[tuple[int, int]],
    gpus_offered: float,
    seconds: float,
    draw: Random,
) -> Iterator[Job]:
    work = [gpus * hosts * row[1] for row, (gpus, hosts) in zip(recorded, shapes, strict=True)]
    rate = gpus_offered / (sum(work) / len(work))
    now = draw.expovariate(rate)
    while now < seconds:
        at = draw.randrange(len(recorded))
        gpus, hosts = shapes[at]
        yield Job(arrives=now, seconds=recorded[at][1], gpus=gpus, hosts=hosts)
        now += draw.expovariate(rate)


class LeavesNeeded:
    """The fewest leaves that so many hosts can span when nothing else runs, in one pod if any."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        """`hosts` is the whole fabric."""
        leaves: dict[str, Counter[str]] = {}
        for host in hosts:
            leaves.setdefault(host.pod, Counter())[host.leaf] += 1
        self._pods = [sorted(pod.values(), reverse=True) for pod in leaves.values()]
        self._every = sorted((size for pod in self._pods for size in pod), reverse=True)

    def __call__(self, hosts: int) -> int:
        """The bound for a gang of `hosts`."""
        pods = [pod for pod in self._pods if sum(pod) >= hosts] or [self._every]
        return min(_fewest(pod, hosts) for pod in pods)


def _fewest(sizes: Sequence[int], hosts: int) -> int:
    """How many of the largest `sizes` it takes."""
    used = 0
    while hosts > 0:
        hosts -= sizes[used]
        used += 1
    return used


def spread(leaves: Sequence[str], stages: int) -> tuple[int, int]:
    """(pipeline, data): the most leaves that any group of each kind spans, by rank order."""
    pipelines = [leaves[at : at + stages] for at in range(0, len(leaves), stages)]
    replicas = [leaves[stage::stages] for stage in range(stages)]
    return max(len(set(group)) for group in pipelines), max(len(set(group)) for group in replicas)
