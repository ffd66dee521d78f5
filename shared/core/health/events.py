"""What a driver, a kernel log or an agent can tell of the health of a device."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

DETAIL_CHARACTERS_MAX: Final = 256
CODE_MAX: Final = 1 << 31
WHOLE_NODE: Final = -1
"""Index that stands for all GPUs of a node."""
NO_INSTANCE: Final = -1
"""Number of a GPU instance (MIG) that stands for the whole GPU."""


class HealthEventKind(StrEnum):
    """What happened; the meaning of `code` is told beside each."""

    XID = "xid"
    """The driver reported an error; `code` is the XID."""
    DOUBLE_BIT_ECC = "double-bit-ecc"
    """Uncorrectable errors of memory; `code` is their number since the driver was loaded."""
    SINGLE_BIT_ECC_STORM = "single-bit-ecc-storm"
    """Correctable errors of memory came faster than the driver tolerates."""
    ROW_REMAP_PENDING = "row-remap-pending"
    """A row of memory is replaced at the next reset; `code` 1 while it is so, then 0."""
    ROW_REMAP_FAILURE = "row-remap-failure"
    """A row of memory could not be replaced; `code` 1 while it is so, then 0."""
    RECOVERY_ACTION = "recovery-action"
    """The driver asks for an action; `code` is NVML's (field 230), 0 when none is due any more."""
    LOST = "lost"
    """The driver does not reach the device any more."""
    UNRESPONSIVE = "unresponsive"
    """The driver does not answer; of one GPU, or of the whole node."""
    RETURNED = "returned"
    """A device that was lost or unresponsive answers again."""
    BOOTED = "booted"
    """The machine was started, or its driver loaded, anew, `code` seconds ago: whatever was reset
    is reset."""
    HOT = "hot"
    """It is hot for minutes; `code` is its temperature, degrees Celsius."""
    OVERHEATED = "overheated"
    """It is at its slowdown threshold for long; `code` is its temperature, degrees Celsius."""
    THROTTLED = "throttled"
    """Heat or hardware slowed it down under load; `code` is the part of the last ten minutes,
    per cent."""
    THROTTLED_LONG = "throttled-long"
    """The same of the last thirty minutes."""
    PCIE_REPLAYS = "pcie-replays"
    """Its PCIe link repeats so many transfers that it is broken; `code`: within the hour."""
    NVLINK_ERRORS = "nvlink-errors"
    """Its NVLinks had errors of CRC or repeated transfers; `code` is how many were new."""
    NVLINK_FAILED = "nvlink-failed"
    """An NVLink could not be recovered; `code` is how often that was new."""
    FAN_STOPPED = "fan-stopped"
    """Its fan stands still while it is warm; `code` is its temperature, degrees Celsius."""
    CHECK_PASSED = "check-passed"
    """A check under load found nothing; `code` is how many seconds it took."""
    CHECK_FAILED = "check-failed"
    """A check under load failed; `code` is its exit code."""


def problem_of(*, gpu: int, instance: int, code: int, detail: str) -> str:
    """The first broken rule of an event, with the field; empty when there is none."""
    if gpu < WHOLE_NODE:
        return f"gpu: {gpu}, and it is an index from 0, or {WHOLE_NODE} for the whole node"
    if instance < NO_INSTANCE:
        return f"instance: {instance}, and it is a number from 0, or {NO_INSTANCE} for none"
    if not 0 <= code < CODE_MAX:
        return f"code: {code} is not from 0 to {CODE_MAX - 1}"
    if len(detail) > DETAIL_CHARACTERS_MAX:
        return f"detail: {len(detail)} characters, at most {DETAIL_CHARACTERS_MAX} are allowed"
    return ""
