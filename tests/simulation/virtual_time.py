"""An event loop on which time jumps to the next timer, and processes that can be killed on it.

A callback belongs to the process in the context of which it was made. One of a killed process
never runs, so no `finally` of it does, as after kill -9; those of a paused one run later.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from typing_extensions import override

PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


class Process:
    """What a callback belongs to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.held: list[_Call] = []
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def resume(self) -> None:
        """Go on with all that became ready meanwhile."""
        self.paused = False
        held, self.held = self.held, []
        for call in held:
            asyncio.get_running_loop().call_soon(call.late, context=call.context)


class _Call:
    """A callback that asks first whether its process lives."""

    def __init__(
        self, process: Process, callback: Callable[..., Any], arguments: Any, context: Context
    ) -> None:
        self.process, self.callback, self.arguments = process, callback, arguments
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.process.dead:
            return
        if self.process.paused:
            self.process.held.append(self)
        else:
            self.callback(*self.arguments)

    def late(self) -> None:
        """After a pause; what was cancelled meanwhile is left out."""
        if self.handle is None or not self.handle.cancelled():
            self.callback(*self.arguments)


class _NothingToWaitFor(selectors.SelectSelector):
    """Waits by moving the time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is scheduled any more")
        self.seconds += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._virtual = _NothingToWaitFor()
        super().__init__(self._virtual)
        self.set_exception_handler(lambda *_: None)

    @override
    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.seconds

    @override
    def call_soon(  # type: ignore[override]  # any callback
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As asyncio's, for a process that may be dead by then."""
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(process, callback, args, context)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    @override
    def call_at(  # type: ignore[override]  # any callback
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, for a process that may be dead by then."""
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(process, callback, args, context)
        handle = super().call_at(when, call, context=context)
        call.handle = handle
        return handle
