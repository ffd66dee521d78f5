"""Nodes and pods of a trace in openb's form, and the order in which the paper lets them arrive.

Procedure of Weng et al., ATC'23 (their simulator, hkust-adsl/kubernetes-scheduler-simulator):
pods are sorted by name and shuffled by the seed; then the workload is tuned: pods drawn uniformly
with replacement are appended until the GPU they ask for would exceed 1.3 times the capacity
(or drawn pods are taken out, if there are more). Pods arrive one by one and never leave.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from random import Random

GPU_MILLI = 1000
TUNE = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """One machine; `model` is the product of all its GPUs."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePod:
    """One pod without its name: equal pods are one class. `milli` is what it asks of each GPU."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()
    """GPU models it accepts; empty for any."""

    @property
    def gpu_milli(self) -> int:
        """All it asks for."""
        return self.gpus * self.milli


def load_nodes(path: Path) -> list[TraceNode]:
    """The machines, in the order of the file."""
    return [
        TraceNode(
            name=row["sn"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            gpus=int(row["gpu"]),
            model=row["model"],
        )
        for row in _rows(path)
    ]


def load_pods(path: Path) -> list[TracePod]:
    """The pods, sorted by name."""
    rows = sorted(_rows(path), key=lambda row: row["name"])
    return [
        TracePod(
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            gpus=int(row["num_gpu"]),
            milli=int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            models=tuple(sorted(set(filter(None, (row.get("gpu_spec") or "").split("|"))))),
        )
        for row in rows
    ]


def arrivals(pods: list[TracePod], capacity_milli: int, seed: int) -> list[TracePod]:
    """The pods in order of arrival, tuned to `TUNE` times the capacity."""
    draw = Random(seed)
    order = list(pods)
    draw.shuffle(order)
    target = TUNE * capacity_milli
    asked = sum(pod.gpu_milli for pod in order)
    while asked > target:
        asked -= order.pop(draw.randrange(len(order))).gpu_milli
    while True:
        pod = pods[draw.randrange(len(pods))]
        if asked + pod.gpu_milli > target:
            return order
        order.append(pod)
        asked += pod.gpu_milli


def permuted(nodes: list[TraceNode], seed: int) -> list[TraceNode]:
    """The nodes in the arbitrary, but fixed order by which a run breaks ties."""
    order = list(nodes)
    Random(~seed).shuffle(order)
    return order


def published(path: Path, workload: str, policy: str) -> dict[int, list[float]]:
    """Figures of the paper's runs: by arrived percent, one for each seed.

    `path` is one of the `fgd_expected_*` files; `policy` the end of its name there ("FGD").
    """
    found: dict[int, list[float]] = {}
    for row in _rows(path):
        if row["workload"] == workload and row["sc_policy"].endswith(f"-{policy}"):
            for name, value in row.items():
                if name.isdecimal() and value:
                    found.setdefault(int(name), []).append(float(value))
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
