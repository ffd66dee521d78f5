"""The GPUs of a node with devices told by ResourceSlices of NVIDIA's DRA driver.

A GPU is the device `gpu-<minor>`; the minor number is its index in the ledger, because it stays
the same when another GPU of the node is lost. Parts of a GPU (MIG) come in two ways: an instance
that exists has a UUID, a placement that may be made has none. A node is in MIG mode where its
instances exist, or where its placements are told and its label says that MIG is used.

A pool that its driver is writing anew is incomplete for a moment: nothing is said of it then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from shared.core.model.mig import reported as mig_reported
from shared.core.model.nouns import Gpu, MigInstance, MigPlacements
from shared.core.model.value import Value

_GPU_NAME: Final = re.compile(r"gpu-([0-9]{1,4})")
_PART_NAME: Final = re.compile(r"gpu-([0-9]{1,4})-mig-.+-([0-9]+)-([0-9]+)")
_COMPUTE: Final = re.compile(r"([0-9]+)g\.")
BOARDS_MAX: Final = 256


class WholeGpu(Value, frozen=True, kw_only=True):
    """A device of type gpu."""

    minor: int
    uuid: str
    product: str = ""
    memory_mib: int = 0
    driver: str = ""
    cuda: str = ""
    pci: str = ""
    healthy: bool = True
    """False while a taint of the device keeps new work away."""


class MigPart(Value, frozen=True, kw_only=True):
    """A device of type mig: an instance, or (without `uuid`) a place where one may be made."""

    minor: int
    parent_uuid: str
    profile: str
    profile_id: int
    start: int
    size: int
    """Memory slices that it takes, from `start` on."""
    uuid: str = ""
    product: str = ""
    driver: str = ""
    cuda: str = ""
    healthy: bool = True


class DeviceSlice(Value, frozen=True, kw_only=True):
    """One of the `total` slices of a pool; a pool has several while it is written anew."""

    node: str
    pool: str
    generation: int
    total: int
    gpus: tuple[WholeGpu, ...] = ()
    parts: tuple[MigPart, ...] = ()


class Devices(Value, frozen=True, kw_only=True):
    """All that the slices of a node tell of its GPUs."""

    gpus: tuple[Gpu, ...]
    product: str = ""
    driver: str = ""
    cuda: str = ""


NO_DEVICES: Final = Devices(gpus=())


def minor_of(device: str) -> int | None:
    """The minor number of the GPU that a device is, or is part of; None of another device."""
    found = _GPU_NAME.fullmatch(device) or _PART_NAME.fullmatch(device)
    return int(found[1]) if found else None


def place_of(device: str) -> tuple[int, int] | None:
    """NVML's number of the profile, and the first memory slice, in the name of a MIG device."""
    found = _PART_NAME.fullmatch(device)
    return (int(found[2]), int(found[3])) if found else None


def devices_of(
    slices: Iterable[DeviceSlice], *, uses_mig: bool, memory_mib: int, taken: frozenset[int]
) -> Devices | None:
    """The GPUs of one node; None while a pool is incomplete.

    `uses_mig`: whether GPUs with told placements are in MIG mode. `memory_mib`: of a GPU if its
    slices do not tell it. `taken`: minor numbers of GPUs that pods of others hold.
    """
    newest = _newest(slices)
    if newest is None:
        return None
    wholes = {one.minor: one for each in newest for one in each.gpus}
    parts: dict[int, list[MigPart]] = {}
    for part in (part for each in newest for part in each.parts):
        parts.setdefault(part.minor, []).append(part)
    minors = sorted({*wholes, *parts})
    gpus = tuple(
        _gpu(
            minor,
            wholes.get(minor),
            parts.get(minor, []),
            uses_mig=uses_mig,
            memory_mib=memory_mib,
            free=minor not in taken,
        )
        for minor in minors
    )
    first = _first_told(minors, wholes, parts)
    if first is None:
        return NO_DEVICES
    product = first.product.replace(" ", "-")
    return Devices(gpus=gpus, product=product, driver=first.driver, cuda=first.cuda)


def _newest(slices: Iterable[DeviceSlice]) -> list[DeviceSlice] | None:
    """Those of the last generation of each pool; None if one of them is missing."""
    pools: dict[str, list[DeviceSlice]] = {}
    for one in slices:
        known = pools.setdefault(one.pool, [])
        if known and known[0].generation < one.generation:
            known.clear()
        if not known or known[0].generation == one.generation:
            known.append(one)
    if any(len(known) != known[0].total for known in pools.values()):
        return None
    return [one for known in pools.values() for one in known]


def _first_told(
    minors: Sequence[int], wholes: Mapping[int, WholeGpu], parts: Mapping[int, Sequence[MigPart]]
) -> WholeGpu | MigPart | None:
    if not minors:
        return None
    return wholes.get(minors[0]) or parts[minors[0]][0]


def _gpu(
    minor: int,
    whole: WholeGpu | None,
    parts: Sequence[MigPart],
    *,
    uses_mig: bool,
    memory_mib: int,
    free: bool,
) -> Gpu:
    instances = tuple(
        MigInstance(profile=one.profile, start=one.start, size=one.size, uuid=one.uuid)
        for one in sorted(parts, key=lambda part: part.start)
        if one.uuid
    )
    placements = _placements(
        tuple(
            sorted(
                (one.profile, one.profile_id, one.size, one.start)
                for one in parts
                if not one.uuid and one.size
            )
        )
    )
    return Gpu(
        index=minor,
        uuid=whole.uuid if whole else parts[0].parent_uuid,
        memory_mib=(whole.memory_mib if whole else 0) or memory_mib,
        pci=whole.pci if whole else "",
        mig=bool(instances) or (bool(placements) and uses_mig),
        healthy=free and (whole.healthy if whole else all(one.healthy for one in parts)),
        mig_placements=placements,
        mig_instances=instances,
    )


@lru_cache(BOARDS_MAX)
def _placements(places: tuple[tuple[str, int, int, int], ...]) -> tuple[MigPlacements, ...]:
    """Where each profile may begin; nothing where the driver tells what cannot be.

    Boards of one product are alike, so one tuple serves all of them.
    """
    starts: dict[tuple[str, int, int], list[int]] = {}
    for profile, profile_id, size, start in places:
        starts.setdefault((profile, profile_id, size), []).append(start)
    found = tuple(
        MigPlacements(
            profile=profile,
            compute=int(compute[1]),
            size=size,
            starts=tuple(begins),
            profile_id=profile_id,
        )
        for (profile, profile_id, size), begins in starts.items()
        if (compute := _COMPUTE.match(profile))
    )
    return () if mig_reported.problem_of(found) else found
