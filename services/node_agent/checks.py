"""Checks under load of GPUs that came back from a reset: a command of the site, one at a time.

A device that looks healthy at rest may fail again at once under load, so a return needs proof (ADR
89). The command is the site's: DCGM's diagnosis, or a benchmark with a bar of its own. Exit code 0
is a pass; what it printed last is told with a failure.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import Final

import structlog

from services.node_agent.live_probe import LiveProbe
from shared.core.health.events import CODE_MAX, HealthEventKind
from shared.core.model.nouns import Gpu
from shared.core.telemetry.changes import HealthEvent
from shared.events.nodes import CheckGpu
from shared.ports.clock import Clock

TIMED_OUT: Final = 124
"""Exit code of a check that did not end in time, as of timeout(1)."""
NOT_STARTED: Final = 127
OUTPUT_BYTES_MAX: Final = 65_536

log = structlog.get_logger("checks")


class Checks:
    """Of one node; `command` has {gpu} for the index, {uuid} for the device. Empty: none."""

    def __init__(self, probe: LiveProbe, clock: Clock, command: str, seconds: float) -> None:
        """`seconds`: a check that takes longer has failed.

        Raises:
            ValueError: the command has a quote that is not closed.
        """
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"MUSTER_CHECK_COMMAND: {command!r}: {error}") from error
        self._probe, self._clock, self._seconds = probe, clock, seconds
        self._ordered: asyncio.Queue[CheckGpu] = asyncio.Queue()
        self._done: dict[int, int] = {}
        """Until when the last command to check a GPU held: the log is read again at each start."""

    def order(self, command: CheckGpu) -> None:
        """Check a GPU after those that were ordered before; what is known is passed over."""
        if self._command and self._done.get(command.gpu) != command.expires_at_ms:
            self._done[command.gpu] = command.expires_at_ms
            self._ordered.put_nowait(command)

    async def run(self) -> None:
        """Until cancelled; a check under way is killed then."""
        while True:
            command = await self._ordered.get()
            gpus = self._probe.inventory().gpus
            gpu = next((one for one in gpus if one.index == command.gpu), None)
            fits = gpu is not None and command.uuid in ("", gpu.uuid)
            if gpu is not None and fits and self._clock.now_ms() < command.expires_at_ms:
                await self._check(gpu)

    async def _check(self, gpu: Gpu) -> None:
        began = self._clock.monotonic_seconds()
        code, output = await self._execute(gpu)
        seconds = round(self._clock.monotonic_seconds() - began)
        kind = HealthEventKind.CHECK_FAILED if code else HealthEventKind.CHECK_PASSED
        log.info("a GPU is checked", gpu=gpu.index, exit_code=code, seconds=seconds)
        told = HealthEvent(
            gpu=gpu.index,
            kind=kind,
            code=min(abs(code) or seconds, CODE_MAX - 1),
            uuid=gpu.uuid,
            detail=output,
        )
        self._probe.tell([told])

    async def _execute(self, gpu: Gpu) -> tuple[int, str]:
        """Its exit code, and what it printed last."""
        words = [
            one.replace("{gpu}", str(gpu.index)).replace("{uuid}", gpu.uuid)
            for one in self._command
        ]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid}
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return NOT_STARTED, f"{words[0]}: {error.strerror}"
        return await _ended(process, self._seconds)


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> tuple[int, str]:
    last = b""
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None  # it was asked for
            while piece := await process.stdout.read(OUTPUT_BYTES_MAX):
                last = (last + piece)[-OUTPUT_BYTES_MAX:]
            code = await process.wait()
    except TimeoutError:
        return TIMED_OUT, f"it did not end within {seconds:.0f} s"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.wait()
    lines = last.decode(errors="replace").split("\n")
    return code, next((one.strip() for one in reversed(lines) if one.strip()), "")
