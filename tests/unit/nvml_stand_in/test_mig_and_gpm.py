"""MIG and GPM of the stand-in of NVML."""

from __future__ import annotations

from tests.support.nvml.boards import a100, h100, h100_mig

MIG = "(m := nvmlDeviceGetMigDeviceHandleByIndex(g, 1))"


def test_gpm_tells_of_what_was_between_two_samples(opened):
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__gpm__5=1)
        assert asked("nvmlGpmQueryDeviceSupport(h).isSupportedDevice") == 1
        asked("(a := sample(h)) and None")
        assert asked("told(gpm, a, nvmlGpmSampleAlloc())") == "error 2", "not taken"
        stand_in.write(gpu__0__gpm__5=40.5)
        assert asked("gpm(a, (b := sample(h)))") == [[0, 50], [0, 40.5], [3, 0]]
        assert asked("told(gpm, b, a)") == "error 2", "not in their order"
        assert asked("told(gpm, a, sample(g))") == "error 2", "of two devices"
        assert asked("nvmlGpmSampleFree(a)") is None


def test_gpm_tells_of_an_instance(opened):
    with opened(h100_mig()) as (_, asked):
        assert asked("gpm(sample(g, 5), sample(g, 5))") == [[0, 50], [0, 5], [3, 0]]
        assert asked("told(sample, g, 4)") == "error 2"


def test_a_mig_device_is_told_as_its_instance(opened):
    with opened(h100_mig()) as (stand_in, asked):
        stand_in.write(
            gpu__1__processes=2,
            gpu__1__process__0__pid=7,
            gpu__1__process__0__instance=3,
            gpu__1__process__1__pid=8,
            gpu__1__process__1__instance=5,
        )
        assert asked(
            f"[nvmlDeviceGetUUID({MIG}), nvmlDeviceGetName(m), nvmlDeviceGetGpuInstanceId(m),"
            " nvmlDeviceGetComputeInstanceId(m), nvmlDeviceGetMemoryInfo(m).total >> 20,"
            " nvmlDeviceGetIndex(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)),"
            " [one.pid for one in nvmlDeviceGetComputeRunningProcesses_v3(m)],"
            " nvmlDeviceGetAttributes_v2(m).multiprocessorCount,"
            " nvmlDeviceGetAttributes_v2(m).gpuInstanceSliceCount,"
            " told(nvmlDeviceGetPowerUsage, m)]"
        ) == ["MIG-5", "NVIDIA H100 80GB HBM3 MIG 2g.20gb", 5, 0, 20_096, 1, [8], 32, 2, "error 3"]


def test_a_board_in_mig_mode_has_instances_and_no_use(opened):
    with opened(h100_mig()) as (_, asked):
        assert asked(
            "[nvmlDeviceGetMigMode(g), nvmlDeviceGetMaxMigDeviceCount(g),"
            " told(nvmlDeviceGetUtilizationRates, g),"
            " told(nvmlDeviceGetMigDeviceHandleByIndex, g, 2), told(nvmlDeviceSetMigMode, g, 0),"
            " nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID('MIG-3'))]"
        ) == [[1, 1], 7, "error 3", "error 6", "error 19", "MIG-3"]
        assert asked("instances(g, 14)") == [[3, 14, 0, 2], [5, 14, 4, 2]]
        assert asked("told(instances, h, 14)") == "error 3"


def test_places_of_profiles_are_told_in_any_mode(opened):
    places = [[0, 2], [2, 2], [4, 2], [6, 2]]
    with opened(h100_mig()) as (_, asked):
        for device in ("h", "g"):
            told = asked(f"profile({device}, 9)")
            assert told == ["MIG 1g.20gb", 15, 1, 4, 20_096, places]
        assert asked("profile(h, 4)")[-1] == [[0, 8]]
        assert asked("nvmlDeviceGetGpuInstanceProfileInfo(h, 9, version=1).id") == 15
        assert asked("told(profile, h, 5)") == "error 3"


def test_a_change_of_mode_is_refused_while_processes_run_and_else_made(opened):
    change = "told(nvmlDeviceSetMigMode, h, 1)"
    with opened(h100()) as (stand_in, asked):
        stand_in.write(gpu__0__processes=1)
        assert asked(change) == "error 19"
        stand_in.write(gpu__0__processes=None)
        assert asked(f"[{change}, nvmlDeviceGetMigMode(h)]") == [0, [1, 1]]
        stand_in.write(gpu__0__mig_mode=0)
        assert asked("nvmlDeviceGetMigMode(h)") == [0, 0]


def test_a_change_of_mode_waits_for_a_reset_on_ampere(opened):
    with opened(a100()) as (stand_in, asked):
        assert asked("[nvmlDeviceSetMigMode(h, 1), nvmlDeviceGetMigMode(h)]") == [16, [0, 1]]
        assert asked("nvmlGpmQueryDeviceSupport(h).isSupportedDevice") == 0
        stand_in.reset(0)
        assert asked("nvmlDeviceGetMigMode(h)") == [1, 1]
