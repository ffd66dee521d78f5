"""What the child process that calls NVML is asked, and what it answers: a JSON line for each."""

from __future__ import annotations

from typing import Final

import msgspec

from shared.core.telemetry.readings import DeviceInventory, GpuReading

LINE_BYTES_MAX: Final = 4 << 20


class NvmlAsk(msgspec.Struct, frozen=True, kw_only=True, tag_field="ask"):
    """What the child is asked; it answers with any number of lines and then `Done`."""


class AskInventory(NvmlAsk, frozen=True, kw_only=True, tag="inventory"):
    """What the devices are: answered by `GpuBegun` for each, and `InventoryRead`."""

    skip: tuple[int, ...] = ()
    """Indexes of GPUs that are left alone."""


class AskReading(NvmlAsk, frozen=True, kw_only=True, tag="reading"):
    """The values of all GPUs now: answered by `GpuBegun` and `GpuRead` for each."""

    full: bool = True
    """Whether what changes slowly is read, too; else it is told as it was."""
    skip: tuple[int, ...] = ()
    """Indexes of GPUs that are left alone."""


class AskMig(NvmlAsk, frozen=True, kw_only=True, tag="mig"):
    """Take a GPU into MIG mode, or out of it: answered by `MigSet`."""

    uuid: str
    mig: bool


class NvmlAnswer(msgspec.Struct, frozen=True, kw_only=True, tag_field="answer"):
    """One line of the child."""


class GpuBegun(NvmlAnswer, frozen=True, kw_only=True, tag="begun"):
    """The calls of this GPU begin: should one not return, it is known of which."""

    index: int


class GpuRead(NvmlAnswer, frozen=True, kw_only=True, tag="gpu"):
    """All values of one GPU."""

    reading: GpuReading


class InventoryRead(NvmlAnswer, frozen=True, kw_only=True, tag="inventory"):
    """What the devices are."""

    inventory: DeviceInventory


class MigSet(NvmlAnswer, frozen=True, kw_only=True, tag="mig"):
    """What became of a change of mode; `problem` empty if it was made."""

    problem: str = ""


class XidTold(NvmlAnswer, frozen=True, kw_only=True, tag="event"):
    """An event of the driver, at any time: it answers nothing that was asked."""

    uuid: str
    type: int
    """Type of the event, a bit of NVML."""
    data: int
    """The XID, if it is one."""
    instance: int
    """Number of the GPU instance; -1: the whole GPU."""


class WorkerBegun(NvmlAnswer, frozen=True, kw_only=True, tag="worker_begun"):
    """The first line of a child: from here on a call that takes long is one of NVML."""


class Done(NvmlAnswer, frozen=True, kw_only=True, tag="done"):
    """All is answered."""


class Failed(NvmlAnswer, frozen=True, kw_only=True, tag="failed"):
    """NVML does not work as a whole: the child ends after it."""

    problem: str


AnyAsk = AskInventory | AskReading | AskMig
AnyAnswer = WorkerBegun | GpuBegun | GpuRead | InventoryRead | MigSet | XidTold | Done | Failed
