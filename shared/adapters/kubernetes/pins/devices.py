"""The devices of a node by their names in ResourceSlices, and the one that a share stands for.

A GPU of the ledger has the minor number of its device as index (docs/adr/0069), so a whole GPU is
the device `gpu-<minor>`; a MIG placement is the device of its profile that begins at its first
memory slice. A share that is neither has no device of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import intern
from typing import Final, NamedTuple

import msgspec

from shared.adapters.kubernetes.nodes.objects import DeviceObject, SliceObject
from shared.adapters.kubernetes.nodes.reading import DRIVER, memory_slices
from shared.core.kubernetes.devices import minor_of, place_of
from shared.core.model.nouns import GpuShare
from shared.core.model.units import GPU_MILLI

WHOLE_CLASS: Final = "gpu.nvidia.com"
MIG_CLASS: Final = "mig.nvidia.com"
"""The device classes that NVIDIA's driver installs."""
EVERYTHING: Final = -1
"""The mask of a whole GPU: it takes whatever its GPU has."""


class DeviceName(msgspec.Struct, frozen=True, gc=False):
    """A device of a slice; `uuid` is empty for a MIG placement without an instance."""

    name: str
    uuid: str = ""
    profile: str = ""
    mask: int = EVERYTHING
    """A bit for each memory slice of its GPU that it takes."""


class SliceNames(msgspec.Struct, frozen=True, gc=False):
    """The devices of one slice."""

    node: str
    pool: str
    generation: int
    devices: tuple[DeviceName, ...]


class DeviceId(NamedTuple):
    """By what a claim names a device of the driver."""

    pool: str
    name: str


def read_names(found: SliceObject) -> SliceNames | None:
    """The slice; None of another driver, or of no node."""
    spec = found.spec
    if spec.driver != DRIVER or not spec.node_name:
        return None
    return SliceNames(
        node=intern(spec.node_name),
        pool=intern(spec.pool.name),
        generation=spec.pool.generation,
        devices=tuple(map(_named, spec.devices or ())),
    )


def _named(found: DeviceObject) -> DeviceName:
    uuid, profile = found.attributes.get("uuid"), found.attributes.get("profile")
    taken = sum(1 << place for place in memory_slices(found))
    return DeviceName(
        name=intern(found.name),
        uuid=uuid.string if uuid is not None else "",
        profile=intern(profile.string) if profile is not None else "",
        mask=(taken or mask_of(found.name)) if place_of(found.name) else EVERYTHING,
    )


def mask_of(name: str) -> int:
    """What a device takes of its GPU, as far as its name says it."""
    place = place_of(name)
    return EVERYTHING if place is None else 1 << place[1]


def newest(slices: Iterable[SliceNames]) -> dict[DeviceId, DeviceName]:
    """The devices of the last generation of each pool."""
    slices = list(slices)
    last: dict[str, int] = {}
    for one in slices:
        last[one.pool] = max(last.get(one.pool, 0), one.generation)
    return {
        DeviceId(one.pool, device.name): device
        for one in slices
        if one.generation == last[one.pool]
        for device in one.devices
    }


def has_devices(shares: Sequence[GpuShare], profile: str) -> bool:
    """Whether devices stand for them: whole GPUs, or instances of a MIG profile."""
    return bool(profile) or all(share.milli == GPU_MILLI for share in shares)


def devices_of_share(
    share: GpuShare, profile: str, devices: Iterable[tuple[DeviceId, DeviceName]]
) -> list[DeviceId]:
    """The devices that a share stands for: a whole GPU, or each instance that begins in it.

    A share holds all instances that a pod has of one GPU. Places of one profile never overlap, so
    whatever of it begins in the slices of the share is one of them. Empty: the node shows none.
    """
    found = []
    for place, device in devices:
        if minor_of(device.name) == share.index and device.profile == profile:
            begins = place_of(device.name)
            if begins is None or share.mask >> begins[1] & 1:
                found.append(place)
    return found
