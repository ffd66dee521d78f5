"""Ready-made machines for the stand-in: values as real boards give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.support.nvml.stand_in import State

EVENT_TYPES: Final = 65_439
"""As an H200 with driver 580 supports them."""
OLD_EVENT_TYPES: Final = 0x1F
UNSIGNED: Final = 1
"""Type of a field whose value has 32 bits; others have 64."""
FIELDS: Final = {
    3: 0, 4: 0, 5: 2, 6: 0, 74: 5_000, 75: 0, 82: 52, 83: 9_000_000, 94: 1, 142: 0, 143: 0,
    144: 0, 145: 0, 197: 1 << 34, 198: 1 << 33, 230: 0,
}  # fmt: skip
LINK_FIELDS: Final = (38, 45, 52, 59, 138, 139)
OLD_FIELDS: Final = (3, 4, 5, 6, 83, 94)
SMALL_FIELDS: Final = (82, 94, 142, 143, 144, 145, 230)
GPM: Final = {
    1: 50, 2: 40, 3: 20, 5: 30, 10: 15, 11: 0, 12: 5, 13: 10, 20: 2, 21: 3, 60: 100, 61: 120,
}  # fmt: skip


class Slicing(NamedTuple):
    """Sizes of a board's slices: names in GB, real memory in MiB, processors."""

    gigabytes: tuple[int, int, int, int]
    mebibytes: tuple[int, int, int, int]
    processors: tuple[int, int, int, int, int]
    """Of 1, 2, 3, 4 and 7 compute slices."""


OF_A100: Final = Slicing((10, 20, 40, 80), (9_856, 19_968, 40_192, 80_384), (14, 28, 42, 56, 98))
OF_H100: Final = Slicing((10, 20, 40, 80), (9_984, 20_096, 40_448, 80_896), (16, 32, 60, 64, 132))
_NUMBERS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_PROFILES: Final = (
    (0, 19, 1, 1, 7, "0 1 2 3 4 5 6", ""),
    (7, 20, 1, 1, 1, "0 1 2 3 4 5 6", "+me"),
    (9, 15, 1, 2, 4, "0 2 4 6", ""),
    (1, 14, 2, 2, 3, "0 2 4", ""),
    (2, 9, 3, 4, 2, "0 4", ""),
    (3, 5, 4, 4, 1, "0", ""),
    (4, 0, 7, 8, 1, "0", ""),
)
"""Number, id, compute slices, memory slices, most of them, starts, end of the name: boards of
eight slices (mig-and-telemetry 1a)."""
_SIZES: Final = (1, 2, 4, 8)


def machine(count: int, board: State, *, driver: str = "580.159.04", cuda: int = 13_000) -> State:
    """`count` GPUs that are alike but for their UUIDs, serial numbers and addresses."""
    state: State = {"driver": driver, "nvml": f"13.{driver}", "cuda": cuda, "count": count}
    for gpu in range(count):
        own = {
            "uuid": f"GPU-{gpu:08x}",
            "serial": f"16500240000{gpu:02}",
            "pci": f"00000000:{gpu + 1:02X}:00.0",
            "minor": gpu,
        }
        state |= {f"gpu.{gpu}.{key}": value for key, value in (board | own).items()}
    return state


def _common(name: str, memory_mib: int) -> State:
    return {
        "name": name,
        "memory_mib": memory_mib,
        "reserved_mib": 600,
        "used_mib": 1_000,
        "temperature": 45,
        "power_mw": 300_500,
        "power_limit_mw": 700_000,
        "reasons": 4,
        "clock.1": 1_500,
        "clock.2": 2_600,
        "threshold.0": 92,
        "threshold.1": 89,
        "pcie_gen": 5,
        "pcie_width": 16,
        "pcie_gen_max": 5,
        "pcie_width_max": 16,
        "numa": 1,
        "ancestor": 20,
        "ecc": 1,
        "event_types": EVENT_TYPES,
    }


def fields(numbers: Sequence[int]) -> State:
    """Values of these fields, each with its type where it has 32 bits."""
    told: State = {f"field.{one}": FIELDS.get(one, 1_024) for one in numbers}
    return told | {f"field.{one}.type": UNSIGNED for one in numbers if one in SMALL_FIELDS}


def profiles(slicing: Slicing) -> State:
    """Profiles of a board of eight slices with the places at which each may begin."""
    state: State = {}
    for number, identity, slices, size, most, starts, end in _PROFILES:
        at = _SIZES.index(size)
        of_profile = {
            "id": identity,
            "slices": slices,
            "size": size,
            "max": most,
            "starts": starts,
            "name": f"{slices}g.{slicing.gigabytes[at]}gb{end}",
            "memory_mib": slicing.mebibytes[at],
            "processors": slicing.processors[_NUMBERS[slices]],
            "copy": slices,
            "decoders": slices if slices > 1 or end else 0,
        }
        state |= {f"profile.{number}.{key}": value for key, value in of_profile.items()}
    return state


def _large(name: str, memory_mib: int, slicing: Slicing, links: int) -> State:
    state = _common(name, memory_mib) | {"util": 40, "util_mem": 20, "encoder": 0, "decoder": 0}
    state |= {"links": links, "margin": 44, "mig_mode": 0, "mig_devices_max": 7}
    return state | fields((*FIELDS, *LINK_FIELDS)) | profiles(slicing)


def a100() -> State:
    """Eight A100 with 80 GB on a switch: no GPM, and a change of MIG mode waits for a reset."""
    board = _large("NVIDIA A100-SXM4-80GB", 81_920, OF_A100, 12) | {"gpm": 0, "mig_needs_reset": 1}
    board |= {"pci_id": 0x20B2_10DE, "pcie_gen": 4, "pcie_gen_max": 4, "power_limit_mw": 400_000}
    return machine(8, board)


def h100() -> State:
    """Eight H100 on a switch."""
    return machine(8, _h100()) | {"clique": 0}


def h100_mig(instances: Sequence[tuple[int, int, int]] = ((3, 14, 0), (5, 14, 4))) -> State:
    """Two H100; the second is in MIG mode with instances, each a number, a profile id, a start."""
    state = machine(2, _h100())
    for key in ("util", "util_mem", "encoder", "decoder"):
        del state[f"gpu.1.{key}"]
    state["gpu.1.mig_mode"] = 1
    for at, (number, profile, start) in enumerate(instances):
        own = {"profile": profile, "id": number, "start": start, "uuid": f"MIG-{number}"}
        own |= {"used_mib": 100 * number, "gpm.1": 10 * number, "gpm.5": number, "gpm.10": 5}
        state |= {f"gpu.1.mig.{at}.{key}": value for key, value in own.items()}
    return state


def t4() -> State:
    """One T4 with an old driver: no MIG, no NVLink, no GPM, no remapped rows."""
    board = _common("Tesla T4", 15_360) | {"util": 10, "util_mem": 5, "encoder": 0, "decoder": 0}
    board |= {"event_types": OLD_EVENT_TYPES, "pcie_gen": 3, "pcie_gen_max": 3, "power_mw": 30_500}
    board |= {"power_limit_mw": 70_000, "pci_id": 0x1EB8_10DE} | fields(OLD_FIELDS)
    return machine(1, board, driver="470.57.02", cuda=11_040) | {"old": 1}


def _h100() -> State:
    gpm = {"gpm": 1} | {f"gpm.{one}": value for one, value in GPM.items()}
    board = _large("NVIDIA H100 80GB HBM3", 81_559, OF_H100, 18)
    return board | gpm | {"pci_id": 0x2330_10DE}
