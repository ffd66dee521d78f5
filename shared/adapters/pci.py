"""Which NUMA node a PCI device hangs on, as the kernel tells it in sysfs.

NVML's number of a NUMA node is something else: that of the GPU's own memory where the processor
maps it (Grace), not that of the processor beside the GPU, which other boards do not answer at all.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DEVICES: Final = Path("/sys/bus/pci/devices")
_address = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])").fullmatch


def numa_of(bus: str, devices: Path = DEVICES) -> int | None:
    """NUMA node of the device at `bus`, such as 00000000:1B:00.0; None where it is unknown.

    The kernel writes -1 where firmware does not tell, as on most machines with one socket.
    """
    found = _address(bus.lower())
    if found is None:
        return None
    # NVML writes eight digits of the domain, the kernel as few of at least four as it can.
    address = f"{int(found[1], 16):04x}:{found[2]}"
    try:
        node = int((devices / address / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
