"""What the stand-in of NVML tells of boards, as `nvidia-ml-py` reads it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.nvml import build
from tests.support.nvml.boards import h100, t4
from tests.support.nvml.stand_in import LIBRARY


def test_what_an_h100_is(opened):
    with opened(h100()) as (_, asked):
        assert asked(
            "[nvmlSystemGetDriverVersion(), nvmlSystemGetNVMLVersion(), nvmlDeviceGetCount(),"
            " nvmlSystemGetCudaDriverVersion_v2(), nvmlSystemGetCudaDriverVersion()]"
        ) == ["580.159.04", "13.580.159.04", 8, 13_000, 13_000]
        assert asked(
            "[nvmlDeviceGetName(h), nvmlDeviceGetUUID(h), nvmlDeviceGetSerial(h),"
            " nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('GPU-00000003')),"
            " nvmlDeviceGetMinorNumber(nvmlDeviceGetHandleByPciBusId('0000:05:00.0'))]"
        ) == ["NVIDIA H100 80GB HBM3", "GPU-00000000", "1650024000000", 3, 4]
        assert asked(
            "(p := nvmlDeviceGetPciInfo(h)) and [p.busId, p.busIdLegacy, p.bus, p.pciDeviceId]"
        ) == ["00000000:01:00.0", "0000:01:00.0", 1, 0x2330_10DE]
        assert asked("told(nvmlDeviceGetHandleByUUID, 'GPU-none')") == "error 6"
        assert asked("told(nvmlDeviceGetHandleByIndex, 8)") == "error 2"
        assert asked("nvmlErrorString(15)") == "GPU is lost"


def test_values_of_an_h100(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__field__230=2, gpu__0__field__82__error=15, gpu__0__field__60=1.5)
        assert asked(
            "[nvmlDeviceGetTemperature(h, 0), nvmlDeviceGetTemperatureV(h, 0),"
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
            "(u := nvmlDeviceGetUtilizationRates(h)) and (v := nvmlDeviceGetMemoryInfo(h,"
            " nvmlMemory_v2)) and [u.gpu, u.memory, v.reserved >> 20, v.used >> 20,"
            " nvmlDeviceGetMemoryInfo(h).used >> 20]"
        ) == [40, 20, 600, 1_000, 1_600]
        assert asked(
            "(f := nvmlDeviceGetFieldValues(h, [230, 82, 83, 999, (138, 4294967295), 60])) and"
            " [[one.nvmlReturn for one in f], [one.valueType for one in f], f[0].value.uiVal,"
            " f[2].value.ullVal, f[4].value.ullVal, f[5].value.dVal]"
        ) == [[0, 15, 0, 3, 0, 0], [1, 0, 3, 0, 3, 0], 2, 9_000_000, 1_024, 1.5]


def test_links_to_switches_and_to_gpus_are_told_with_the_fabric(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__link__2__gpu=4, gpu__0__link__3__active=0, cluster="ab" * 16)
        assert asked(
            "[[nvmlDeviceGetNvLinkState(h, link) for link in (2, 3, 17)],"
            " told(nvmlDeviceGetNvLinkState, h, 18),"
            " [nvmlDeviceGetNvLinkRemoteDeviceType(h, link) for link in (2, 17)],"
            " nvmlDeviceGetNvLinkRemotePciInfo(h, 2).busId, told(nvmlDeviceGetNumaNodeId, h),"
            " nvmlDeviceGetTopologyCommonAncestor(h, nvmlDeviceGetHandleByIndex(1)),"
            " list(nvmlDeviceGetMemoryAffinity(h, 2, 0))]"
        ) == [[1, 0, 1], "error 2", [0, 2], "00000000:05:00.0", "error 3", 20, [2, 0]]
        assert asked(
            "nvmlDeviceGetGpuFabricInfoV(h, byref(f := c_nvmlGpuFabricInfo_v2_t())) or"
            " [f.state, f.status, f.cliqueId, bytes(f.clusterUuid).hex()]"
        ) == [3, 0, 0, "ab" * 16]


def test_what_a_t4_with_an_old_driver_does_not_have(opened):
    with opened(t4()) as (_, asked):
        told = asked(
            "[told(call, h) for call in (nvmlDeviceGetMigMode, nvmlDeviceGetFanSpeed,"
            " nvmlDeviceGetRemappedRows, nvmlGpmQueryDeviceSupport, nvmlDeviceGetNumaNodeId,"
            " nvmlDeviceGetMarginTemperature)] + [told(nvmlDeviceGetNvLinkState, h, 0),"
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
