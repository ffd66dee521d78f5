"""`python -m tests.simulation --seeds N --seed FIRST`: exit 0 green, 1 red.

A seed that fails prints its command and is shrunk: faults are left out while it still fails. One
seed in 50 is run twice, and must leave the same bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor

import structlog

from tests.simulation.faults import faults_of
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.world import Ended, World

TWICE = 50
SHOWN = 5
TOLD_EACH = 100
"""Seeds between two lines of progress."""


def run(seed: int, left_out: Collection[int] = ()) -> Ended:
    """One seed from its beginning to its verdict."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    gc.disable()
    if not gc.get_freeze_count():
        gc.freeze()  # what was imported need not be looked at after each seed
    sys.unraisablehook = lambda _: None  # what the end of killed tasks says
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_live(seed, left_out))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        del loop  # it holds the whole world
        gc.enable()
        gc.collect()


async def _live(seed: int, left_out: Collection[int]) -> Ended:
    return await World(seed, faults_of(seed, left_out)).run()


def judged(seed: int) -> tuple[int, list[str], str]:
    """The problems of a seed; another outcome in a second run is one."""
    ended = run(seed)
    problems = list(ended.problems)
    if seed % TWICE == 1 and run(seed).digest != ended.digest:
        problems.append("the same seed left other bytes")
    return seed, problems, ended.digest


def shrunk(seed: int) -> list[int]:
    """Numbers of faults that may be left out and it still fails."""
    left_out: list[int] = []
    for fault in faults_of(seed):
        if run(seed, [*left_out, fault.number]).problems:
            left_out.append(fault.number)
    return left_out


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--without", default="", help="numbers of faults to leave out: 1,4,7")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--until-red", action="store_true", help="stop at the first red seed")
    options = parser.parse_args()
    if options.without:
        left_out = [int(one) for one in options.without.split(",")]
        for fault in faults_of(options.seed, left_out):
            print(fault)
        ended = run(options.seed, left_out)
        print(*ended.problems or ["green"], ended.digest, sep="\n")
        return bool(ended.problems)
    return _many(range(options.seed, options.seed + options.seeds), options)


def _many(seeds: range, options: argparse.Namespace) -> int:
    started, red, counted = time.monotonic(), [], 0
    with ProcessPoolExecutor(options.workers) as pool:
        for seed, problems, _ in pool.map(judged, seeds):
            counted += 1
            if counted % TOLD_EACH == 0:
                print(f"{counted} of {len(seeds)} seeds", file=sys.stderr, flush=True)
            if problems:
                red.append(seed)
                _tell(seed, problems, [] if options.until_red else shrunk(seed))
            if len(red) >= (1 if options.until_red else SHOWN):
                pool.shutdown(wait=False, cancel_futures=True)
                break
    print(f"{counted} seeds, {len(red)} red, {time.monotonic() - started:.1f} s")
    return bool(red)


def _tell(seed: int, problems: list[str], left_out: list[int]) -> None:
    print(f"seed {seed} is red:", *problems[:SHOWN], sep="\n  ")
    without = f" --without {','.join(map(str, left_out))}" if left_out else ""
    print(f"  again: .venv/bin/python -m tests.simulation --seeds 1 --seed {seed}{without}")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of the bytes
        arguments = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, arguments, os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main())
