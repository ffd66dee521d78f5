"""`python -m operations.demo`."""

from __future__ import annotations

import asyncio
import sys

from muster.errors import MusterError
from operations.configuration import NotConfigured
from operations.demo.run import demo

if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(demo()))
    except (MusterError, NotConfigured, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
