"""What signs do to a device: down the ladder, and up again."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.health.breaker import BreakerLimits, may_drain
from shared.core.health.device import EVIDENCE_MAX, TAKES_WORK, DeviceHealth, DeviceState, Sign
from shared.core.health.events import HealthEventKind as Kind
from shared.core.health.ladder import (
    DAY_MS,
    DEFAULT_LIMITS,
    HOUR_MS,
    SECOND_GPU_MS,
    LadderVerdict,
    Remedy,
    drained,
    expired,
    follow,
    is_of_node,
    noted,
    restored,
    verdict_of,
)

NOW = 1_700_000_000_000
S = DeviceState


def a_device(state: DeviceState = S.HEALTHY, **more: Any) -> DeviceHealth:
    return DeviceHealth(node="n1", gpu=3, uuid="GPU-3", state=state, **more)


def xid(code: int, at_ms: int = NOW, **more: Any) -> Sign:
    return Sign(kind=Kind.XID, code=code, at_ms=at_ms, **more)


def told(kind: Kind, code: int = 0) -> Sign:
    return Sign(kind=kind, code=code, at_ms=NOW)


@pytest.mark.parametrize(
    ("sign", "remedy", "rule"),
    [
        (xid(63), Remedy.NOTE, "xid-note"),
        (xid(13), Remedy.NOTE, "xid-app"),
        (xid(45), Remedy.NOTE, "xid-follow"),
        (xid(94, instance=2), Remedy.DRAIN_SLICE, "xid-slice"),
        (xid(74), Remedy.SUSPECT, "xid-link"),
        (xid(119), Remedy.DRAIN, "xid-reset"),
        (xid(54), Remedy.DRAIN, "xid-check"),
        (xid(48), Remedy.DRAIN_AT_ONCE, "xid-memory"),
        (xid(79), Remedy.DRAIN_NODE, "xid-node"),
        (told(Kind.DOUBLE_BIT_ECC, 1), Remedy.DRAIN_AT_ONCE, "double-bit-ecc"),
        (told(Kind.SINGLE_BIT_ECC_STORM), Remedy.SUSPECT, "single-bit-ecc-storm"),
        (told(Kind.ROW_REMAP_PENDING, 1), Remedy.SUSPECT, "row-remap-pending"),
        (told(Kind.ROW_REMAP_PENDING, 0), Remedy.NOTE, "row-remap-pending"),
        (told(Kind.ROW_REMAP_FAILURE, 1), Remedy.FAIL, "row-remap-failure"),
        (told(Kind.ROW_REMAP_FAILURE, 0), Remedy.NOTE, "row-remap-failure"),
        (told(Kind.LOST), Remedy.LOSE, "lost"),
        (told(Kind.UNRESPONSIVE), Remedy.SUSPECT, "unresponsive"),
        (told(Kind.RETURNED), Remedy.RESET_SEEN, "returned"),
        (told(Kind.BOOTED), Remedy.RESET_SEEN, "booted"),
        (told(Kind.RECOVERY_ACTION, 0), Remedy.RESET_SEEN, "recovery-action-0"),
        (told(Kind.RECOVERY_ACTION, 1), Remedy.DRAIN, "recovery-action-1"),
        (told(Kind.RECOVERY_ACTION, 2), Remedy.DRAIN_NODE, "recovery-action-2"),
        (told(Kind.RECOVERY_ACTION, 5), Remedy.SUSPECT, "recovery-action-5"),
        (told(Kind.RECOVERY_ACTION, 7), Remedy.DRAIN_NODE, "recovery-action-7"),
        (told(Kind.RECOVERY_ACTION, 99), Remedy.DRAIN, "recovery-action-99"),
        (told(Kind.HOT, 88), Remedy.SUSPECT, "hot"),
        (told(Kind.OVERHEATED, 95), Remedy.DRAIN, "overheated"),
        (told(Kind.THROTTLED, 20), Remedy.SUSPECT, "throttled"),
        (told(Kind.THROTTLED_LONG, 60), Remedy.DRAIN, "throttled-long"),
        (told(Kind.PCIE_REPLAYS, 10_001), Remedy.DRAIN, "pcie-replays"),
        (told(Kind.NVLINK_ERRORS, 1), Remedy.SUSPECT, "nvlink-errors"),
        (told(Kind.NVLINK_FAILED, 1), Remedy.DRAIN, "nvlink-failed"),
        (told(Kind.FAN_STOPPED, 70), Remedy.SUSPECT, "fan-stopped"),
        (told(Kind.CHECK_PASSED, 20), Remedy.PROVE, "check-passed"),
        (told(Kind.CHECK_FAILED, 1), Remedy.REFUSE, "check-failed"),
    ],
)
def test_what_a_sign_asks_for(sign, remedy, rule):
    assert verdict_of(a_device(), sign) == LadderVerdict(remedy=remedy, rule=rule)


def test_every_kind_of_event_asks_for_something():
    for kind in Kind:
        verdict_of(a_device(), told(kind, 1))


def test_a_second_error_of_a_link_within_a_day_drains():
    known = noted(a_device(), xid(74, NOW - DAY_MS + 1))

    assert verdict_of(known, xid(145)).rule == "xid-link-again"
    assert verdict_of(known, xid(145, NOW + 1)).remedy is Remedy.SUSPECT


def app_errors(*holders: tuple[str, str]) -> LadderVerdict:
    known = a_device()
    for one in holders[:-1]:
        known = noted(known, xid(13, NOW - HOUR_MS, holders=(one,)))
    return verdict_of(known, xid(31, holders=(holders[-1],)))


def test_errors_of_three_workloads_of_two_teams_are_the_gpus():
    assert app_errors(("red", "a"), ("blue", "b"), ("red", "c")).rule == "xid-app-of-many"
    assert app_errors(("red", "a"), ("red", "b"), ("red", "c")).rule == "xid-app"
    assert app_errors(("red", "a"), ("blue", "b"), ("red", "a")).rule == "xid-app"


@pytest.mark.parametrize(
    ("before", "remedy", "after"),
    [
        (S.HEALTHY, Remedy.NOTE, S.HEALTHY),
        (S.HEALTHY, Remedy.SUSPECT, S.SUSPECT),
        (S.SUSPECT, Remedy.SUSPECT, S.SUSPECT),
        (S.QUARANTINED, Remedy.SUSPECT, S.QUARANTINED),
        (S.HEALTHY, Remedy.DRAIN_SLICE, S.SUSPECT),
        (S.DRAINING, Remedy.DRAIN_SLICE, S.DRAINING),
        (S.HEALTHY, Remedy.DRAIN, S.DRAINING),
        (S.SUSPECT, Remedy.DRAIN_AT_ONCE, S.DRAINING),
        (S.PROBATION, Remedy.DRAIN_NODE, S.DRAINING),
        (S.HEALTHY, Remedy.FAIL, S.DRAINING),
        (S.QUARANTINED, Remedy.FAIL, S.FAILED),
        (S.LOST, Remedy.FAIL, S.LOST),
        (S.QUARANTINED, Remedy.DRAIN, S.QUARANTINED),
        (S.DRAINING, Remedy.DRAIN, S.DRAINING),
        (S.HEALTHY, Remedy.LOSE, S.LOST),
        (S.DRAINING, Remedy.LOSE, S.LOST),
        (S.FAILED, Remedy.LOSE, S.FAILED),
        (S.LOST, Remedy.RESET_SEEN, S.PROBATION),
        (S.QUARANTINED, Remedy.RESET_SEEN, S.PROBATION),
        (S.FAILED, Remedy.RESET_SEEN, S.FAILED),
        (S.PROBATION, Remedy.PROVE, S.HEALTHY),
        (S.QUARANTINED, Remedy.PROVE, S.QUARANTINED),
        (S.PROBATION, Remedy.REFUSE, S.QUARANTINED),
        (S.HEALTHY, Remedy.REFUSE, S.HEALTHY),
        (S.HEALTHY, Remedy.RESET_SEEN, S.HEALTHY),
        (S.DRAINING, Remedy.RESET_SEEN, S.DRAINING),
    ],
)
def test_the_step_that_follows(before, remedy, after):
    found = follow(a_device(before), LadderVerdict(remedy=remedy, rule="r"), NOW)

    assert found.state is after
    assert (found.rule == "r") is (before is not after or before is S.SUSPECT is after)


def test_states_end_by_themselves_or_not_at_all():
    suspect = follow(a_device(), LadderVerdict(remedy=Remedy.SUSPECT, rule="r"), NOW)
    seen = LadderVerdict(remedy=Remedy.RESET_SEEN, rule="r")
    probation = follow(a_device(S.LOST), seen, NOW)
    draining = follow(a_device(), LadderVerdict(remedy=Remedy.DRAIN, rule="r"), NOW)

    assert suspect.until_ms == NOW + DAY_MS
    assert probation.until_ms == NOW + DEFAULT_LIMITS.probation_ms
    assert draining.until_ms == 0
    healthy = expired(suspect, NOW + DAY_MS)
    assert (healthy.state, healthy.rule, healthy.until_ms) == (S.HEALTHY, "suspect-over", 0)


def test_what_is_drained_is_quarantined_and_the_third_time_in_a_week_is_the_last():
    first = drained(a_device(S.DRAINING, rule="xid-reset"), NOW)
    second = drained(first, NOW + DAY_MS)
    third = drained(second, NOW + 2 * DAY_MS)
    late = drained(second, NOW + 8 * DAY_MS)

    assert [one.state for one in (first, second, third, late)] == [
        S.QUARANTINED, S.QUARANTINED, S.FAILED, S.QUARANTINED,
    ]  # fmt: skip
    assert (first.rule, third.rule) == ("xid-reset", "third-quarantine")


def test_a_row_that_cannot_be_replaced_takes_the_device_out_for_good():
    draining = follow(a_device(), LadderVerdict(remedy=Remedy.FAIL, rule="row-remap-failure"), NOW)
    failed = drained(draining, NOW)

    assert (draining.fails, failed.state, failed.rule) == (True, S.FAILED, "row-remap-failure")


def test_an_operator_restores_a_device_and_its_past_counts_no_more():
    failed = noted(a_device(S.FAILED, quarantines_ms=(1, 2, 3)), xid(48))

    found = restored(failed, NOW)

    assert (found.state, found.signs, found.quarantines_ms) == (S.HEALTHY, (), ())


def test_signs_are_bounded_and_named():
    known = a_device()
    for at in range(EVIDENCE_MAX + 5):
        known = noted(known, xid(13, at))

    assert (len(known.signs), known.signs[-1].at_ms) == (EVIDENCE_MAX, EVIDENCE_MAX + 4)
    assert (xid(79).text, told(Kind.LOST).text) == ("XID 79", "lost")


def test_only_healthy_and_suspect_devices_take_work():
    assert {one for one in S if one in TAKES_WORK} == {S.HEALTHY, S.SUSPECT}


@pytest.mark.parametrize(
    ("drained_before", "more", "gpus", "allowed"),
    [(7, 1, 16, True), (8, 1, 16, False), (8, 1, 160, True), (0, 16, 160, True),
     (0, 17, 160, False)],
)  # fmt: skip
def test_a_tenth_of_a_flavor_or_eight_gpus_may_be_drained_in_an_hour(
    drained_before, more, gpus, allowed
):
    lately = [NOW - HOUR_MS + 1] * drained_before

    assert may_drain(lately, more, gpus, NOW) is allowed
    assert may_drain([NOW - HOUR_MS] * 100, more, gpus, NOW, BreakerLimits(gpus_min=17))


def test_a_check_that_fails_counts_as_a_quarantine_and_the_third_is_the_last():
    refused = LadderVerdict(remedy=Remedy.REFUSE, rule="check-failed")
    once = follow(a_device(S.PROBATION), refused, NOW)
    often = follow(a_device(S.PROBATION, quarantines_ms=(NOW - 2, NOW - 1)), refused, NOW)

    assert (once.state, once.rule, once.quarantines_ms) == (S.QUARANTINED, "check-failed", (NOW,))
    assert often.state is S.FAILED


@pytest.mark.parametrize(
    ("state", "ago_ms", "remedy", "found"),
    [
        (S.QUARANTINED, SECOND_GPU_MS - 1, Remedy.DRAIN, True),
        (S.LOST, 0, Remedy.LOSE, True),
        (S.DRAINING, 0, Remedy.DRAIN_AT_ONCE, True),
        (S.FAILED, 0, Remedy.FAIL, True),
        (S.QUARANTINED, SECOND_GPU_MS, Remedy.DRAIN, False),
        (S.SUSPECT, 0, Remedy.DRAIN, False),
        (S.PROBATION, 0, Remedy.DRAIN, False),
        (S.QUARANTINED, 0, Remedy.SUSPECT, False),
        (S.HEALTHY, 0, Remedy.DRAIN_NODE, True),
    ],
)
def test_two_gpus_of_a_node_that_go_out_within_ten_minutes_are_the_node(
    state, ago_ms, remedy, found
):
    other = a_device(state, since_ms=NOW - ago_ms)
    verdict = LadderVerdict(remedy=remedy, rule="r")

    assert is_of_node(verdict, [other], NOW) is found


@pytest.mark.parametrize("kind", [one for one in Kind if one is not Kind.XID])
def test_what_a_sign_is_has_its_number_for_people(kind):
    text = told(kind, 77).text

    assert text == kind.value or text.startswith(("it", "its", "an")), text
    assert "77" in text or kind.value == text or kind is Kind.NVLINK_FAILED


def test_a_device_that_drains_is_out_for_good_once_nothing_runs_there():
    failing = follow(a_device(S.DRAINING), LadderVerdict(remedy=Remedy.FAIL, rule="r"), NOW)

    assert (failing.state, failing.fails) == (S.DRAINING, True)
    assert drained(failing, NOW).state is S.FAILED
