"""`python -m operations.demo`."""

from __future__ import annotations

import asyncio
import sys

from muster.errors import MusterError
from operations.demo.run import demo

if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(demo()))
    except (MusterError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
