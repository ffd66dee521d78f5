"""How a device is, by the ladder: its state, and what speaks against it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shared.core.health.events import NO_INSTANCE, HealthEventKind
from shared.core.model.value import Value

EVIDENCE_MAX: Final = 16
"""Signs kept of one device; the oldest are forgotten."""


class DeviceState(StrEnum):
    """A step of the ladder."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    """Something speaks against it; it takes work."""
    DRAINING = "draining"
    """It takes nothing new, and what runs there is stopped."""
    QUARANTINED = "quarantined"
    """Nothing runs there, until a reset is seen."""
    PROBATION = "probation"
    """It was reset, and takes nothing before it has proved itself."""
    LOST = "lost"
    """The driver does not reach it."""
    FAILED = "failed"
    """Only an operator brings it back."""


_TEXTS: Final = {
    HealthEventKind.XID: "XID {code}",
    HealthEventKind.HOT: "it is hot, {code} C",
    HealthEventKind.OVERHEATED: "it is at its slowdown threshold for minutes, {code} C",
    HealthEventKind.THROTTLED: "it was slowed down for {code} % of ten minutes",
    HealthEventKind.THROTTLED_LONG: "it was slowed down for {code} % of thirty minutes",
    HealthEventKind.PCIE_REPLAYS: "its PCIe link repeated {code} transfers within an hour",
    HealthEventKind.NVLINK_ERRORS: "its NVLinks had {code} errors",
    HealthEventKind.NVLINK_FAILED: "an NVLink of it could not be recovered",
    HealthEventKind.FAN_STOPPED: "its fan stands still at {code} C",
    HealthEventKind.CHECK_PASSED: "its check passed in {code} s",
    HealthEventKind.CHECK_FAILED: "its check failed with exit code {code}",
}
TAKES_WORK: Final = frozenset({DeviceState.HEALTHY, DeviceState.SUSPECT})
OUT_OF_SERVICE: Final = frozenset({DeviceState.QUARANTINED, DeviceState.LOST, DeviceState.FAILED})
"""Nothing runs there, and nothing will before something is done about it."""


class Sign(Value, frozen=True, kw_only=True):
    """Something that was told of a device."""

    kind: HealthEventKind
    at_ms: int
    """When it was taken notice of, Unix milliseconds."""
    code: int = 0
    instance: int = NO_INSTANCE
    mask: int = 0
    """Memory slices of that instance, a bit each; 0: not known."""
    detail: str = ""
    holders: tuple[tuple[str, str], ...] = ()
    """(team, workload) of what held some of the device then."""

    @property
    def text(self) -> str:
        """What it is, for people: "XID 79"."""
        return _TEXTS.get(self.kind, self.kind.value).format(code=self.code)


class DeviceHealth(Value, frozen=True, kw_only=True):
    """One device on the ladder; a healthy one of which nothing is known has no such record."""

    node: str
    gpu: int
    uuid: str = ""
    state: DeviceState = DeviceState.HEALTHY
    rule: str = ""
    """The rule by which it came to its state; empty: none did."""
    since_ms: int = 0
    until_ms: int = 0
    """When it leaves its state by itself; 0: never."""
    fails: bool = False
    """Whether it is out of service for good once it is drained."""
    signs: tuple[Sign, ...] = ()
    """The evidence, the oldest first."""
    quarantines_ms: tuple[int, ...] = ()
    """When it was quarantined, the last times."""
