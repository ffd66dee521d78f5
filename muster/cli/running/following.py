"""Stays with one workload: says why it waits when that changes, and cancels it when asked to.

The first Ctrl-C asks, the second cancels, the third leaves. Without a terminal no answer can come,
so there the first one cancels. What is cancelled is waited for, so that the exit code is true.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from muster.cli.output import note
from muster.cli.running.output import RunOutput
from muster.cli.waiting import Waiter
from muster.cli.why import sentence_of
from muster.client import ENDED
from muster.errors import MusterError

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
TELL_SECONDS: Final = 0.5
"""How often the state is looked at ..."""
ASK_SECONDS: Final = 5.0
"""... and how often the reason of a wait is asked for, while the state stays the same."""
ANSWER_SECONDS: Final = 10.0
"""For so long after the first Ctrl-C another one cancels."""
NODES_SHOWN: Final = 4
STARTED: Final = frozenset({"placed", "bound", "running"})


class Teller:
    """Tells the state of one workload, and what `why` says of it, when they change."""

    def __init__(self, client: AsyncClient, waiter: Waiter, output: RunOutput) -> None:
        self._client = client
        self._waiter = waiter
        self._output = output
        self._id = output.workload_id

    async def tell(self) -> None:
        """A line for each state, and those of `why` while it waits."""
        state, told, asked_at = "", [""], 0.0
        while True:
            now, workload = time.monotonic(), self._waiter.workloads[self._id]
            if workload["state"] != state:
                state, told, asked_at = workload["state"], [""], 0.0
                note(state_line(workload))
                if state in STARTED:
                    self._output.follow(workload.get("attempt") or 0)
            if state not in STARTED | ENDED and now - asked_at >= ASK_SECONDS:
                asked_at = now
                told = await self._tell_why(state, told)
            await asyncio.sleep(TELL_SECONDS)

    async def _tell_why(self, state: str, told: list[str]) -> list[str]:
        """The sentence of now, shown unless it is that of before; an outage is told elsewhere."""
        try:
            answer = await self._client.why(self._id)
        except MusterError:
            return told
        lines = sentence_of(answer)
        if answer.get("state") != state or not lines:
            return told
        if lines != told:
            note("\n".join(f"  {line}" for line in lines))
        return lines


def state_line(workload: Json) -> str:
    """Such as "train is running on h100-0, h100-1."."""
    nodes: Sequence[str] = workload.get("nodes") or ()
    shown = ", ".join(nodes[:NODES_SHOWN])
    more = f" and {len(nodes) - NODES_SHOWN} more nodes" if len(nodes) > NODES_SHOWN else ""
    where = f" on {shown}{more}" if nodes and workload["state"] in STARTED else ""
    verb = "has" if workload["state"] in {"succeeded", "failed"} else "is"
    return f"{workload.get('name') or workload['id']} {verb} {workload['state']}{where}."


class Interrupts:
    """What Ctrl-C does to a run."""

    def __init__(
        self, client: AsyncClient, workload_id: str, following: asyncio.Task[None]
    ) -> None:
        self._client = client
        self._id = workload_id
        self._following = following
        self._asked_at = float("-inf")
        self._cancelling: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Ctrl-C comes here while the block runs."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.hear)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def hear(self) -> None:
        """One Ctrl-C."""
        now = time.monotonic()
        if self._cancelling is not None:
            self._following.cancel()
        elif sys.stdin.isatty() and now - self._asked_at > ANSWER_SECONDS:
            self._asked_at = now
            note(
                f"Cancel {self._id}? Ctrl-C within {ANSWER_SECONDS:g} s cancels it; else the run "
                "goes on."
            )
        else:
            note(f"Cancelling {self._id}; Ctrl-C leaves without waiting for its end.")
            self._cancelling = asyncio.create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self._client.cancel(self._id)
        except MusterError as error:
            note(f"It is not cancelled: {error}. Try `muster cancel {self._id}`.")
            self._cancelling = None


async def follow(client: AsyncClient, answer: Json, seconds: float | None) -> Json:
    """The workload as it was heard last: ended, unless the time was up or the caller left."""
    identifier, waiter = str(answer["id"]), Waiter(client, [answer])
    output = RunOutput(client, identifier)
    teller = Teller(client, waiter, output)
    following = asyncio.create_task(waiter.until_ended(seconds, teller=teller.tell()))
    interrupts = Interrupts(client, identifier, following)
    with interrupts.handled(), contextlib.suppress(asyncio.CancelledError):
        await following
    await output.end()
    workload = waiter.workloads[identifier]
    if workload["state"] in ENDED:
        note(state_line(workload))
    else:
        note(f"It goes on without this command: `muster status {workload['id']}`.")
    return workload
