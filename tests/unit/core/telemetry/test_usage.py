"""Reports of use that cannot be, with the field and the rule."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.telemetry.usage import ReportedUse, problem_of_time, problem_of_use

GOOD: dict[str, Any] = {
    "utilization_percent": (0, 100),
    "memory_used_mib": (0, 81_559),
    "temperature_celsius": (30, 95),
    "power_watts": (60, 1_400),
    "unread": (1,),
}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({}, ""),
        ({"utilization_percent": (0, 900)},
         "utilization_percent[1]: 900 is not from 0 to 100"),
        ({"utilization_percent": (-5, 0)},
         "utilization_percent[0]: -5 is not from 0 to 100"),
        ({"memory_used_mib": (1,)},
         "memory_used_mib: 1 values, and utilization_percent has 2"),
        ({"memory_used_mib": (1, -1)},
         "memory_used_mib[1]: -1 is not from 0 to 16777216"),
        ({"temperature_celsius": (30, 201)},
         "temperature_celsius[1]: 201 is not from -50 to 200"),
        ({"power_watts": (1, 2, 3)},
         "power_watts: 3 values, and utilization_percent has 2"),
        ({"instances": [(2, 1, 0)]},
         "instances[0].gpu: 2 is not the index of one of 2 GPUs"),
        ({"instances": [(0, 1, 5), (0, 256, 0)]},
         "instances[1].mask: 256 is not from 1 to 255"),
        ({"instances": [(0, 3, 101)]},
         "instances[0].utilization_percent: 101 is not from 0 to 100"),
        ({"instances": [(1, 3, 100)]}, ""),
        ({"unread": (2,)},
         "unread[0]: 2 is not the index of one of 2 GPUs"),
        ({"sm_clock_mhz": (-1, 1_980), "pcie_replays": (0, -1), "throttled": (0,)}, ""),
        ({"sm_clock_mhz": (-2, 1_980)},
         "sm_clock_mhz[0]: -2 is not from -1 to 100000"),
        ({"pcie_replays": (7,)},
         "pcie_replays: 1 values, and utilization_percent has 2"),
        ({"throttled": (-1,)},
         "throttled[0]: -1 is not the index of one of 2 GPUs"),
        ({"utilization_percent": (0,) * 257},
         "utilization_percent: 257 values, at most 256 are allowed"),
    ],
)  # fmt: skip
def test_the_first_broken_rule_is_told(wrong, problem):
    assert problem_of_use(ReportedUse(**GOOD | wrong)) == problem


def test_a_clock_may_be_a_minute_ahead():
    assert problem_of_time(60_000, 0) == ""
    assert problem_of_time(-600_000, 0) == ""
    assert problem_of_time(61_000, 0) == (
        "at_ms: 61000 is 61 s ahead of the broker's clock, at most 60 s are allowed"
    )
