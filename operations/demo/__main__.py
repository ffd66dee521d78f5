"""`python -m operations.demo [--quick] [--pause SECONDS]`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from muster.errors import MusterError
from operations.configuration import NotConfigured
from operations.demo.quick import quick
from operations.demo.story import SceneFailed, story

PAUSE_SECONDS = 5.0
"""Between two scenes on a terminal, so that a person can read; 0 in a pipe."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m operations.demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 workloads and a report")
    parser.add_argument(
        "--pause",
        type=float,
        default=PAUSE_SECONDS if sys.stdout.isatty() else 0.0,
        metavar="SECONDS",
        help="time to read between two scenes",
    )
    return parser.parse_args()


def main() -> int:
    """Run one of the two demos; 0 when all that it promises was seen."""
    arguments = _arguments()
    try:
        return asyncio.run(quick() if arguments.quick else story(arguments.pause))
    except (MusterError, NotConfigured, OSError, SceneFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. The system stays up (make down stops it).", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
