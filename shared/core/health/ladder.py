"""The ladder that a device goes down, and up again: what a sign means, and what follows.

Order of authority: the driver's recovery action, then the XID's class. A device that was drained
comes back only after a reset was seen, and stays on probation without work until a check under
load passed or, where none is made, for a time; the third quarantine in a week is the last (ADRs
88, 89). Nothing here resets anything: Muster says what is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from shared.core.health.device import EVIDENCE_MAX, OUT_OF_SERVICE, DeviceHealth, DeviceState, Sign
from shared.core.health.events import HealthEventKind as Kind
from shared.core.health.xid import NO_OVERRIDES, XidClass, class_of
from shared.core.model.value import Value, replace

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
QUARANTINES_MAX: Final = 3
APP_WORKLOADS_MIN: Final = 3
APP_TEAMS_MIN: Final = 2
"""So many workloads of so many teams with errors of their own in a day: it is the GPU."""


class LadderLimits(Value, frozen=True, kw_only=True):
    """Times of the ladder."""

    suspect_ms: int = DAY_MS
    """For how long a device without another sign is suspect."""
    probation_ms: int = HOUR_MS // 2
    """For how long a device that was reset takes no work."""
    flapping_ms: int = 7 * DAY_MS
    """Three quarantines within this time are the last."""


DEFAULT_LIMITS: Final = LadderLimits()


class Remedy(StrEnum):
    """What a sign asks for."""

    NOTE = "note"
    SUSPECT = "suspect"
    DRAIN_SLICE = "drain-slice"
    """What runs on one GPU instance (MIG) is stopped; the GPU is suspect."""
    DRAIN = "drain"
    DRAIN_AT_ONCE = "drain-at-once"
    """Without grace: what is computed there may be wrong."""
    DRAIN_NODE = "drain-node"
    FAIL = "fail"
    LOSE = "lose"
    RESET_SEEN = "reset-seen"
    PROVE = "prove"
    """It is fit: a check under load passed."""
    REFUSE = "refuse"
    """It is not: a check under load failed."""


DRAINS: Final = frozenset(
    {Remedy.DRAIN, Remedy.DRAIN_AT_ONCE, Remedy.DRAIN_NODE, Remedy.FAIL, Remedy.LOSE}
)
"""Remedies that stop what runs on the device."""
_SUSPECTS: Final = frozenset({Remedy.SUSPECT, Remedy.DRAIN_SLICE})
_RETURNS: Final = frozenset({Remedy.RESET_SEEN, Remedy.PROVE, Remedy.REFUSE})
_OUT: Final = OUT_OF_SERVICE | {DeviceState.DRAINING}
_OF_CLASS: Final = {
    XidClass.NOTE: Remedy.NOTE,
    XidClass.APP: Remedy.NOTE,
    XidClass.FOLLOW: Remedy.NOTE,
    XidClass.SLICE: Remedy.DRAIN_SLICE,
    XidClass.LINK: Remedy.SUSPECT,
    XidClass.RESET: Remedy.DRAIN,
    XidClass.CHECK: Remedy.DRAIN,
    XidClass.MEMORY: Remedy.DRAIN_AT_ONCE,
    XidClass.NODE: Remedy.DRAIN_NODE,
}
_OF_KIND: Final = {
    Kind.DOUBLE_BIT_ECC: Remedy.DRAIN_AT_ONCE,
    Kind.SINGLE_BIT_ECC_STORM: Remedy.SUSPECT,
    Kind.LOST: Remedy.LOSE,
    Kind.UNRESPONSIVE: Remedy.SUSPECT,
    Kind.RETURNED: Remedy.RESET_SEEN,
    Kind.BOOTED: Remedy.RESET_SEEN,
    Kind.HOT: Remedy.SUSPECT,
    Kind.OVERHEATED: Remedy.DRAIN,
    Kind.THROTTLED: Remedy.SUSPECT,
    Kind.THROTTLED_LONG: Remedy.DRAIN,
    Kind.PCIE_REPLAYS: Remedy.DRAIN,
    Kind.NVLINK_ERRORS: Remedy.SUSPECT,
    Kind.NVLINK_FAILED: Remedy.DRAIN,
    Kind.FAN_STOPPED: Remedy.SUSPECT,
    Kind.CHECK_PASSED: Remedy.PROVE,
    Kind.CHECK_FAILED: Remedy.REFUSE,
}
SECOND_GPU_MS: Final = 600_000
"""Two GPUs of a node that go out within this time: it is the node."""
_OF_ACTION: Final = {
    0: Remedy.RESET_SEEN,
    1: Remedy.DRAIN,
    2: Remedy.DRAIN_NODE,
    3: Remedy.DRAIN,
    4: Remedy.DRAIN,
    5: Remedy.SUSPECT,
    6: Remedy.DRAIN,
    7: Remedy.DRAIN_NODE,
}
"""By NVML's recovery action: none, reset, reboot, drain P2P, drain and reset, recover the IMEX
domain, bus reset, system reboot."""


class LadderVerdict(Value, frozen=True, kw_only=True):
    """What a sign asks for, and by which rule."""

    remedy: Remedy
    rule: str


def verdict_of(
    known: DeviceHealth, sign: Sign, overrides: Mapping[int, XidClass] = NO_OVERRIDES
) -> LadderVerdict:
    """What `sign` asks for, given what else is known of the device. O(signs kept)."""
    if sign.kind is Kind.XID:
        return _of_xid(known, sign, overrides)
    rule = sign.kind.value
    if sign.kind is Kind.RECOVERY_ACTION:
        remedy = _OF_ACTION.get(sign.code, Remedy.DRAIN)
        return LadderVerdict(remedy=remedy, rule=f"{rule}-{sign.code}")
    if sign.kind is Kind.ROW_REMAP_PENDING:
        return LadderVerdict(remedy=Remedy.SUSPECT if sign.code else Remedy.NOTE, rule=rule)
    if sign.kind is Kind.ROW_REMAP_FAILURE:
        return LadderVerdict(remedy=Remedy.FAIL if sign.code else Remedy.NOTE, rule=rule)
    return LadderVerdict(remedy=_OF_KIND[sign.kind], rule=rule)


def is_of_node(verdict: LadderVerdict, others: Iterable[DeviceHealth], now_ms: int) -> bool:
    """Whether a verdict concerns the whole node: by its rule, or as another GPU just went out.

    `others`: what is known of the other GPUs of the node. O(those).
    """
    if verdict.remedy is Remedy.DRAIN_NODE:
        return True
    out = (one for one in others if one.state in _OUT)
    return verdict.remedy in DRAINS and any(now_ms - one.since_ms < SECOND_GPU_MS for one in out)


def _of_xid(known: DeviceHealth, sign: Sign, overrides: Mapping[int, XidClass]) -> LadderVerdict:
    kind = class_of(sign.code, sign.instance, overrides)
    rule = f"xid-{kind.value}"
    same = [
        one
        for one in (*known.signs, sign)
        if one.kind is Kind.XID
        and class_of(one.code, one.instance, overrides) is kind
        and sign.at_ms - one.at_ms < DAY_MS
    ]
    if kind is XidClass.LINK and len(same) > 1:
        return LadderVerdict(remedy=Remedy.DRAIN, rule="xid-link-again")
    if kind is XidClass.APP:
        held = {holder for one in same for holder in one.holders}
        if (
            len({workload for _, workload in held}) >= APP_WORKLOADS_MIN
            and len({team for team, _ in held}) >= APP_TEAMS_MIN
        ):
            return LadderVerdict(remedy=Remedy.DRAIN, rule="xid-app-of-many")
    return LadderVerdict(remedy=_OF_CLASS[kind], rule=rule)


def noted(known: DeviceHealth, sign: Sign) -> DeviceHealth:
    """The device with one more sign."""
    return replace(known, signs=(*known.signs, sign)[-EVIDENCE_MAX:])


def follow(
    known: DeviceHealth, verdict: LadderVerdict, now_ms: int, limits: LadderLimits = DEFAULT_LIMITS
) -> DeviceHealth:
    """The device after a verdict; the same where it asks for no other state."""
    state, remedy = known.state, verdict.remedy
    if remedy in _SUSPECTS and state in {DeviceState.HEALTHY, DeviceState.SUSPECT}:
        return _become(known, DeviceState.SUSPECT, verdict.rule, now_ms, limits.suspect_ms)
    if remedy is Remedy.LOSE and state not in {DeviceState.LOST, DeviceState.FAILED}:
        return _become(known, DeviceState.LOST, verdict.rule, now_ms)
    if remedy in _RETURNS:
        return _return(known, verdict, now_ms, limits)
    drains = remedy in DRAINS and remedy is not Remedy.LOSE
    if drains and state in {DeviceState.HEALTHY, DeviceState.SUSPECT, DeviceState.PROBATION}:
        draining = _become(known, DeviceState.DRAINING, verdict.rule, now_ms)
        return replace(draining, fails=remedy is Remedy.FAIL)
    return _fail(known, verdict.rule, now_ms) if remedy is Remedy.FAIL else known


def _return(
    known: DeviceHealth, verdict: LadderVerdict, now_ms: int, limits: LadderLimits
) -> DeviceHealth:
    """The way back: a reset was seen, then a check passed, or failed."""
    state, remedy = known.state, verdict.remedy
    if remedy is Remedy.RESET_SEEN and state in {DeviceState.QUARANTINED, DeviceState.LOST}:
        return _become(known, DeviceState.PROBATION, verdict.rule, now_ms, limits.probation_ms)
    if state is DeviceState.PROBATION and remedy is Remedy.PROVE:
        return _become(known, DeviceState.HEALTHY, verdict.rule, now_ms)
    if state is DeviceState.PROBATION and remedy is Remedy.REFUSE:
        return drained(replace(known, rule=verdict.rule), now_ms, limits)
    return known


def _fail(known: DeviceHealth, rule: str, now_ms: int) -> DeviceHealth:
    """A device that is out already is out for good: at once, or when it is drained."""
    if known.state is DeviceState.DRAINING:
        return replace(known, rule=rule, fails=True)
    if known.state is DeviceState.QUARANTINED:
        return _become(known, DeviceState.FAILED, rule, now_ms)
    return known


def drained(
    known: DeviceHealth, now_ms: int, limits: LadderLimits = DEFAULT_LIMITS
) -> DeviceHealth:
    """Nothing runs on it any more: it is quarantined, or failed if it was so too often."""
    times = tuple(one for one in known.quarantines_ms if now_ms - one < limits.flapping_ms)
    times = (*times, now_ms)
    often = len(times) >= QUARANTINES_MAX
    state = DeviceState.FAILED if known.fails or often else DeviceState.QUARANTINED
    rule = "third-quarantine" if often and not known.fails else known.rule
    return replace(_become(known, state, rule, now_ms), quarantines_ms=times)


def expired(known: DeviceHealth, now_ms: int) -> DeviceHealth:
    """The time of its state is over: it is healthy again, and what was is remembered."""
    return _become(known, DeviceState.HEALTHY, f"{known.state.value}-over", now_ms)


def restored(known: DeviceHealth, now_ms: int) -> DeviceHealth:
    """An operator vouches for it: nothing of what was counts any more."""
    fresh = DeviceHealth(node=known.node, gpu=known.gpu, uuid=known.uuid)
    return _become(fresh, DeviceState.HEALTHY, "restored", now_ms)


def _become(
    known: DeviceHealth, state: DeviceState, rule: str, now_ms: int, for_ms: int = 0
) -> DeviceHealth:
    until_ms = now_ms + for_ms if for_ms else 0
    return replace(known, state=state, rule=rule, since_ms=now_ms, until_ms=until_ms, fails=False)
