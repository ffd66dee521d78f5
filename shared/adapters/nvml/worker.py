"""`python -m shared.adapters.nvml.worker`: the one process that calls NVML.

A call that hangs cannot be stopped, not even in a thread: so the agent keeps a child that it can
end, asks it by lines on its standard input, and reads lines from its standard output.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO, Final

import msgspec

from shared.adapters.nvml.answers import (
    AnyAnswer,
    AnyAsk,
    AskInventory,
    AskMig,
    AskReading,
    Done,
    Failed,
    GpuBegun,
    GpuRead,
    InventoryRead,
    MigSet,
    WorkerBegun,
)
from shared.adapters.nvml.events import DriverEvents, follow
from shared.adapters.nvml.inventory import read_inventory
from shared.adapters.nvml.library import DeviceLostError, DriverGoneError, Library, open_library
from shared.adapters.nvml.readings import Readings
from shared.adapters.nvml.slices import set_mig
from shared.core.telemetry.readings import Answering, GpuReading

REST_SECONDS: Final = 1.0
_asks: Final = msgspec.json.Decoder(AnyAsk)
_encoder: Final = msgspec.json.Encoder()


class AnswerLines:
    """Answers, one in a line; events come from a thread of their own."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def tell(self, answer: AnyAnswer) -> None:
        """Write one answer, whole and at once."""
        line = _encoder.encode(answer) + b"\n"
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


class Worker:
    """Answers what is asked of one library."""

    def __init__(self, library: Library, tell: Callable[[AnyAnswer], None]) -> None:
        self._library = library
        self._tell = tell
        self._readings = Readings(library)

    def answer(self, ask: AnyAsk) -> None:
        """Tell what is asked, and that it is all.

        Raises:
            DriverGoneError: NVML does not work as a whole.
        """
        if isinstance(ask, AskInventory):
            found = read_inventory(self._library, begin=self._begin, skip=ask.skip)
            self._tell(InventoryRead(inventory=found))
        elif isinstance(ask, AskReading):
            self._read(ask)
        else:
            self._tell(MigSet(problem=self._set_mig(ask)))
        self._tell(Done())

    def _read(self, ask: AskReading) -> None:
        for index in range(self._library.nvml.nvmlDeviceGetCount()):
            if index not in ask.skip:
                self._begin(index)
                self._tell(GpuRead(reading=self._gpu(index, full=ask.full)))

    def _begin(self, index: int) -> None:
        self._tell(GpuBegun(index=index))

    def _gpu(self, index: int, *, full: bool) -> GpuReading:
        try:
            # The handle anew each time: of a lost device even this call fails.
            handle = self._library.nvml.nvmlDeviceGetHandleByIndex(index)
            return self._readings.read(index, handle, full=full)
        except (DeviceLostError, self._library.nvml.NVMLError):
            return GpuReading(index=index, uuid="", answering=Answering.LOST)

    def _set_mig(self, ask: AskMig) -> str:
        try:
            handle = self._library.nvml.nvmlDeviceGetHandleByUUID(ask.uuid)
            return set_mig(self._library, handle, mig=ask.mig)
        except DeviceLostError:
            return "the GPU is lost"
        except self._library.nvml.NVMLError as error:
            return str(error)


def main() -> None:
    """Answer until the standard input ends, or NVML does not work."""
    lines = AnswerLines(sys.stdout.buffer)
    try:
        lines.tell(WorkerBegun())
        library = open_library()
        threading.Thread(target=_follow, args=(library, lines), daemon=True).start()
        worker = Worker(library, lines.tell)
        for line in sys.stdin.buffer:
            worker.answer(_asks.decode(line))
    except ModuleNotFoundError as error:
        lines.tell(Failed(problem=f"{error}: install the extra `agent` of muster-gpu"))
    except DriverGoneError as error:
        lines.tell(Failed(problem=str(error)))
    except BrokenPipeError:
        return


def _follow(library: Library, lines: AnswerLines) -> None:
    try:
        events = DriverEvents(library)
        if events.registered:
            follow(events, lines.tell, lambda: time.sleep(REST_SECONDS))
    except (library.nvml.NVMLError, OSError):
        return  # no events here: the kernel's log tells of XIDs, and readings of the rest


if __name__ == "__main__":
    main()
