"""`nvidia-ml-py` in a process of its own: it has global state, and a call may hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

ASKING: Final = """
import json, sys
from ctypes import byref, c_uint
from pynvml import *

def told(call, *given):
    try:
        return call(*given)
    except NVMLError as error:
        return f"error {error.value}"

def wait(events, wait_ms=60):
    found = nvmlEventSetWait_v2(events, wait_ms)
    index = nvmlDeviceGetIndex(found.device)
    return [index, found.eventType, found.eventData, found.gpuInstanceId]

def gpm(first, second):
    asked = c_nvmlGpmMetricsGet_t(version=1, numMetrics=3, sample1=first, sample2=second)
    for at, metric in enumerate((1, 5, 99)):
        asked.metrics[at].metricId = metric
    nvmlGpmMetricsGet(asked)
    return [(one.nvmlReturn, one.value) for one in asked.metrics[:3]]

def sample(device, instance=None):
    fresh = nvmlGpmSampleAlloc()
    if instance is None:
        return nvmlGpmSampleGet(device, fresh)
    return nvmlGpmMigSampleGet(device, instance, fresh)

def profile(device, number):
    told = nvmlDeviceGetGpuInstanceProfileInfo(device, number)
    places, count = (c_nvmlGpuInstancePlacement_t * 8)(), c_uint(8)
    nvmlDeviceGetGpuInstancePossiblePlacements(device, told.id, places, byref(count))
    starts = [(one.start, one.size) for one in places[:count.value]]
    return [told.name, told.id, told.sliceCount, told.instanceCount, told.memorySizeMB, starts]

def instances(device, profile):
    found, count = (c_nvmlGpuInstance_t * 8)(), c_uint(8)
    nvmlDeviceGetGpuInstances(device, profile, found, byref(count))
    told = map(nvmlGpuInstanceGetInfo, found[:count.value])
    return [[t.id, t.profileId, t.placement.start, t.placement.size] for t in told]

for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""
"""Answers an expression for each line, in one namespace; `told` makes an error of its number."""


class AskedNvml:
    """A process with NVML: `asked("...")` is what an expression comes to there."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", ASKING],
            env={**os.environ, **environment},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, expression: str) -> Any:
        self.begin(expression)
        return self.answer()

    def begin(self, expression: str) -> None:
        """Ask without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What was asked first of what is not answered yet."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.communicate()
