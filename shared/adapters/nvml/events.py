"""Events of the driver, waited for instead of polled: XIDs, ECC, recovery actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shared.adapters.nvml.answers import XidTold
from shared.adapters.nvml.library import (
    DeviceLostError,
    DriverGoneError,
    Library,
    instance_of,
)

XID_CRITICAL: Final = 0x8
SINGLE_BIT_STORM: Final = 0x200
WANTED: Final = (
    XID_CRITICAL | 0x2 | SINGLE_BIT_STORM | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000 | 0x8000
)
"""XidCriticalError, DoubleBitEcc, SingleBitEccStorm, DramRetirement and its failure, (non-)fatal
poison, GpuUnavailable, GpuRecoveryAction."""
WAIT_MS: Final = 1_000


class DriverEvents:
    """A set of events for all devices that answer; `wait` gives them one by one."""

    def __init__(self, library: Library) -> None:
        self._library = library
        nvml = library.nvml
        self._set = nvml.nvmlEventSetCreate()
        self.registered = sum(self._register(one) for one in library.handles() if one is not None)

    def _register(self, handle: Any) -> bool:  # noqa: ANN401
        """Only what the board supports: an unknown type would refuse all of them."""
        nvml = self._library.nvml
        try:
            types = self._library.ask(
                lambda: int(nvml.nvmlDeviceGetSupportedEventTypes(handle)), 0
            )
            if types & WANTED:
                nvml.nvmlDeviceRegisterEvents(handle, types & WANTED, self._set)
        except (DeviceLostError, DriverGoneError, nvml.NVMLError):
            return False
        return bool(types & WANTED)

    def wait(self, wait_ms: int = WAIT_MS) -> XidTold | None:
        """The next event; None when there was none. Blocks for `wait_ms` at most.

        Raises:
            DeviceLostError: a device of the set is not reached.
            DriverGoneError: NVML does not work as a whole.
        """
        nvml = self._library.nvml
        told = self._library.ask(lambda: nvml.nvmlEventSetWait_v2(self._set, wait_ms), None)
        if told is None:
            return None
        return XidTold(
            uuid=self._library.ask(lambda: self._library.uuid(told.device), ""),
            type=int(told.eventType),
            data=int(told.eventData),
            instance=instance_of(told.gpuInstanceId),
        )


def follow(
    events: DriverEvents, tell: Callable[[XidTold], None], rest: Callable[[], None]
) -> None:
    """Tell every event until the driver is gone; `rest` is called after a device was lost."""
    while True:
        try:
            told = events.wait()
        except DeviceLostError:
            rest()
        except DriverGoneError:
            return
        else:
            if told is not None:
                tell(told)
