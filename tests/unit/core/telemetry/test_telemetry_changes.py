"""Two readings one after the other, and the events of health that they amount to."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.health.events import HealthEventKind as Kind
from shared.core.health.events import problem_of
from shared.core.telemetry.changes import DOUBLE_BIT_ECC, changes
from shared.core.telemetry.metrics import PREFIX, RECOVERY_ACTION
from shared.core.telemetry.readings import Answering, GpuReading, NodeReading

PENDING = PREFIX + "DEV_ROW_REMAP_PENDING"
FAILURE = PREFIX + "DEV_ROW_REMAP_FAILURE"


def reading(*gpus: GpuReading, driver: str = "580") -> NodeReading:
    return NodeReading(at_ms=1, driver=driver, gpus=gpus)


def a_gpu(index: int = 0, **more: Any) -> GpuReading:
    return GpuReading(index=index, uuid=more.pop("uuid", f"GPU-{index}"), **more)


def told(before: NodeReading | None, after: NodeReading) -> list[tuple[int, Kind, int]]:
    return [(one.gpu, one.kind, one.code) for one in changes(before, after)]


@pytest.mark.parametrize(
    ("name", "before", "after", "event"),
    [
        (PENDING, 0, 1, (Kind.ROW_REMAP_PENDING, 1)),
        (PENDING, 1, 0, (Kind.ROW_REMAP_PENDING, 0)),
        (FAILURE, 0, 1, (Kind.ROW_REMAP_FAILURE, 1)),
        (RECOVERY_ACTION, 0, 4, (Kind.RECOVERY_ACTION, 4)),
        (RECOVERY_ACTION, 4, 0, (Kind.RECOVERY_ACTION, 0)),
        (DOUBLE_BIT_ECC, 2, 5, (Kind.DOUBLE_BIT_ECC, 5)),
    ],
)
def test_a_value_that_changed_is_an_event(name, before, after, event):
    was, now = a_gpu(values={name: before}), a_gpu(values={name: after})

    assert told(reading(was), reading(now)) == [(0, *event)]
    assert told(reading(now), reading(now)) == []


def test_what_is_wrong_already_at_the_first_reading_is_told():
    ill = a_gpu(values={PENDING: 1, FAILURE: 0, DOUBLE_BIT_ECC: 3})

    assert told(None, reading(ill)) == [
        (0, Kind.ROW_REMAP_PENDING, 1),
        (0, Kind.DOUBLE_BIT_ECC, 3),
    ]
    assert told(None, reading(a_gpu(values={PENDING: 0}), a_gpu(1))) == []


def test_errors_that_a_reset_took_back_are_no_event():
    assert told(
        reading(a_gpu(values={DOUBLE_BIT_ECC: 5})), reading(a_gpu(values={DOUBLE_BIT_ECC: 0}))
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("answering", "kind"),
    [(Answering.LOST, Kind.LOST), (Answering.UNRESPONSIVE, Kind.UNRESPONSIVE)],
)
def test_a_gpu_that_falls_silent_and_returns_is_told_and_its_neighbour_is_not(answering, kind):
    well, silent = a_gpu(0), a_gpu(0, answering=answering, values={})

    assert told(reading(well, a_gpu(1)), reading(silent, a_gpu(1))) == [(0, kind, 0)]
    assert told(reading(silent), reading(silent)) == []
    assert told(reading(silent), reading(well)) == [(0, Kind.RETURNED, 0)]
    assert told(None, reading(silent)) == [(0, kind, 0)]


def test_another_device_in_the_place_of_one_has_no_past():
    lost = a_gpu(0, answering=Answering.LOST)

    assert told(reading(lost), reading(a_gpu(0, uuid="GPU-new"))) == []


def test_another_driver_is_a_new_start_and_what_is_wrong_is_told_again():
    ill = a_gpu(values={PENDING: 1})
    events = changes(reading(ill), reading(ill, driver="590"))

    assert [(one.gpu, one.kind) for one in events] == [
        (-1, Kind.BOOTED),
        (0, Kind.ROW_REMAP_PENDING),
    ]
    assert events[0].detail == "driver 580 became 590"


GOOD: dict[str, Any] = {"gpu": 0, "instance": -1, "code": 0, "detail": ""}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"gpu": -2}, "gpu"), ({"instance": -2}, "instance"), ({"code": -1}, "code"),
     ({"code": 1 << 31}, "code"), ({"detail": "x" * 257}, "detail")],
)  # fmt: skip
def test_an_event_that_cannot_be_names_its_field(wrong, field):
    assert problem_of(**GOOD) == ""
    assert problem_of(**GOOD | wrong).startswith(f"{field}: ")
