"""How busy a GPU is said to be, of whatever its driver tells."""

from __future__ import annotations

import pytest

from shared.core.telemetry.readings import (
    ENGINE_ACTIVE,
    GPU_UTIL,
    GpuReading,
    InstanceReading,
    instance_percent,
    mask_of,
    use_percent,
)


def a_gpu(values: dict[str, float], *instances: float) -> GpuReading:
    return GpuReading(
        index=0,
        uuid="GPU-0",
        values=values,
        instances=tuple(
            InstanceReading(number=at, profile="1g.10gb", values={ENGINE_ACTIVE: one})
            for at, one in enumerate(instances)
        ),
    )


@pytest.mark.parametrize(
    ("gpu", "percent"),
    [
        (a_gpu({GPU_UTIL: 40, ENGINE_ACTIVE: 0.9}), 40),
        (a_gpu({ENGINE_ACTIVE: 0.254}), 25),
        (a_gpu({}, 0.1, 0.7), 70),
        (a_gpu({}), None),
        (a_gpu({ENGINE_ACTIVE: 1.02}), 100),
        (a_gpu({GPU_UTIL: -1}), 0),
    ],
)
def test_use_is_that_of_the_board_else_of_gpm_else_of_the_busiest_instance(gpu, percent):
    assert use_percent(gpu) == percent


def test_an_instance_is_known_by_its_slices_and_busy_by_its_own_engine():
    busy = InstanceReading(
        number=3, profile="2g.20gb", start=4, size=2, values={ENGINE_ACTIVE: 0.31}
    )
    silent = InstanceReading(number=4, profile="1g.10gb", values={})

    assert (mask_of(busy), instance_percent(busy)) == (0b110000, 31)
    assert (mask_of(silent), instance_percent(silent)) == (0, None)
