"""The simulated clock is read by metrics, too: by another thread, after the simulation."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from tests.simulation.ports import Time
from tests.simulation.virtual_time import VirtualLoop


def test_a_clock_is_read_from_a_thread_after_its_loop_has_ended():
    async def made() -> Time:
        await asyncio.sleep(3)
        return Time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        clock = runner.run(made())

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(clock.monotonic_seconds).result() == 3
