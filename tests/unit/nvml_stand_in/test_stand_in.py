"""The stand-in of NVML as `nvidia-ml-py` sees it, in processes of their own: it has global state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import StandIn, build
from tests.support.nvml.boards import a100, h100, h100_mig, t4
from tests.support.nvml.stand_in import LIBRARY

ASKING = '''
import json, sys
from ctypes import byref, c_uint
from pynvml import *
def told(call, *given):
    try:
        return call(*given)
    except NVMLError as error:
        return f"error {error.value}"
def gpm(take, first, second=None):
    asked = c_nvmlGpmMetricsGet_t(version=1, numMetrics=3)
    asked.sample1, asked.sample2 = first, take if second is None else second
    for at, metric in enumerate((1, 5, 99)):
        asked.metrics[at].metricId = metric
    answer = told(nvmlGpmMetricsGet, asked)
    if isinstance(answer, str):
        return answer
    return [(one.nvmlReturn, one.value) for one in answer.metrics[:3]]
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
'''
"""Answers an expression for each line, in one namespace; errors are told by their numbers."""


class Asked:
    """A process with NVML: `asked("...")` is what an expression comes to there."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", ASKING], env=os.environ | environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, expression: str) -> Any:
        self.begin(expression)
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def begin(self, expression: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()

    def waits(self, seconds: float) -> bool:
        """Whether it does not end by itself within this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


Opened = Callable[[dict[str, object]], AbstractContextManager[tuple[StandIn, Asked]]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    @contextmanager
    def begin(state):
        stand_in = StandIn(tmp_path, state)
        asked = Asked(stand_in.environment)
        try:
            assert asked("nvmlInit()") is None
            yield stand_in, asked
        finally:
            asked.end()

    return begin


H = "(h := nvmlDeviceGetHandleByIndex(0))"
MIG = "(m := nvmlDeviceGetMigDeviceHandleByIndex(nvmlDeviceGetHandleByIndex(1), 1))"


def test_what_an_h100_is(opened):
    with opened(h100()) as (_, asked):
        assert asked(
            "[nvmlSystemGetDriverVersion(), nvmlSystemGetNVMLVersion(), nvmlDeviceGetCount(),"
            " nvmlSystemGetCudaDriverVersion_v2(), nvmlSystemGetCudaDriverVersion()]"
        ) == ["580.159.04", "13.580.159.04", 8, 13_000, 13_000]
        assert asked(
            f"[nvmlDeviceGetName({H}), nvmlDeviceGetUUID(h), nvmlDeviceGetSerial(h),"
            " nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('GPU-00000003')),"
            " nvmlDeviceGetMinorNumber(nvmlDeviceGetHandleByPciBusId('0000:05:00.0'))]"
        ) == ["NVIDIA H100 80GB HBM3", "GPU-00000000", "1650024000000", 3, 4]
        assert asked(
            f"(p := nvmlDeviceGetPciInfo({H})) and [p.busId, p.busIdLegacy, p.bus, p.pciDeviceId]"
        ) == ["00000000:01:00.0", "0000:01:00.0", 1, 0x2330_10DE]
        assert asked("told(nvmlDeviceGetHandleByUUID, 'GPU-none')") == "error 6"
        assert asked("told(nvmlDeviceGetHandleByIndex, 8)") == "error 2"
        assert asked("nvmlErrorString(15)") == "GPU is lost"


def test_values_of_an_h100(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__field__230=2, gpu__0__field__82__error=15, gpu__0__field__60=1.5)
        assert asked(
            f"[nvmlDeviceGetTemperature({H}, 0), nvmlDeviceGetTemperatureV(h, 0),"
            " nvmlDeviceGetTemperatureThreshold(h, 1), nvmlDeviceGetMarginTemperature(h),"
            " nvmlDeviceGetPowerUsage(h), nvmlDeviceGetTotalEnergyConsumption(h),"
            " nvmlDeviceGetEnforcedPowerLimit(h), nvmlDeviceGetClockInfo(h, 1),"
            " nvmlDeviceGetCurrentClocksEventReasons(h), nvmlDeviceGetEccMode(h),"
            " nvmlDeviceGetEncoderUtilization(h)[0], nvmlDeviceGetViolationStatus(h, 0)"
            ".violationTime, nvmlDeviceGetRemappedRows(h), nvmlDeviceGetPcieReplayCounter(h),"
            " nvmlDeviceGetCurrPcieLinkGeneration(h), nvmlDeviceGetMaxPcieLinkWidth(h),"
            " nvmlDeviceGetTotalEccErrors(h, 0, 1), told(nvmlDeviceGetFanSpeed, h)]"
        ) == [
            45, 45, 89, 44, 300_500, 9_000_000, 700_000, 1_500, 4, [1, 1], 0, 5_000,
            [0, 0, 0, 0], 1, 5, 16, 2, "error 3",
        ]  # fmt: skip
        assert asked(
            f"(u := nvmlDeviceGetUtilizationRates({H})) and (v := nvmlDeviceGetMemoryInfo(h,"
            " nvmlMemory_v2)) and [u.gpu, u.memory, v.reserved >> 20, v.used >> 20,"
            " nvmlDeviceGetMemoryInfo(h).used >> 20]"
        ) == [40, 20, 600, 1_000, 1_600]
        assert asked(
            f"(f := nvmlDeviceGetFieldValues({H}, [230, 82, 83, 999, (138, 4294967295), 60])) and"
            " [[one.nvmlReturn for one in f], [one.valueType for one in f], f[0].value.uiVal,"
            " f[2].value.ullVal, f[4].value.ullVal, f[5].value.dVal]"
        ) == [[0, 15, 0, 3, 0, 0], [1, 0, 3, 0, 3, 0], 2, 9_000_000, 1_024, 1.5]


def test_links_of_an_h100_and_of_two_gpus_without_a_switch(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__link__2__gpu=4, gpu__0__link__3__active=0, cluster="ab" * 16)
        assert asked(
            f"[[nvmlDeviceGetNvLinkState({H}, link) for link in (2, 3, 17)],"
            " told(nvmlDeviceGetNvLinkState, h, 18),"
            " [nvmlDeviceGetNvLinkRemoteDeviceType(h, link) for link in (2, 17)],"
            " nvmlDeviceGetNvLinkRemotePciInfo(h, 2).busId, told(nvmlDeviceGetNumaNodeId, h),"
            " nvmlDeviceGetTopologyCommonAncestor(h, nvmlDeviceGetHandleByIndex(1)),"
            " list(nvmlDeviceGetMemoryAffinity(h, 2, 0))]"
        ) == [[1, 0, 1], "error 2", [0, 2], "00000000:05:00.0", "error 3", 20, [2, 0]]
        assert asked(
            f"nvmlDeviceGetGpuFabricInfoV({H}, byref(f := c_nvmlGpuFabricInfo_v2_t())) or"
            " [f.state, f.status, f.cliqueId, bytes(f.clusterUuid).hex()]"
        ) == [3, 0, 0, "ab" * 16]


def test_faults_begin_and_end_while_a_process_runs(opened):
    ask = f"told(nvmlDeviceGetTemperature, {H}, 0)"
    with opened(h100()) as (stand_in, asked):
        assert asked(ask) == 45
        stand_in.lose(0)
        assert [asked("told(nvmlDeviceGetHandleByIndex, 0)"), asked("told(nvmlDeviceGetName, h)")] == [
            "error 15", "error 15",
        ]  # fmt: skip
        assert asked("told(nvmlDeviceGetHandleByUUID, 'GPU-00000000')") == "error 15"
        assert asked("nvmlDeviceGetName(nvmlDeviceGetHandleByIndex(1))")
        stand_in.lose(0, on=False)
        stand_in.fail("nvmlDeviceGetTemperature", 999, gpu=0)
        assert asked(ask) == "error 999"
        assert asked("nvmlDeviceGetTemperature(nvmlDeviceGetHandleByIndex(1), 0)") == 45
        stand_in.fail("nvmlDeviceGetTemperature", None, gpu=0)
        stand_in.fail("nvmlDeviceGetCount_v2", 3)
        assert [asked("told(nvmlDeviceGetCount)"), asked(ask)] == ["error 3", 45]
        stand_in.unload()
        assert [asked(ask.replace(H, "h")), asked("told(nvmlInit)")] == ["error 1", "error 9"]
        stand_in.unload(on=False)
        assert [asked("told(nvmlDeviceGetName, h)"), asked("nvmlInit()"), asked(ask)] == [
            "error 1", None, 45,
        ]  # fmt: skip
        stand_in.reload("590.1")
        assert asked("told(nvmlDeviceGetName, h)") == "error 1"
        assert asked("nvmlInit() or nvmlSystemGetDriverVersion()") == "590.1"


def test_a_slow_call_takes_its_time_and_a_hanging_one_does_not_return(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.slow("nvmlDeviceGetPowerUsage", 300, gpu=0)
        begun = time.monotonic()
        assert asked(f"nvmlDeviceGetPowerUsage({H})") == 300_500
        assert time.monotonic() - begun >= 0.3
        stand_in.slow("nvmlDeviceGetPowerUsage", 0, gpu=0)
        stand_in.hang("nvmlDeviceGetPowerUsage", gpu=0)
        assert asked("nvmlDeviceGetPowerUsage(nvmlDeviceGetHandleByIndex(1))") == 300_500
        asked.begin(f"nvmlDeviceGetPowerUsage({H})")
        assert asked.waits(0.3)


def test_events_are_told_once_in_their_order_to_those_registered(opened):
    define = (
        "exec('''def wait(s, ms=60):\n e = nvmlEventSetWait_v2(s, ms)\n return [nvmlDeviceGetIndex("
        "e.device), e.eventType, e.eventData, e.gpuInstanceId]''', globals())"
    ).replace("\n", "\\n")
    with opened(h100()) as (stand_in, asked):
        asked(define)
        stand_in.happen(0, 8, 13)
        assert asked(
            f"(s := nvmlEventSetCreate()) and [told(nvmlDeviceRegisterEvents, {H}, 8, s),"
            " told(nvmlDeviceRegisterEvents, h, 0x100000, s), nvmlDeviceGetSupportedEventTypes(h)]"
        ) == [None, "error 3", 65_439]
        for gpu, kind, data, instance in ((0, 8, 79, -1), (1, 8, 1, -1), (0, 2, 2, -1), (0, 8, 94, 3)):
            stand_in.happen(gpu, kind, data, instance)
        assert [asked("told(wait, s)") for _ in range(4)] == [
            [0, 8, 13, 0xFFFFFFFF], [0, 8, 79, 0xFFFFFFFF], [0, 8, 94, 3], "error 10",
        ]  # fmt: skip
        stand_in.write(events_from_now=1)
        asked(f"(s := nvmlEventSetCreate()) and nvmlDeviceRegisterEvents({H}, 8, s)")
        asked.begin("told(wait, s, 5000)")
        stand_in.happen(0, 8, 48)
        assert asked("nvmlEventSetFree(s)") == [0, 8, 48, 0xFFFFFFFF]


def test_gpm_tells_of_what_was_between_two_samples(opened):
    with opened(h100_mig()) as (stand_in, asked):
        stand_in.write(gpu__0__gpm__5=40.5)
        assert asked(
            f"[nvmlGpmQueryDeviceSupport({H}).isSupportedDevice,"
            " gpm(nvmlGpmSampleGet(h, nvmlGpmSampleAlloc()), a := nvmlGpmSampleAlloc())]"
        ) == [1, "error 2"]
        assert asked(
            "gpm(None, nvmlGpmSampleGet(h, a), b := nvmlGpmSampleGet(h, nvmlGpmSampleAlloc()))"
        ) == [[0, 50], [0, 40.5], [3, 0]]
        assert asked("gpm(None, b, a)") == "error 2"
        assert asked(
            "gpm(None, *(nvmlGpmMigSampleGet(nvmlDeviceGetHandleByIndex(1), 5,"
            " nvmlGpmSampleAlloc()) for _ in range(2)))"
        ) == [[0, 50], [0, 5], [3, 0]]
        assert asked("told(nvmlGpmMigSampleGet, nvmlDeviceGetHandleByIndex(1), 4, a)") == "error 2"
        assert asked("nvmlGpmSampleFree(a)") is None


def test_instances_of_a_board_in_mig_mode(opened):
    with opened(h100_mig()) as (stand_in, asked):
        stand_in.write(
            gpu__1__processes=2, gpu__1__process__0__pid=7, gpu__1__process__0__instance=3,
            gpu__1__process__1__pid=8, gpu__1__process__1__instance=5,
        )  # fmt: skip
        assert asked(
            f"[nvmlDeviceGetUUID({MIG}), nvmlDeviceGetName(m), nvmlDeviceGetGpuInstanceId(m),"
            " nvmlDeviceGetComputeInstanceId(m), nvmlDeviceGetMemoryInfo(m).total >> 20,"
            " nvmlDeviceGetIndex(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)),"
            " [one.pid for one in nvmlDeviceGetComputeRunningProcesses_v3(m)],"
            " nvmlDeviceGetAttributes_v2(m).multiprocessorCount,"
            " nvmlDeviceGetAttributes_v2(m).gpuInstanceSliceCount,"
            " told(nvmlDeviceGetPowerUsage, m)]"
        ) == ["MIG-5", "NVIDIA H100 80GB HBM3 MIG 2g.20gb", 5, 0, 20_096, 1, [8], 32, 2, "error 3"]
        assert asked(
            "(g := nvmlDeviceGetHandleByIndex(1)) and [nvmlDeviceGetMigMode(g),"
            " nvmlDeviceGetMaxMigDeviceCount(g), told(nvmlDeviceGetUtilizationRates, g),"
            " told(nvmlDeviceGetMigDeviceHandleByIndex, g, 2), told(nvmlDeviceSetMigMode, g, 0),"
            " nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID('MIG-3'))]"
        ) == [[1, 1], 7, "error 3", "error 6", "error 19", "MIG-3"]
        assert asked(
            "nvmlDeviceGetGpuInstances(g, 14, i := (c_nvmlGpuInstance_t * 8)(), byref(n := "
            "c_uint(8))) or [[t.id, t.profileId, t.placement.start, t.placement.size] for t in "
            "map(nvmlGpuInstanceGetInfo, i[:n.value])]"
        ) == [[3, 14, 0, 2], [5, 14, 4, 2]]


def test_places_of_profiles_are_told_in_any_mode(opened):
    profile = "nvmlDeviceGetGpuInstanceProfileInfo"
    with opened(h100()) as (_, asked):
        assert asked(
            f"(p := {profile}({H}, 9)) and nvmlDeviceGetGpuInstancePossiblePlacements(h, p.id, q := "
            "(c_nvmlGpuInstancePlacement_t * 8)(), byref(n := c_uint(8))) or [p.name, p.id,"
            " p.sliceCount, p.instanceCount, [(one.start, one.size) for one in q[:n.value]],"
            f" {profile}(h, 9, version=1).memorySizeMB, told({profile}, h, 5)]"
        ) == ["MIG 1g.20gb", 15, 1, 4, [[0, 2], [2, 2], [4, 2], [6, 2]], 20_096, "error 3"]


def test_a_change_of_mode_is_seen_by_all_and_waits_for_a_reset_on_ampere(opened):
    change = "told(nvmlDeviceSetMigMode, h, 1)"
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__processes=1)
        assert asked(f"{H} and {change}") == "error 19"
        stand_in.write(gpu__0__processes=None)
        assert asked(f"[{change}, nvmlDeviceGetMigMode(h)]") == [0, [1, 1]]
        stand_in.write(gpu__0__mig_mode=0)
        assert asked("nvmlDeviceGetMigMode(h)") == [0, 0]
    with opened(a100()) as (stand_in, asked):
        assert asked(f"{H} and [{change}, nvmlDeviceGetMigMode(h)]") == [16, [0, 1]]
        assert asked("nvmlGpmQueryDeviceSupport(h).isSupportedDevice") == 0
        stand_in.reset(0)
        assert asked("nvmlDeviceGetMigMode(h)") == [1, 1]


def test_what_a_t4_with_an_old_driver_does_not_have(opened):
    with opened(t4()) as (_, asked):
        told = asked(
            f"[told(call, {H}) for call in (nvmlDeviceGetMigMode, nvmlDeviceGetFanSpeed,"
            " nvmlDeviceGetRemappedRows, nvmlGpmQueryDeviceSupport, nvmlDeviceGetMarginTemperature,"
            " nvmlDeviceGetNumaNodeId)] + [told(nvmlDeviceGetNvLinkState, h, 0),"
            " told(nvmlDeviceGetMemoryInfo, h, nvmlMemory_v2), told(nvmlDeviceGetTemperatureV, h,"
            " 0), told(nvmlGpmSampleGet, h, nvmlGpmSampleAlloc())]"
        )
        assert told == ["error 3"] * 10
        assert asked("nvmlDeviceGetName(h)") == "Tesla T4"


def test_a_library_is_built_once_by_many(tmp_path):
    with ThreadPoolExecutor(3) as several:
        folders = set(several.map(lambda _: build(tmp_path), range(3)))

    (folder,) = folders
    assert [path.name for path in folder.iterdir()] == [LIBRARY]
    made = (folder / LIBRARY).stat().st_mtime_ns
    assert (build(tmp_path) / LIBRARY).stat().st_mtime_ns == made
