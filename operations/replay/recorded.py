"""Recorded traces of whole clusters: submitter, time of submission and run time of each workload.

Philly (Microsoft, 2017): 82,247 workloads of fifteen virtual clusters, with the number of nodes of
most of them. Kalos (Shanghai AI Laboratory, 2023): 319 gangs of up to 128 nodes. Neither tells CPU
and memory; what is assumed of them stands below. Pure, but for reading the files.
"""

from __future__ import annotations

import csv
import gzip
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from operations.replay.openb import BadTrace
from shared.core.model.nouns import (
    GpuRequest,
    Level,
    PodSet,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)

VARIABLE: Final = "MUSTER_DATA"
GPUS_OF_A_NODE: Final = 8
CPU_MILLI_PER_GPU: Final = 4_000
MEMORY_MIB_PER_GPU: Final = 16_384
NODES_UNKNOWN: Final = 8
"""Nodes of a virtual cluster of which the trace does not tell how many it has."""
LARGE_NODES: Final = 32
"""Virtual clusters with so many nodes share one cohort, the smaller ones another."""

_PHILLY: Final = ("timestamp", "duration", "num_gpus", "cluster")
_KALOS: Final = (
    "job_id",
    "arrival_time",
    "num_iteration",
    "iteration_computing_time",
    "iteration_networking_time",
    "gpu_workers",
    "gpu_per_worker",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One workload: `at_ms` after the first, `pods` with `gpus` each, `run_ms` long."""

    name: str
    team: str
    at_ms: int
    pods: int
    gpus: int
    run_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTrace:
    """Workloads in order of submission, nodes by team, and cohorts: {name: (parent, teams)}."""

    name: str
    workloads: tuple[Recorded, ...]
    nodes: Mapping[str, int]
    cohorts: Mapping[str, tuple[str, tuple[str, ...]]]


def data_folder() -> Path:
    """Where the traces lie, which are not shipped."""
    return Path(os.environ.get(VARIABLE, "../shared/data"))


def read_philly(folder: Path) -> RecordedTrace:
    """The virtual clusters of Philly; raises BadTrace, or ValueError for a value that is none."""
    rows = _rows(folder / "philly" / "sia_philly.csv.gz", _PHILLY)
    told = {
        _team(row["vc"]): int(row["node num"])
        for row in _rows(folder / "philly" / "philly_vc.csv", ("vc", "node num"))
    }
    named = (row for row in rows if row["cluster"])
    found = sorted((_time_ms(row["timestamp"]), number, row) for number, row in enumerate(named))
    if not found:
        raise BadTrace(f"{folder}: the trace is empty")
    first = found[0][0]
    workloads = tuple(
        _philly(number, at_ms - first, row) for number, (at_ms, _, row) in enumerate(found)
    )
    nodes = {team: told.get(team, NODES_UNKNOWN) for team in sorted({w.team for w in workloads})}
    large = tuple(team for team, count in nodes.items() if count >= LARGE_NODES)
    small = tuple(team for team in nodes if team not in large)
    cohorts = {
        "philly": ("", ()),
        "philly-large": ("philly", large),
        "philly-small": ("philly", small),
    }
    return RecordedTrace(name="philly", workloads=workloads, nodes=nodes, cohorts=cohorts)


def read_kalos(folder: Path) -> RecordedTrace:
    """The gangs of Kalos, all of one team that owns everything; raises as above."""
    rows = _rows(folder / "acme" / "converted_kalos_trace.csv", _KALOS)
    workloads = tuple(sorted(map(_kalos, rows), key=lambda one: one.at_ms))
    cohorts = {"acme": ("", ("kalos",))}
    return RecordedTrace(name="kalos", workloads=workloads, nodes={"kalos": 1}, cohorts=cohorts)


READERS: Final = {"philly": read_philly, "kalos": read_kalos}


def read_recorded(name: str, folder: Path) -> RecordedTrace:
    """The trace of this name.

    Raises:
        BadTrace: a file is missing, a column is, or a value is none; the text says which.
    """
    try:
        return READERS[name](folder)
    except BadTrace:
        raise
    except (ValueError, OSError) as error:
        raise BadTrace(f"the trace {name} in {folder} cannot be read: {error}") from error


def part_of(trace: RecordedTrace, limit: int, seed: int) -> tuple[Recorded, ...]:
    """`limit` workloads in a row, the first at 0 ms; `seed` says where they begin, 0: at once."""
    workloads = trace.workloads
    if not limit or limit >= len(workloads):
        return workloads
    spare = len(workloads) - limit
    start = random.Random(seed).randrange(spare + 1) if seed else 0  # no secret
    part = workloads[start : start + limit]
    first = part[0].at_ms
    return tuple(
        Recorded(
            name=one.name,
            team=one.team,
            at_ms=one.at_ms - first,
            pods=one.pods,
            gpus=one.gpus,
            run_ms=one.run_ms,
        )
        for one in part
    )


def spec_of(one: Recorded, speed: float, labels: dict[str, str]) -> WorkloadSpec:
    """The workload in time that runs `speed` times faster; a spec counts whole seconds."""
    pods = PodSet(
        count=one.pods,
        gpu=GpuRequest(count=one.gpus),
        cpu_milli=one.gpus * CPU_MILLI_PER_GPU,
        memory_mib=one.gpus * MEMORY_MIB_PER_GPU,
    )
    preferred = Level.BLOCK if one.pods > 1 else None
    return WorkloadSpec(
        name=one.name,
        kind=WorkloadKind.TRAINING,
        pod_sets=(pods,),
        topology=TopologyRequest(preferred=preferred),
        labels=labels,
        expected_duration_seconds=max(1, round(one.run_ms / 1_000 / speed)),
    )


def _philly(number: int, at_ms: int, row: Mapping[str, str]) -> Recorded:
    gpus = int(row["num_gpus"])
    each = max(size for size in range(1, GPUS_OF_A_NODE + 1) if gpus % size == 0)
    return Recorded(
        name=f"philly-{number:05d}",
        team=_team(row["cluster"]),
        at_ms=at_ms,
        pods=gpus // each,
        gpus=each,
        run_ms=round(float(row["duration"]) * 1_000),
    )


def _kalos(row: Mapping[str, str]) -> Recorded:
    seconds = float(row["iteration_computing_time"]) + float(row["iteration_networking_time"])
    return Recorded(
        name=f"kalos-{int(row['job_id']):05d}",
        team="kalos",
        at_ms=round(float(row["arrival_time"]) * 1_000),
        pods=int(row["gpu_workers"]),
        gpus=round(float(row["gpu_per_worker"])),
        run_ms=round(int(row["num_iteration"]) * seconds * 1_000),
    )


def _team(virtual_cluster: str) -> str:
    return f"vc-{virtual_cluster}"


def _time_ms(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()) * 1000


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Rows of a CSV file, plain or gzip."""
    if not path.exists():
        raise BadTrace(
            f"{path} is not there: set {VARIABLE} to the folder that holds philly/ and acme/"
        )
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open("rt") as file:
        rows = csv.DictReader(file)
        missing = set(needed) - set(rows.fieldnames or ())
        if missing:
            raise BadTrace(f"{path}: no column {', '.join(sorted(missing))}")
        yield from rows
