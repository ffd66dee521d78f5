"""NVML in a child process, on a stand-in of its C library with scripted faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from shared.adapters.clock import SystemClock
from shared.adapters.nvml import NvmlSource, XidTold
from shared.core.telemetry.metrics import PREFIX, RECOVERY_ACTION
from shared.core.telemetry.readings import Answering, GpuReading, NodeReading, use_percent
from shared.ports.gpu_source import SourceSilentError
from tests.support.nvml import StandIn
from tests.support.nvml.boards import a100, h100, h100_mig, t4

DEADLINE_SECONDS = 1.0
Opened = tuple[StandIn, NvmlSource]
Open = Callable[[Mapping[str, object]], Opened]


@pytest.fixture
async def open_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    opened: list[NvmlSource] = []

    def begin(state: Mapping[str, object]) -> Opened:
        stand_in = StandIn(tmp_path, state)
        for name, value in stand_in.environment.items():
            monkeypatch.setenv(name, value)
        told: list[XidTold] = []
        source = NvmlSource(
            clock=SystemClock(), tell=told.append, deadline_seconds=DEADLINE_SECONDS
        )
        source.told = told  # type: ignore[attr-defined]
        opened.append(source)
        return stand_in, source

    yield begin
    for one in opened:
        await one.close()


def told_to(source: NvmlSource) -> list[XidTold]:
    return source.told  # type: ignore[attr-defined, no-any-return]


def value(gpu: GpuReading, name: str) -> float | None:
    return gpu.values.get(PREFIX + name)


async def until(source: NvmlSource, holds: Callable[[NodeReading], bool]) -> NodeReading:
    async with asyncio.timeout(20):
        while True:
            try:
                reading = await source.read()
            except SourceSilentError:
                reading = None
            if reading is not None and holds(reading):
                return reading
            await asyncio.sleep(0.1)


async def test_an_h100_tells_all_values(open_on):
    _, source = open_on(h100())
    devices = await source.inventory()
    await source.read()

    gpu = (await source.read()).gpus[3]

    assert (devices.product, devices.driver, devices.cuda, devices.links) == (
        "NVIDIA-H100-80GB-HBM3", "580.159.04", "13.0", "i",
    )  # fmt: skip
    assert [one.profile for one in devices.gpus[0].mig_placements] == [
        "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me", "1g.20gb",
    ]  # fmt: skip
    assert (gpu.index, gpu.uuid, gpu.minor) == (3, "GPU-00000003", 3)
    assert (value(gpu, "DEV_POWER_USAGE"), value(gpu, "DEV_GPU_TEMP")) == (300.5, 45)
    assert (value(gpu, "DEV_FB_USED"), value(gpu, "DEV_FB_FREE")) == (1_000, 79_959)
    assert value(gpu, "PROF_GR_ENGINE_ACTIVE") == 0.5
    assert value(gpu, "PROF_PCIE_TX_BYTES") == 2 << 20
    assert value(gpu, "DEV_NVLINK_BANDWIDTH_TOTAL") == 2_048
    assert gpu.values[RECOVERY_ACTION] == 0
    assert value(gpu, "DEV_FAN_SPEED") is None, "the board has no fan"
    assert use_percent(gpu) == 40


async def test_a_quick_reading_tells_slow_values_as_they_were(open_on):
    stand_in, source = open_on(t4())
    await source.read()
    stand_in.write(gpu__0__temperature=91, gpu__0__field__4=7)

    quick = (await source.read(full=False)).gpus[0]
    full = (await source.read()).gpus[0]

    assert [value(one, "DEV_GPU_TEMP") for one in (quick, full)] == [91, 91]
    assert [value(one, "DEV_ECC_DBE_VOL_TOTAL") for one in (quick, full)] == [0, 7]


async def test_a_gpu_that_is_lost_between_two_calls_is_lost(open_on):
    stand_in, source = open_on(t4())
    await source.read()
    stand_in.write(gpu__0__error__nvmlDeviceGetPowerUsage=15)

    assert (await source.read()).gpus[0].answering is Answering.LOST


async def test_an_a100_has_no_gpm(open_on):
    _, source = open_on(a100())
    await source.read()

    gpu = (await source.read()).gpus[0]

    assert value(gpu, "PROF_GR_ENGINE_ACTIVE") is None
    assert value(gpu, "DEV_GPU_UTIL") == 40


async def test_instances_are_told_with_their_memory_and_their_activity(open_on):
    _, source = open_on(h100_mig())
    devices = await source.inventory()
    await source.read()

    whole, sliced = (await source.read()).gpus

    assert ([gpu.mig for gpu in devices.gpus], whole.instances) == ([False, True], ())
    assert [(one.start, one.profile) for one in devices.gpus[1].mig_instances] == [
        (0, "2g.20gb"), (4, "2g.20gb"),
    ]  # fmt: skip
    assert [(one.number, one.profile, one.uuid) for one in sliced.instances] == [
        (3, "2g.20gb", "MIG-3"), (5, "2g.20gb", "MIG-5"),
    ]  # fmt: skip
    of_the_second = sliced.instances[1].values
    assert of_the_second[PREFIX + "DEV_FB_USED"] == 500
    assert of_the_second[PREFIX + "PROF_GR_ENGINE_ACTIVE"] == 0.5
    assert value(sliced, "DEV_GPU_UTIL") is None


async def test_what_a_t4_with_an_old_driver_does_not_tell_is_absent(open_on):
    _, source = open_on(t4())
    devices = await source.inventory()

    (gpu,) = (await source.read()).gpus

    assert (devices.product, devices.cuda, devices.links) == ("Tesla-T4", "11.4", "")
    assert devices.gpus[0].mig_placements == ()
    absent = ("DEV_ROW_REMAP_PENDING", "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_FB_RESERVED")
    assert [value(gpu, name) for name in absent] == [None, None, None]
    assert (value(gpu, "DEV_GPU_TEMP"), value(gpu, "DEV_FB_USED")) == (45, 1_600)
    assert RECOVERY_ACTION not in gpu.values


async def test_one_call_that_fails_costs_its_own_value_alone(open_on):
    stand_in, source = open_on(h100())
    stand_in.write(gpu__2__error__nvmlDeviceGetPowerUsage=999)

    gpus = (await source.read()).gpus

    assert [value(gpu, "DEV_POWER_USAGE") is None for gpu in gpus[:4]] == [
        False, False, True, False,
    ]  # fmt: skip
    assert value(gpus[2], "DEV_GPU_TEMP") == 45


async def test_a_lost_gpu_is_told_by_name_and_found_again_by_itself(open_on):
    stand_in, source = open_on(h100())
    await source.read()
    stand_in.write(gpu__5__lost=1)

    lost = await source.read()

    assert [one.answering for one in lost.gpus if one.index != 5] == [Answering.YES] * 7
    assert (lost.gpus[5].answering, lost.gpus[5].uuid) == (Answering.LOST, "GPU-00000005")
    assert lost.gpus[5].values == {}
    stand_in.write(gpu__5__lost=None)
    await until(source, lambda found: found.gpus[5].answering is Answering.YES)


async def test_a_gpu_that_hangs_costs_its_neighbours_one_reading(open_on):
    stand_in, source = open_on(h100())
    await source.read()
    stand_in.write(gpu__4__hang__nvmlDeviceGetPowerUsage=1)

    first = await source.read()
    async with asyncio.timeout(DEADLINE_SECONDS / 2):
        second = await source.read()

    for found in (first, second):
        assert [gpu.index for gpu in found.gpus] == list(range(8))
        silent = [gpu.index for gpu in found.gpus if gpu.answering is Answering.UNRESPONSIVE]
        assert silent == [4]
    stand_in.write(gpu__4__hang__nvmlDeviceGetPowerUsage=None)
    await until(source, lambda found: found.gpus[4].answering is Answering.YES)


async def test_a_gpu_that_hangs_at_once_does_not_keep_its_neighbours_from_being_known(open_on):
    stand_in, source = open_on(h100())
    stand_in.write(gpu__0__hang__nvmlDeviceGetMigMode=1)

    devices = await source.inventory()

    assert [gpu.index for gpu in devices.gpus] == list(range(1, 8))


async def test_a_slow_call_is_waited_for(open_on):
    stand_in, source = open_on(t4())
    await source.inventory()
    stand_in.write(gpu__0__slow_ms__nvmlDeviceGetPowerUsage=600)

    assert value((await source.read()).gpus[0], "DEV_POWER_USAGE") == 30.5


async def test_a_driver_that_hangs_as_a_whole_is_told_and_comes_back(open_on):
    stand_in, source = open_on(t4())
    await source.read()
    stand_in.write(hang__nvmlDeviceGetCount_v2=1)

    with pytest.raises(SourceSilentError, match="NVML does not answer for 1 s"):
        await source.read()
    with pytest.raises(SourceSilentError, match="NVML does not answer for 1 s"):
        await source.read()

    stand_in.write(hang__nvmlDeviceGetCount_v2=None)
    await until(source, lambda found: len(found.gpus) == 1)


async def test_a_driver_that_is_loaded_anew_is_found(open_on):
    stand_in, source = open_on(t4())
    await source.read()
    stand_in.write(driver_gone=1)

    with pytest.raises(SourceSilentError):
        await source.read()

    stand_in.write(driver_gone=None, driver="590.1")
    found = await until(source, lambda found: len(found.gpus) == 1)
    assert found.driver == "590.1"


async def test_events_are_told_by_device_and_instance_each_once(open_on):
    stand_in, source = open_on(h100_mig())
    await source.read()
    stand_in.happen(0, 8, 79)
    stand_in.happen(1, 8, 94, instance=3)
    async with asyncio.timeout(5):
        while len(told_to(source)) < 2:
            await asyncio.sleep(0.02)

    await asyncio.sleep(0.2)

    assert [(one.uuid, one.type, one.data, one.instance) for one in told_to(source)] == [
        ("GPU-00000000", 8, 79, -1),
        ("GPU-00000001", 8, 94, 3),
    ]


async def test_the_mode_of_an_idle_gpu_is_changed_and_that_of_a_busy_one_is_not(open_on):
    stand_in, source = open_on(h100())
    await source.inventory()
    stand_in.write(gpu__1__processes=1, gpu__1__process__0__pid=42)

    assert await source.set_mig("GPU-00000000", mig=True) == ""
    assert await source.set_mig("GPU-00000001", mig=True) == "processes run on the GPU"
    assert await source.set_mig("GPU-none", mig=True) == "Not Found"

    devices = await source.inventory()
    assert [gpu.mig for gpu in devices.gpus[:2]] == [True, False]
    assert [one.pid for one in (await source.read()).gpus[1].processes] == [42]


async def test_without_a_library_it_is_said(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    source = NvmlSource(clock=SystemClock(), tell=lambda _: None, deadline_seconds=5)

    with pytest.raises(SourceSilentError, match="Not Found"):
        await source.read()
    await source.close()
