"""Ready-made machines for the stand-in: values as real boards give them."""

from __future__ import annotations

from typing import Final

from tests.support.nvml.stand_in import State

EVENT_TYPES: Final = 65_439
"""As an H200 with driver 580 supports them."""
_PROFILES: Final = (
    (0, 19, 1, 1, "0 1 2 3 4 5 6", "1g.{0}gb"),
    (1, 14, 2, 2, "0 2 4", "2g.{1}gb"),
    (2, 9, 3, 4, "0 4", "3g.{2}gb"),
    (3, 5, 4, 4, "0", "4g.{2}gb"),
    (4, 0, 7, 8, "0", "7g.{3}gb"),
)
"""(number, id, compute slices, memory slices, starts, name) on boards of eight slices."""
_FIELDS: Final = {
    3: 0, 4: 0, 5: 2, 6: 0, 74: 5_000, 75: 0, 82: 52, 83: 9_000_000, 94: 1, 142: 0, 143: 0,
    144: 0, 145: 0, 230: 0,
}  # fmt: skip
_GPM: Final = {1: 50, 2: 40, 3: 20, 5: 30, 10: 15, 11: 0, 12: 5, 13: 10, 20: 2, 21: 3}


def machine(count: int, board: State, *, driver: str = "580.159.04", cuda: int = 13_000) -> State:
    """`count` GPUs that are alike but for their UUIDs and addresses."""
    state: State = {"driver": driver, "cuda": cuda, "count": count}
    for gpu in range(count):
        own = {"uuid": f"GPU-{gpu:08x}", "pci": f"00000000:{gpu + 1:02X}:00.0", "minor": gpu}
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
        "threshold.1": 89,
        "pcie_gen": 5,
        "pcie_width": 16,
        "pcie_gen_max": 5,
        "pcie_width_max": 16,
        "numa": 1,
        "ancestor": 20,
        "event_types": EVENT_TYPES,
    }


def _large(name: str, memory_mib: int, sizes: tuple[int, int, int, int]) -> State:
    state = _common(name, memory_mib) | {"util": 40, "util_mem": 20, "encoder": 0, "decoder": 0}
    state |= {"links": 18, "mig_mode": 0, "mig_devices_max": 0}
    state |= {f"field.{one}": value for one, value in _FIELDS.items()}
    state |= {f"field.{one}": 1_024 for one in (38, 45, 52, 59, 138, 139)}
    for number, identity, slices, size, starts, text in _PROFILES:
        of_profile = {"id": identity, "slices": slices, "size": size, "starts": starts}
        of_profile["name"] = text.format(*sizes)
        state |= {f"profile.{number}.{key}": value for key, value in of_profile.items()}
    return state


def a100() -> State:
    """Eight A100 with 80 GB on a switch: no GPM."""
    return machine(8, _large("NVIDIA A100-SXM4-80GB", 81_920, (10, 20, 40, 80)))


def h100() -> State:
    """Eight H100 on a switch."""
    return machine(8, _h100())


def h100_mig() -> State:
    """Two H100; the second is in MIG mode and has two instances."""
    state = machine(2, _h100())
    for key in ("util", "util_mem", "encoder", "decoder"):
        del state[f"gpu.1.{key}"]
    state |= {"gpu.1.mig_mode": 1, "gpu.1.mig_devices_max": 7}
    for at, (number, start) in enumerate(((3, 0), (5, 4))):
        own = {"profile": 14, "id": number, "start": start, "size": 2, "uuid": f"MIG-{number}"}
        own |= {"memory_mib": 20_000, "used_mib": 100 * number, "gpm.1": 10 * number}
        state |= {f"gpu.1.mig.{at}.{key}": value for key, value in own.items()}
    return state


def t4() -> State:
    """One T4 with an old driver: no MIG, no NVLink, no GPM, no remapped rows."""
    board = _common("Tesla T4", 15_360) | {"util": 10, "util_mem": 5, "event_types": 0x1F}
    board |= {f"field.{one}": value for one, value in _FIELDS.items() if one in (3, 4, 5, 6, 83)}
    return machine(1, board, driver="470.57.02", cuda=11_040) | {"old": 1}


def _h100() -> State:
    gpm = {"gpm": 1} | {f"gpm.{one}": value for one, value in _GPM.items()}
    return _large("NVIDIA H100 80GB HBM3", 81_559, (10, 20, 40, 80)) | gpm
