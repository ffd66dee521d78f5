"""The child process that calls NVML, as its parent sees it: asked by lines, with a deadline."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from shared.adapters.nvml.answers import (
    LINE_BYTES_MAX,
    AnyAnswer,
    AnyAsk,
    Done,
    Failed,
    GpuBegun,
    WorkerBegun,
    XidTold,
)
from shared.ports.gpu_source import SourceSilentError

WORKER: Final = (sys.executable, "-m", "shared.adapters.nvml.worker")
GRACE_SECONDS: Final = 1.0
BEGIN_SECONDS: Final = 30.0
"""Until a new process must run: on a node with much to do that takes longer than a call may."""
_answers: Final = msgspec.json.Decoder(AnyAnswer)
_encode: Final = msgspec.json.Encoder().encode


class CallHangsError(SourceSilentError):
    """A call of NVML did not return in time; the child is ended."""

    def __init__(self, gpu: int | None, seconds: float) -> None:
        where = "NVML" if gpu is None else f"GPU {gpu}"
        super().__init__(f"{where} does not answer for {seconds:g} s")
        self.gpu = gpu
        """Index of the GPU whose call it was; None if it was of none."""


class NvmlChild:
    """One process; `tell` gets the events of the driver. Asks come one after the other."""

    def __init__(self, process: Process, tell: Callable[[XidTold], None], seconds: float) -> None:
        self._process = process
        self._tell = tell
        self._seconds = seconds
        self._answers: asyncio.Queue[AnyAnswer | None] = asyncio.Queue()
        self._begun = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, tell: Callable[[XidTold], None], seconds: float) -> NvmlChild:
        """A new process; no call of it takes longer than `seconds` without being noticed."""
        process = await asyncio.create_subprocess_exec(
            *WORKER, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LINE_BYTES_MAX
        )
        return cls(process, tell, seconds)

    async def ask(self, ask: AnyAsk, answers: list[AnyAnswer]) -> None:
        """Append all that is answered; what was told before a failure stays there.

        Raises:
            CallHangsError: no line came in time.
            SourceSilentError: NVML does not work, or the process ended or does not begin.
        """
        await self._begins()
        assert self._process.stdin is not None
        self._process.stdin.write(_encode(ask) + b"\n")
        gpu: int | None = None
        while True:
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await self._answers.get()
            except TimeoutError:
                raise CallHangsError(gpu, self._seconds) from None
            if isinstance(answer, Done):
                return
            if answer is None or isinstance(answer, Failed):
                raise SourceSilentError(answer.problem if answer else "the NVML process ended")
            if isinstance(answer, GpuBegun):
                gpu = answer.index
            answers.append(answer)

    async def _begins(self) -> None:
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._begun.wait()
        except TimeoutError:
            raise SourceSilentError(
                f"the NVML process does not begin within {BEGIN_SECONDS:g} s"
            ) from None

    async def end(self) -> None:
        """Kill it. A process within a hanging call may outlive that; it is not waited for."""
        with suppress(ProcessLookupError):
            self._process.kill()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError, msgspec.DecodeError):  # a line that is cut ends it
            while line := await self._process.stdout.readline():
                answer = _answers.decode(line)
                if isinstance(answer, XidTold):
                    self._tell(answer)
                elif isinstance(answer, WorkerBegun):
                    self._begun.set()
                else:
                    self._answers.put_nowait(answer)
        self._begun.set()
        self._answers.put_nowait(None)
