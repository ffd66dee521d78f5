"""Runs the parts in turn, prints each, and writes all of them as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import tests.benchmarks.kube as about
from tests.benchmarks.kube import (
    binder,
    jobs,
    limit,
    native,
    reasons,
    scheduler,
    waiting,
    whole,
)
from tests.benchmarks.kube.place import Place, started
from tests.benchmarks.options import machine

PARTS: Final[Mapping[str, Callable[[Place, int], Coroutine[Any, Any, dict[str, Any]]]]] = {
    "limit": limit.measure,
    "scheduler": scheduler.measure,
    "binder": binder.measure,
    "whole": whole.measure,
    "scheduler-gpus": scheduler.measure_gpus,
    "native": native.measure,
    "jobs": jobs.measure,
    "reasons": reasons.measure,
    "waiting": waiting.measure,
}
COMPARED: Final = (("binder", "limit"), ("binder", "scheduler"), ("native", "scheduler-gpus"))


def run(place: Place, pods: int, parts: list[str]) -> dict[str, Any]:
    """The figures of each part, and how ours compare."""
    figures: dict[str, Any] = {"machine": machine(), "nodes": place.nodes}
    for name in parts:
        count = place.whole_gpus if name == "whole" else pods
        figures[name] = asyncio.run(PARTS[name](place, count))
        print(name, json.dumps(figures[name], indent=2), file=sys.stderr, flush=True)
    for ours, other in COMPARED:
        if ours in figures and other in figures:
            ratio = figures[ours]["pods_per_second"] / figures[other]["pods_per_second"]
            figures[f"{ours}_over_{other}"] = round(ratio, 2)
    return figures


def main() -> None:
    """Parse options, measure, print JSON."""
    parser = argparse.ArgumentParser(
        description=about.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1_500, help="a third is for slices of MIG")
    parser.add_argument("--pods", type=int, default=3_000, help="of each part but the whole")
    parser.add_argument("--parts", nargs="*", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    with started(options.nodes) as place:
        figures = run(place, options.pods, options.parts)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
