"""Tasks that run beside something are ended, and what they raised is taken."""

import asyncio
import gc
from typing import Any

from shared.runtime.tasks import end


async def _fails() -> None:
    raise ValueError("broken")


async def test_what_an_ended_task_raised_is_not_told_by_asyncio() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    tasks = [asyncio.create_task(_fails()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    await end(tasks)
    over = [task.done() for task in tasks]
    del tasks
    gc.collect()

    assert [True, True] == over
    assert [] == told
