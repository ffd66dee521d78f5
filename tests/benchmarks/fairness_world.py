"""Twenty teams in four departments on one cluster, from a week of Philly's virtual clusters.

The large virtual clusters are several teams, their jobs dealt out in turn; arrival, size and run
time are the recorded ones. Nominal quota follows the machines that each virtual cluster had,
scaled so that all of it is the cluster; the cluster is so small that the week offers `load` times
its GPU time. Weights are drawn. Jobs of more than a node are gangs of whole nodes.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

GPUS: Final = 8
FLAVOR: Final = "p100"
WEEK_SECONDS: Final = 7 * 86_400
TEAMS_OF: Final = {
    "6214e9": 5,
    "11cb48": 3,
    "6c71a0": 3,
    "b436b2": 2,
    "103959": 1,
    "ee9e8c": 1,
    "0e4a51": 1,
    "ed69ec": 1,
    "7f04ca": 1,
    "2869ce": 1,
    "e13805": 1,
}
DEPARTMENTS: Final = 4
WARM_UP_SECONDS: Final = 30 * 86_400
"""The first month of the trace is thin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`gpus` GPUs for `seconds`, asked for at `at` seconds after the start of the week."""

    number: int
    team: str
    at: float
    seconds: float
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A queue: its department, quota in GPUs and weight."""

    name: str
    department: str
    nominal: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that a run is about."""

    nodes: int
    departments: dict[str, int]
    """Weight by name."""
    teams: Sequence[Team]
    jobs: Sequence[Job]


Row = tuple[float, float, int, str]
"""(arrival, run time, GPUs, virtual cluster)."""


def load_rows(path: Path) -> list[Row]:
    """The trace in order of arrival, without virtual clusters of a handful of jobs."""
    with gzip.open(path, "rt") as lines:
        rows = [
            (_seconds(row["timestamp"]), float(row["duration"]), int(row["num_gpus"]), vc)
            for row in csv.DictReader(lines)
            if (vc := row["cluster"]) in TEAMS_OF and float(row["duration"]) > 0
        ]
    return sorted(rows)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def load_machines(path: Path) -> dict[str, int]:
    """Machines by virtual cluster."""
    with path.open() as lines:
        return {row["vc"]: int(row["node num"]) for row in csv.DictReader(lines)}


def make(rows: Sequence[Row], machines: dict[str, int], seed: int, *, load: float) -> World:
    """A week of the trace that begins where `seed` says."""
    draw = Random(seed)
    first, last = rows[0][0] + WARM_UP_SECONDS, rows[-1][0] - WEEK_SECONDS
    begin = draw.uniform(first, last)
    jobs = list(_jobs([row for row in rows if begin <= row[0] < begin + WEEK_SECONDS], begin))
    offered = sum(one.gpus * min(one.seconds, WEEK_SECONDS - one.at) for one in jobs)
    nodes = max(8, round(offered / WEEK_SECONDS / GPUS / load))
    names = [f"{vc}-{part}" for vc, parts in TEAMS_OF.items() for part in range(parts)]
    draw.shuffle(names)
    parts = [machines[vc] / TEAMS_OF[vc] for vc in (name.partition("-")[0] for name in names)]
    teams = [
        Team(
            name=name,
            department=f"department-{number % DEPARTMENTS}",
            nominal=nominal,
            weight=draw.choice((1, 1, 2, 4)),
        )
        for number, (name, nominal) in enumerate(
            zip(names, dealt_out(nodes * GPUS, parts), strict=True)
        )
    ]
    departments = {f"department-{one}": draw.choice((1, 2)) for one in range(DEPARTMENTS)}
    largest = nodes * GPUS // 2
    kept = [one for one in jobs if one.gpus <= largest]
    return World(nodes=nodes, departments=departments, teams=teams, jobs=kept)


def dealt_out(whole: int, parts: Sequence[float]) -> list[int]:
    """`whole` in proportion to `parts`, nothing left over (largest remainder)."""
    exact = [whole * part / sum(parts) for part in parts]
    found = [int(one) for one in exact]
    by_rest = sorted(range(len(exact)), key=lambda at: (found[at] - exact[at], at))
    for at in by_rest[: whole - sum(found)]:
        found[at] += 1
    return found


def _jobs(rows: Sequence[Row], begin: float) -> Iterator[Job]:
    dealt = dict.fromkeys(TEAMS_OF, 0)
    for number, (at, seconds, gpus, vc) in enumerate(rows):
        part = dealt[vc] % TEAMS_OF[vc]
        dealt[vc] += 1
        whole = gpus if gpus <= GPUS else -(-gpus // GPUS) * GPUS
        yield Job(
            number=number,
            team=f"{vc}-{part}",
            at=at - begin,
            seconds=max(seconds, 1.0),
            gpus=whole,
        )
