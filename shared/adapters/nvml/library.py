"""NVML as the other modules call it: what is not supported is absent, what is lost is raised.

`nvidia-ml-py` is asked for by name, so that only nodes with GPUs need it (the extra `agent`);
tests hand in a library of their own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

from shared.core.health.events import NO_INSTANCE

Told = TypeVar("Told")
LIBRARY: Final = "pynvml"
MIB: Final = 1 << 20
NO_ID: Final = 0xFFFFFFFF
"""What NVML writes for no number, as for the instance of what concerns a whole GPU."""
GPU_IS_LOST: Final = 15
_GONE: Final = frozenset({1, 9})
"""NVML's UNINITIALIZED and DRIVER_NOT_LOADED: nothing works until it is initialised anew."""


class DeviceLostError(Exception):
    """The driver does not reach the device any more."""


class DriverGoneError(Exception):
    """NVML does not work as a whole."""


class Library:
    """The functions of `nvml`, and the devices that it knows."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401  # untyped library
        self.nvml = nvml

    def ask(self, call: Callable[[], Told], otherwise: Told) -> Told:
        """What `call` answers; `otherwise` if this board or driver does not tell.

        Raises:
            DeviceLostError: the device is not reached.
            DriverGoneError: no device is.
        """
        try:
            return call()
        except self.nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code == GPU_IS_LOST:
                raise DeviceLostError from error
            if code in _GONE:
                raise DriverGoneError(str(error)) from error
            return otherwise

    def handles(self) -> list[Any]:
        """A handle for each index; None where the device is lost."""
        return [self.handle(index) for index in range(self.nvml.nvmlDeviceGetCount())]

    def handle(self, index: int) -> Any:  # noqa: ANN401
        """A handle of the GPU with this index; None where it is lost."""
        try:
            return self.ask(lambda: self.nvml.nvmlDeviceGetHandleByIndex(index), None)
        except DeviceLostError:
            return None

    def uuid(self, handle: Any) -> str:  # noqa: ANN401
        """UUID of a device."""
        return text(self.nvml.nvmlDeviceGetUUID(handle))

    def pci(self, handle: Any) -> str:  # noqa: ANN401
        """Address of a device on the PCI bus."""
        return text(self.nvml.nvmlDeviceGetPciInfo(handle).busId)

    def driver(self) -> str:
        """Version of the driver."""
        return text(self.nvml.nvmlSystemGetDriverVersion())

    def mig(self, handle: Any) -> bool:  # noqa: ANN401
        """Whether MIG mode is on."""
        return self.ask(lambda: bool(self.nvml.nvmlDeviceGetMigMode(handle)[0]), otherwise=False)


def open_library() -> Library:
    """NVML of this machine, initialised.

    Raises:
        ModuleNotFoundError: `nvidia-ml-py` is not installed (extra `agent`).
        DriverGoneError: there is no driver, or it does not work.
    """
    nvml = importlib.import_module(LIBRARY)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise DriverGoneError(str(error)) from error
    return Library(nvml)


def instance_of(number: int) -> int:
    """The number of a GPU instance (MIG); `NO_INSTANCE` where NVML names none."""
    return NO_INSTANCE if number == NO_ID else int(number)


def text(told: str | bytes) -> str:
    """Older versions of the library answer in bytes."""
    return told.decode() if isinstance(told, bytes) else told
