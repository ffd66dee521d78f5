"""A reading of the GPUs of one node: values by the names of dcgm-exporter.

What a driver does not tell is absent, and never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from shared.core.health.events import NO_INSTANCE
from shared.core.model.nouns import Gpu
from shared.core.model.value import Value

MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
GPU_UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
TEMPERATURE: Final = "DCGM_FI_DEV_GPU_TEMP"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"
SM_CLOCK: Final = "DCGM_FI_DEV_SM_CLOCK"
PCIE_REPLAYS: Final = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
CLOCK_REASONS: Final = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
HEAT_BITS: Final = 0x8 | 0x20 | 0x40
"""Of the reasons: slowed by hardware, and by heat (software, hardware)."""
THROTTLED_BITS: Final = HEAT_BITS | 0x80
"""Of the reasons: slowed by hardware, by heat (software, hardware) and by a power brake.

A limit of power (0x4) is how a busy GPU runs.
"""


class Answering(StrEnum):
    """Whether a device answers its driver."""

    YES = "yes"
    LOST = "lost"
    """The driver does not reach it any more."""
    UNRESPONSIVE = "unresponsive"
    """A call to it did not return in time."""


class ProcessReading(Value, frozen=True, kw_only=True):
    """A process that computes on a GPU."""

    pid: int
    memory_mib: int | None = None
    """None where the driver does not tell, as within some containers."""
    instance: int = NO_INSTANCE
    """Number of the GPU instance (MIG) that it runs on; -1: the whole GPU."""


class InstanceReading(Value, frozen=True, kw_only=True):
    """One GPU instance (MIG) with what can be told of it alone."""

    number: int
    """Number of the instance on its GPU (`GPU_I_ID`)."""
    profile: str
    """Name of its profile, such as 1g.10gb."""
    uuid: str = ""
    """UUID of its device; empty where it has none."""
    start: int = 0
    """First memory slice that it has."""
    size: int = 0
    """Number of its memory slices; 0: not known."""
    values: Mapping[str, float]


class GpuReading(Value, frozen=True, kw_only=True):
    """One GPU; without values where it does not answer."""

    index: int
    """Index of the GPU on its node, from 0."""
    uuid: str
    answering: Answering = Answering.YES
    pci: str = ""
    """Address on the PCI bus, as the driver writes it."""
    model: str = ""
    """Name of the product, as the driver writes it."""
    minor: int = 0
    """Number of its device file: /dev/nvidia0."""
    values: Mapping[str, float] = {}
    """By the names of telemetry/metrics.py."""
    instances: tuple[InstanceReading, ...] = ()
    processes: tuple[ProcessReading, ...] = ()


class NodeReading(Value, frozen=True, kw_only=True):
    """All GPUs of a node at one time."""

    at_ms: int
    """When it was read, Unix milliseconds."""
    driver: str = ""
    """Version of the driver."""
    gpus: tuple[GpuReading, ...] = ()


class DeviceInventory(Value, frozen=True, kw_only=True):
    """What the devices of a node are, as their driver knows them."""

    product: str
    """Name of the product, with dashes for spaces."""
    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...]
    """Those that answer, in order of index."""
    links: str = ""
    """Links between them, a character for each pair (cluster/node_links.py)."""
    clique: str = ""
    """NVLink domain that spans nodes, `<cluster>.<clique>`; empty: none."""


def mask_of(instance: InstanceReading) -> int:
    """Its memory slices, a bit each; 0: not known."""
    return ((1 << instance.size) - 1) << instance.start


def instance_percent(instance: InstanceReading) -> int | None:
    """How much of the time it computed, 0 to 100; None where nothing tells."""
    active = instance.values.get(ENGINE_ACTIVE)
    return None if active is None else _percent(100 * active)


def use_percent(gpu: GpuReading) -> int | None:
    """How much of the time it computed, 0 to 100; None where nothing tells.

    A board in MIG mode has no GPU_UTIL: GPM tells of the board, else of its instances.
    """
    if GPU_UTIL in gpu.values:
        return _percent(gpu.values[GPU_UTIL])
    if ENGINE_ACTIVE in gpu.values:
        return _percent(100 * gpu.values[ENGINE_ACTIVE])
    told = [one.values[ENGINE_ACTIVE] for one in gpu.instances if ENGINE_ACTIVE in one.values]
    return _percent(100 * max(told)) if told else None


def is_throttled(gpu: GpuReading) -> bool:
    """Whether heat, a power brake or hardware holds its clocks down; false where nothing tells."""
    return bool(int(gpu.values.get(CLOCK_REASONS, 0)) & THROTTLED_BITS)


def _percent(value: float) -> int:
    return min(100, max(0, round(value)))
