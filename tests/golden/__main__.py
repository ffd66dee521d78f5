"""`python -m tests.golden check|record`: see the package."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

from tests.golden.digests import SEEDS, Key, differences, digest, load, save
from tests.golden.histories import HISTORIES


def main() -> int:
    """Exit code 1 where a digest differs."""
    arguments = _parser().parse_args()
    keys = [
        (name, seed) for name in arguments.history or HISTORIES for seed in range(arguments.seeds)
    ]
    found: dict[Key, str] = {}
    started = time.monotonic()
    with multiprocessing.Pool() as pool:
        for key, value in pool.imap_unordered(_played, keys, chunksize=4):
            found[key] = value
            if len(found) % 50 == 0:
                print(f"{len(found)} of {len(keys)} histories", file=sys.stderr, flush=True)
    seconds = time.monotonic() - started
    if arguments.action == "record":
        save({**load(), **found})
        print(f"{len(found)} digests are recorded, in {seconds:.0f} s")
        return 0
    different = differences(found, load())
    for line in different:
        print(line)
    print(f"{len(found) - len(different)} of {len(found)} histories agree, in {seconds:.0f} s")
    return 1 if different else 0


def _played(key: Key) -> tuple[Key, str]:
    return key, digest(*key)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden",
        description="Digests of what the handlers emit and write over random histories.",
        epilog="Example: python -m tests.golden check --history admission --seeds 20",
    )
    parser.add_argument("action", choices=["check", "record"])
    parser.add_argument("--history", action="append", choices=sorted(HISTORIES))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of each history, from 0")
    return parser


if __name__ == "__main__":
    sys.exit(main())
