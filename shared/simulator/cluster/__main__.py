"""`python -m shared.simulator.cluster`: the simulated cluster, until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

import uvloop

from shared.adapters.clock import SystemClock
from shared.simulator.cluster.server import serving
from shared.simulator.cluster.settings import ClusterSettings


async def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings = ClusterSettings()
    async with serving(settings, SystemClock()) as (_, port):
        sys.stdout.write(f"simulated cluster on http://{settings.host}:{port}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    uvloop.run(main())
