"""`ports.gpu_source.GpuSource` on NVML: a GPU that hangs or is lost costs its neighbours nothing.

A call that does not return names its GPU: the child is ended, and the next one leaves that GPU
alone. Silent GPUs are looked at by a child of their own, after a pause that doubles: if one
answers there, all are read by a new child, as an initialised NVML never finds a lost GPU again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from shared.adapters.nvml.answers import (
    AnyAnswer,
    AnyAsk,
    AskInventory,
    AskMig,
    AskReading,
    GpuRead,
    InventoryRead,
    MigSet,
    XidTold,
)
from shared.adapters.nvml.child import CallHangsError, NvmlChild
from shared.core.model.value import replace
from shared.core.telemetry.readings import Answering, DeviceInventory, GpuReading, NodeReading
from shared.ports.clock import Clock
from shared.ports.gpu_source import SourceSilentError

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0


class Pause:
    """A wait that doubles each time, from one second to a minute."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS / 2
        self.until = 0.0
        """Until when nothing is tried, seconds of the monotonic clock."""

    def begin(self, now: float) -> None:
        """Wait once more, for twice as long."""
        self._seconds = min(2 * self._seconds, LONGEST_SECONDS)
        self.until = now + self._seconds


class NvmlSource:
    """NVML of this node; `tell` gets the events of the driver."""

    def __init__(
        self, *, clock: Clock, tell: Callable[[XidTold], None], deadline_seconds: float
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._deadline_seconds = deadline_seconds
        self._asking = asyncio.Lock()
        self._child: NvmlChild | None = None
        self._restart = Pause()
        self._problem = ""
        self._driver = ""
        self._known: dict[int, GpuReading] = {}
        """The last reading of each GPU that answered, by index."""
        self._silent: dict[int, Pause] = {}
        """GPUs that are lost or do not answer, by index."""
        self._hanging: set[int] = set()
        self._look: asyncio.Task[None] | None = None

    async def inventory(self) -> DeviceInventory:
        """What the devices are.

        Raises:
            SourceSilentError: nothing was told.
        """
        answers: list[AnyAnswer] = []
        while not await self._past_hangs(AskInventory(skip=tuple(self._hanging)), answers):
            pass
        found = next(one.inventory for one in answers if isinstance(one, InventoryRead))
        self._driver = found.driver
        return found

    async def read(self, *, full: bool = True) -> NodeReading:
        """The values of all GPUs; one that is lost or hangs is told as such.

        Not `full`: what changes slowly is told as it was read in full last.

        Raises:
            SourceSilentError: nothing was told.
        """
        if not self._driver:
            await self.inventory()
        driver, at_ms = self._driver, self._clock.now_ms()
        read = {one.index: self._named(one) for one in await self._read_all(full=full)}
        for index in self._hanging:
            read[index] = self._silent_one(index, Answering.UNRESPONSIVE)
        self._note(read.values())
        self._look_again()
        gpus = tuple(read[index] for index in sorted(read))
        return NodeReading(at_ms=at_ms, driver=driver, gpus=gpus)

    async def set_mig(self, uuid: str, *, mig: bool) -> str:
        """Change the mode of an idle GPU; returns what prevented it, empty if nothing did."""
        answers: list[AnyAnswer] = []
        try:
            await self._ask(AskMig(uuid=uuid, mig=mig), answers)
        except SourceSilentError as error:
            return str(error)
        return next(one.problem for one in answers if isinstance(one, MigSet))

    async def close(self) -> None:
        """End the children."""
        if self._look is not None:
            self._look.cancel()
            with suppress(asyncio.CancelledError):
                await self._look
        await self._end()

    async def _read_all(self, *, full: bool) -> list[GpuReading]:
        """Goes on behind a GPU that hangs, with another child."""
        answers: list[AnyAnswer] = []
        whole = False
        while not whole:
            done = {one.index for one in _readings(answers)}
            ask = AskReading(skip=tuple(done | self._hanging), full=full)
            whole = await self._past_hangs(ask, answers)
        return _readings(answers)

    async def _past_hangs(self, ask: AnyAsk, answers: list[AnyAnswer]) -> bool:
        """False if a GPU hangs: it is left alone from now on, and the rest must be asked again."""
        try:
            await self._ask(ask, answers)
        except CallHangsError as hang:
            if hang.gpu is None:
                raise
            self._hanging.add(hang.gpu)
            self._restart = Pause()
            return False
        return True

    async def _ask(self, ask: AnyAsk, answers: list[AnyAnswer]) -> None:
        """Ask the child that runs, or a new one; it is ended if it fails."""
        async with self._asking:
            child = await self._ready()
            try:
                await child.ask(ask, answers)
            except BaseException as error:
                self._problem = str(error)
                self._restart.begin(self._clock.monotonic_seconds())
                await self._end()
                raise
            self._restart = Pause()

    async def _ready(self) -> NvmlChild:
        if self._child is None:
            if self._clock.monotonic_seconds() < self._restart.until:
                raise SourceSilentError(self._problem)
            self._child = await NvmlChild.start(self._tell, self._deadline_seconds)
        return self._child

    async def _end(self) -> None:
        child, self._child = self._child, None
        self._driver = ""  # the next child may meet another one
        if child is not None:
            await child.end()

    def _note(self, read: Iterable[GpuReading]) -> None:
        now = self._clock.monotonic_seconds()
        for one in read:
            if one.answering is Answering.YES:
                self._known[one.index] = one
                self._silent.pop(one.index, None)
            elif one.index not in self._silent:
                self._silent[one.index] = Pause()
                self._silent[one.index].begin(now)

    def _named(self, read: GpuReading) -> GpuReading:
        """A GPU that was lost before its child was started has no UUID there."""
        lost = read.answering is Answering.LOST
        return self._silent_one(read.index, Answering.LOST) if lost else read

    def _silent_one(self, index: int, answering: Answering) -> GpuReading:
        known = self._known.get(index, GpuReading(index=index, uuid=""))
        return replace(known, answering=answering, values={}, instances=(), processes=())

    def _look_again(self) -> None:
        now = self._clock.monotonic_seconds()
        due = [index for index, pause in self._silent.items() if pause.until <= now]
        if due and (self._look is None or self._look.done()):
            self._look = asyncio.create_task(self._look_at(due[0]))

    async def _look_at(self, index: int) -> None:
        """A child of its own looks at one silent GPU; if it answers, the next reading has it."""
        others = tuple((set(self._known) | set(self._silent)) - {index})
        child = await NvmlChild.start(self._tell_nothing, self._deadline_seconds)
        answers: list[AnyAnswer] = []
        with suppress(SourceSilentError):
            await child.ask(AskReading(skip=others), answers)
        await child.end()
        if any(one.answering is Answering.YES for one in _readings(answers)):
            async with self._asking:
                await self._end()
            self._hanging.discard(index)
        elif index in self._silent:
            self._silent[index].begin(self._clock.monotonic_seconds())

    def _tell_nothing(self, told: XidTold) -> None:
        """The other child tells the same event."""


def _readings(answers: Iterable[AnyAnswer]) -> list[GpuReading]:
    return [one.reading for one in answers if isinstance(one, GpuRead)]
