"""Faults of the stand-in of NVML, and its events: scripted while a process runs."""

from __future__ import annotations

import threading
import time

from tests.support.nvml.boards import h100


def test_a_lost_gpu_is_lost_by_every_way_and_found_again(opened):
    calls = (
        "nvmlDeviceGetHandleByIndex, 0",
        "nvmlDeviceGetHandleByUUID, 'GPU-00000000'",
        "nvmlDeviceGetName, h",
        "nvmlDeviceGetFieldValues, h, [230]",
    )
    with opened(h100()) as (stand_in, asked):
        stand_in.lose(0)
        assert [asked(f"told({call})") for call in calls] == ["error 15"] * 4
        assert asked("nvmlDeviceGetUUID(g)") == "GPU-00000001"
        stand_in.reset(0)
        assert asked("nvmlDeviceGetUUID(h)") == "GPU-00000000"


def test_an_error_is_of_one_call_and_of_one_gpu_or_all(opened):
    ask = "[told(nvmlDeviceGetTemperature, one, 0) for one in (h, g)] + [told(nvmlDeviceGetCount)]"
    with opened(h100()) as (stand_in, asked):
        stand_in.fail("nvmlDeviceGetTemperature", 999, gpu=0)
        assert asked(ask) == ["error 999", 45, 8]
        stand_in.fail("nvmlDeviceGetTemperature", None, gpu=0)
        stand_in.fail("nvmlDeviceGetCount_v2", 3)
        assert asked(ask) == [45, 45, "error 3"]


def test_after_a_driver_was_gone_all_begin_anew(opened):
    name = "told(nvmlDeviceGetName, h)"
    with opened(h100()) as (stand_in, asked):
        stand_in.unload()
        assert [asked(name), asked("told(nvmlInit)")] == ["error 1", "error 9"]
        stand_in.unload(on=False)
        assert [asked(name), asked("nvmlInit()")] == ["error 1", None]
        assert asked(name) == "NVIDIA H100 80GB HBM3"
        stand_in.reload("590.1")
        assert asked(name) == "error 1"
        assert asked("nvmlInit() or nvmlSystemGetDriverVersion()") == "590.1"


def test_a_slow_call_takes_its_time(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.slow("nvmlDeviceGetPowerUsage", 300, gpu=0)
        begun = time.monotonic()
        assert asked("nvmlDeviceGetPowerUsage(h)") == 300_500
        assert time.monotonic() - begun >= 0.3


def test_a_call_that_hangs_returns_when_it_is_let_go(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.hang("nvmlDeviceGetPowerUsage", gpu=0)
        assert asked("nvmlDeviceGetPowerUsage(g)") == 300_500
        asked.begin("nvmlDeviceGetPowerUsage(h)")
        returned: list[int] = []
        waiting = threading.Thread(target=lambda: returned.append(asked.answer()))
        waiting.start()
        waiting.join(0.3)
        assert returned == []
        stand_in.hang("nvmlDeviceGetPowerUsage", gpu=0, on=False)
        waiting.join(10)
        assert returned == [300_500]
        stand_in.hang("nvmlDeviceGetPowerUsage", gpu=0)
        asked.begin("nvmlDeviceGetPowerUsage(h)")  # ended by a kill


def test_events_are_told_once_in_their_order_to_those_registered(opened):
    events = ((0, 8, 79, -1), (1, 8, 1, -1), (0, 2, 2, -1), (0, 8, 94, 3))
    with opened(h100()) as (stand_in, asked):
        stand_in.happen(0, 8, 13)
        assert asked("(s := nvmlEventSetCreate()) and nvmlDeviceRegisterEvents(h, 8, s)") is None
        assert asked("told(nvmlDeviceRegisterEvents, h, 0x100000, s)") == "error 3"
        assert asked("nvmlDeviceGetSupportedEventTypes(h)") == 65_439
        for event in events:
            stand_in.happen(*event)
        assert [asked("told(wait, s)") for _ in range(4)] == [
            [0, 8, 13, 0xFFFFFFFF],
            [0, 8, 79, 0xFFFFFFFF],
            [0, 8, 94, 3],
            "error 10",
        ]
        assert asked("nvmlEventSetFree(s)") is None


def test_events_of_before_are_left_out_where_the_driver_would_not_know_them(opened):
    with opened(h100() | {"events_from_now": 1}) as (stand_in, asked):
        stand_in.happen(0, 8, 13)
        asked("(s := nvmlEventSetCreate()) and nvmlDeviceRegisterEvents(h, 8, s)")
        asked.begin("told(wait, s, 5000)")
        stand_in.happen(0, 8, 48)
        assert asked.answer() == [0, 8, 48, 0xFFFFFFFF]
