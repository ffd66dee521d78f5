"""The faults, and what each asks of a simulated machine or tells of a real device.

A simulated machine obeys by HTTP (shared/simulator/fleet/routes.py). Of a real device only what
its driver would tell can be told: the signs that the ladder of health judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from shared.core.health.events import HealthEventKind

XID_DEFAULT: Final = 48
XID_OF_LINKS: Final = 74
CODE_MAX: Final = 999_999
SECONDS_MAX: Final = 86_400


class Fault(StrEnum):
    """What breaks, or heals."""

    XID = "xid"
    """The driver reports an error."""
    ECC = "ecc"
    """Uncorrectable errors of memory."""
    REMAP = "remap"
    """A row of memory cannot be replaced."""
    LOST = "lost"
    """The driver does not reach the GPU."""
    HANG = "hang"
    """The driver does not answer for the GPU."""
    NVLINK = "nvlink"
    """A link has errors, twice."""
    THERMAL = "thermal"
    """The GPU becomes hotter."""
    LEAK = "leak"
    """Free memory of the GPU falls."""
    RESET = "reset"
    """The GPU was reset: it returns."""
    SILENT = "silent"
    """No use of the node is reported."""
    NODE = "node"
    """The node goes down."""
    UP = "up"
    """The node comes back."""
    SPOT = "spot"
    """The node will be taken away in two minutes."""


ON_NODES: Final = frozenset({Fault.SILENT, Fault.NODE, Fault.UP, Fault.SPOT})
"""Faults of a whole node; the others are of one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault at one place."""

    fault: Fault
    node: str
    gpu: int = 0
    """Index of the GPU; without meaning for a fault of a whole node."""
    code: int = XID_DEFAULT
    """The XID; of `xid` alone."""
    for_s: int = 0
    """For how many seconds a node is silent; 0: until one of its GPUs is reset."""

    @property
    def place(self) -> str:
        """Where, in words."""
        if self.fault in ON_NODES:
            return f"node {self.node}"
        return f"GPU {self.gpu} of node {self.node}"

    @property
    def what(self) -> str:
        """What, in words."""
        return f"{self.fault.value} {self.code}" if self.fault is Fault.XID else self.fault.value


class Sign(NamedTuple):
    """What a driver tells of a device; what `code` means depends on the kind."""

    kind: HealthEventKind
    code: int = 0


class Call(NamedTuple):
    """A POST to the simulated fleet."""

    path: str
    query: dict[str, str]


_SIGNS: Final[dict[Fault, tuple[Sign, ...]]] = {
    Fault.ECC: (Sign(HealthEventKind.DOUBLE_BIT_ECC, 1),),
    Fault.REMAP: (Sign(HealthEventKind.ROW_REMAP_FAILURE, 1),),
    Fault.LOST: (Sign(HealthEventKind.LOST),),
    Fault.HANG: (Sign(HealthEventKind.UNRESPONSIVE),),
    # Twice: the ladder makes one alone a suspect, and drains after the second within a day.
    Fault.NVLINK: (Sign(HealthEventKind.XID, XID_OF_LINKS),) * 2,
    Fault.RESET: (Sign(HealthEventKind.RETURNED),),
}
_ACTIONS: Final = {Fault.NODE: "down", Fault.UP: "up", Fault.SPOT: "notice"}
SIGNS: Final = (Fault.XID, *_SIGNS)
"""Faults that a driver tells of, so that they can be told of a real device, too."""


def signs_of(strike: Strike) -> tuple[Sign, ...]:
    """What the driver tells, in order; nothing for a fault that is no sign."""
    if strike.fault is Fault.XID:
        return (Sign(HealthEventKind.XID, strike.code),)
    return _SIGNS.get(strike.fault, ())


def calls_of(strike: Strike) -> tuple[Call, ...]:
    """What is asked of the simulated fleet, in order."""
    node = f"/v1/nodes/{strike.node}"
    if strike.fault in _ACTIONS:
        return (Call(f"{node}/{_ACTIONS[strike.fault]}", {}),)
    if strike.fault is Fault.SILENT:
        return (Call(f"{node}/silent", {"seconds": str(strike.for_s)}),)
    gpu = f"{node}/gpus/{strike.gpu}"
    signs = signs_of(strike)
    if not signs:
        return (Call(f"{gpu}/{strike.fault.value}", {}),)
    return tuple(
        Call(f"{gpu}/tell", {"kind": one.kind.value, "code": str(one.code)}) for one in signs
    )
