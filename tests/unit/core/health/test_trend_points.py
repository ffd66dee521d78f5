"""Points: the medians of what was read within five minutes."""

from __future__ import annotations

from shared.core.health.trends import UNTOLD, DevicePoint, PointReadings, point_of


def test_points_are_medians_and_outliers_do_not_move_them():
    readings = PointReadings(
        memory_mib=(10, 1_000, 12),
        percent=(1, 99, 3),
        celsius=(60, 61, 0),
        watts=(300, 0, 310),
        sm_mhz=(1_980, UNTOLD, 1_970),
        replays=(7, 7, UNTOLD),
        throttled=(1, 0, 0),
    )

    assert point_of(5, readings) == DevicePoint(
        at_ms=5,
        memory_mib=12,
        percent=3,
        celsius=60.5,
        watts=305,
        sm_mhz=1_975,
        replays=7,
        throttled=1 / 3,
    )


def test_what_is_never_told_stays_untold():
    nothing = PointReadings((0,), (0,), (0,), (0,), (UNTOLD,), (UNTOLD,), (0,))

    point = point_of(5, nothing)

    assert [point.celsius, point.watts, point.sm_mhz, point.replays] == [UNTOLD] * 4
