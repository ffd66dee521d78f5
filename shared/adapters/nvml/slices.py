"""MIG of one GPU: where instances can be made, which there are, and the change of its mode.

Positions are asked whether or not MIG is on; names are the driver's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from shared.adapters.nvml.library import Library, text
from shared.core.model.nouns import MigInstance, MigPlacements

ROOM: Final = 32
"""Entries of an array that NVML fills; a board has at most eight slices."""


class FoundInstance(NamedTuple):
    """A GPU instance that exists now."""

    number: int
    """Its number on the GPU (`GPU_I_ID`)."""
    placed: MigInstance


def placements_of(library: Library, handle: Any) -> tuple[MigPlacements, ...]:  # noqa: ANN401
    """Profiles of the board with the slices at which each may begin."""
    numbers = range(library.nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
    found = (library.ask(lambda: _placement(library.nvml, handle, one), None) for one in numbers)  # noqa: B023  # called at once
    return tuple(one for one in found if one is not None and one.starts)


def _placement(nvml: Any, handle: Any, number: int) -> MigPlacements | None:  # noqa: ANN401
    profile = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
    places = (nvml.c_nvmlGpuInstancePlacement_t * ROOM)()
    count = ctypes.c_uint(ROOM)
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        handle, profile.id, places, ctypes.byref(count)
    )
    told = places[: count.value]
    return MigPlacements(
        profile=text(profile.name).removeprefix("MIG "),
        compute=int(profile.sliceCount),
        size=int(told[0].size) if told else 0,
        starts=tuple(sorted(int(one.start) for one in told)),
        profile_id=int(profile.id),
    )


def instances_of(
    library: Library,
    handle: Any,  # noqa: ANN401
    placements: tuple[MigPlacements, ...],
) -> tuple[FoundInstance, ...]:
    """GPU instances that exist, by their first slice."""
    found = [one for each in placements for one in _of_profile(library.nvml, handle, each)]
    return tuple(sorted(found, key=lambda one: one.placed.start))


def _of_profile(nvml: Any, handle: Any, profile: MigPlacements) -> Iterator[FoundInstance]:  # noqa: ANN401
    instances = (nvml.c_nvmlGpuInstance_t * ROOM)()
    count = ctypes.c_uint(ROOM)
    with suppress(nvml.NVMLError):
        nvml.nvmlDeviceGetGpuInstances(handle, profile.profile_id, instances, ctypes.byref(count))
        for instance in instances[: count.value]:
            told = nvml.nvmlGpuInstanceGetInfo(instance)
            start, size = int(told.placement.start), int(told.placement.size)
            placed = MigInstance(profile=profile.profile, start=start, size=size)
            yield FoundInstance(int(getattr(told, "id", 0)), placed)


def set_mig(library: Library, handle: Any, *, mig: bool) -> str:  # noqa: ANN401
    """Change the mode of an idle GPU; returns what prevented it, empty if nothing did.

    NVML says so, too, when the new mode waits for a reset, as on Ampere: that is not done here.
    """
    nvml = library.nvml
    if library.ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle), []):
        return "processes run on the GPU"
    try:
        status = nvml.nvmlDeviceSetMigMode(handle, int(mig))
    except nvml.NVMLError as error:
        return str(error)
    if status or library.mig(handle) != mig:
        return "the new mode begins with the next reset of the GPU"
    return ""
