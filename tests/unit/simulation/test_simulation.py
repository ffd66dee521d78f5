"""The simulation itself: time, kills and pauses are what they say, and a seed is repeatable."""

import asyncio
import os
import subprocess
import sys

from tests.simulation.faults import KINDS, faults_of
from tests.simulation.virtual_time import Process, VirtualLoop


def in_virtual_time(story):
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(story())
    finally:
        loop.close()


def started(process, work):
    return asyncio.get_running_loop().create_task(work, context=process.context)


async def beats(seen, seconds=1.0):
    loop = asyncio.get_running_loop()
    try:
        while True:
            await asyncio.sleep(seconds)
            seen.append(loop.time())
    finally:
        seen.append("finally")


def test_an_hour_takes_no_time():
    async def story():
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert 3600 == in_virtual_time(story)


def test_a_killed_process_does_nothing_more_not_even_its_finally():
    seen: list[int] = []

    async def story():
        process = Process("p")
        task = started(process, beats(seen))
        await asyncio.sleep(2.5)
        process.dead = True
        task.cancel()
        await asyncio.sleep(10)
        assert [1, 2] == seen
        return task

    in_virtual_time(story)


def test_a_paused_process_goes_on_late():
    seen: list[int] = []

    async def story():
        process = Process("p")
        started(process, beats(seen))
        await asyncio.sleep(1.5)
        process.paused = True
        await asyncio.sleep(5)
        process.resume()
        await asyncio.sleep(0.1)
        return list(seen)

    assert [1, 6.5] == in_virtual_time(story)


def test_what_was_cancelled_after_a_pause_does_not_run():
    async def story():
        process = Process("p")

        async def waits():
            try:
                async with asyncio.timeout(2):
                    await event.wait()
            except TimeoutError:
                return "late"
            return "in time"

        event = asyncio.Event()
        task = started(process, waits())
        await asyncio.sleep(1)
        process.paused = True
        event.set()
        await asyncio.sleep(5)
        process.resume()
        return await task

    assert in_virtual_time(story) in {"late", "in time"}


def test_faults_come_in_order_of_time_and_can_be_left_out():
    faults = faults_of(3)

    assert faults == sorted(faults, key=lambda one: one.at_seconds)
    assert faults == faults_of(3)
    without = faults_of(3, [faults[0].number])
    assert faults[1:] == without


def test_every_kind_of_fault_is_met_by_a_hundred_seeds():
    assert set(KINDS) == {one.kind for seed in range(100) for one in faults_of(seed)}


def test_the_same_seed_leaves_the_same_bytes_in_two_processes():
    code = (
        "from tests.simulation.__main__ import run; e = run(7);"
        " print(e.digest, e.records, list(e.problems))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    first, second = (
        subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
        for _ in range(2)
    )

    assert first == second
    assert first.endswith(" []\n")
