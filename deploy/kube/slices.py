"""ResourceSlices as NVIDIA's DRA driver publishes them, for an H100 with 80 GB.

With partitionable devices each GPU has a counter set of its memory slices; every legal placement
of a MIG profile is a device that takes its slices from it, the whole GPU is one that takes all.
The API server wants counter sets in slices of their own (at most eight sets in one), and
at most 64 devices in a slice whose devices take counters.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from shared.core.model.mig.table import Profile
from shared.core.model.mig.tables import table_for

DRIVER: Final = "gpu.nvidia.com"
PRODUCT: Final = "NVIDIA H100 80GB HBM3"
MEMORY_MIB: Final = 81_559
DRIVER_VERSION: Final = "580.95.5"
MEMORY_SLICES: Final = 8
DEVICES_MAX: Final = 64
_INSTANCE_PROFILES: Final = {
    # NVML's ids of GPU instance profiles
    "1g.10gb": 19,
    "1g.10gb+me": 20,
    "1g.20gb": 15,
    "2g.20gb": 14,
    "3g.40gb": 9,
    "4g.40gb": 5,
    "7g.80gb": 0,
}


def whole_slice(node: str, uuids: Sequence[str]) -> dict[str, Any]:
    """The one slice of a node whose GPUs are handed out whole."""
    devices = [_whole(minor, uuid) for minor, uuid in enumerate(uuids)]
    return _slice(node, 0, 1, {"devices": devices})


def mig_slices(node: str, uuids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The slices of a node whose GPUs may be cut: the counters, then the devices."""
    devices = [device for minor, uuid in enumerate(uuids) for device in _devices(minor, uuid)]
    groups = [devices[at : at + DEVICES_MAX] for at in range(0, len(devices), DEVICES_MAX)]
    counters = [_counter_set(minor) for minor in range(len(uuids))]
    total = len(groups) + 1
    yield _slice(node, 0, total, {"sharedCounters": counters})
    for number, group in enumerate(groups, 1):
        yield _slice(node, number, total, {"devices": group})


def _slice(node: str, number: int, total: int, content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}-{number}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": total},
            **content,
        },
    }


def _devices(minor: int, uuid: str) -> Iterator[dict[str, Any]]:
    """The whole GPU and every legal (profile, start) on it."""
    everything = {_counter(place): {"value": "1"} for place in range(MEMORY_SLICES)}
    yield _whole(minor, uuid) | {"consumesCounters": [_consumes(minor, everything)]}
    table = table_for(PRODUCT, MEMORY_MIB)
    profiles = table.profiles if table else {}
    for name, instance in _INSTANCE_PROFILES.items():
        for start in profiles[name].starts:
            yield _placement(minor, uuid, profiles[name], instance, start)


def _placement(
    minor: int, uuid: str, profile: Profile, instance: int, start: int
) -> dict[str, Any]:
    name = profile.name
    taken = {_counter(place): {"value": "1"} for place in range(start, start + profile.size)}
    plain = name.replace(".", "").replace("+", "-")
    return {
        "name": f"gpu-{minor}-mig-{plain}-{instance}-{start}",
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": name},
            "parentUUID": {"string": uuid},
            **_attributes(minor),
        },
        "capacity": {
            "memory": {"value": f"{MEMORY_MIB * profile.size // MEMORY_SLICES}Mi"},
            "multiprocessors": {"value": str(16 * profile.compute)},
        },
        "consumesCounters": [_consumes(minor, taken)],
    }


def _whole(minor: int, uuid: str) -> dict[str, Any]:
    return {
        "name": f"gpu-{minor}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": uuid},
            **_attributes(minor),
        },
        "capacity": {"memory": {"value": f"{MEMORY_MIB}Mi"}},
    }


def _attributes(minor: int) -> dict[str, Any]:
    return {
        "productName": {"string": PRODUCT},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": DRIVER_VERSION},
        "cudaDriverVersion": {"version": "13.0.0"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{0x1B + 0x10 * minor:02x}:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{0x1A + 0x10 * minor:02x}"},
    }


def _counter_set(minor: int) -> dict[str, Any]:
    counters = {_counter(place): {"value": "1"} for place in range(MEMORY_SLICES)}
    return {"name": _set_name(minor), "counters": counters}


def _consumes(minor: int, counters: Mapping[str, Any]) -> dict[str, Any]:
    return {"counterSet": _set_name(minor), "counters": counters}


def _set_name(minor: int) -> str:
    return f"gpu-{minor}-counter-set"


def _counter(place: int) -> str:
    return f"memory-slice-{place}"
