"""What a node tells of devices that are really read: from a source that says what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from services.node_agent.live_probe import INVENTORY_MS, LiveProbe
from services.node_agent.orders import obeying
from services.node_agent.xids import Xids
from shared.adapters.nvml import SINGLE_BIT_STORM, XID_CRITICAL
from shared.core.health.events import HealthEventKind as Kind
from shared.core.model.nouns import Gpu, Node
from shared.core.telemetry.kernel_log import LoggedXid
from shared.core.telemetry.readings import (
    CLOCK_REASONS,
    ENGINE_ACTIVE,
    GPU_UTIL,
    PCIE_REPLAYS,
    SM_CLOCK,
    TEMPERATURE,
    Answering,
    DeviceInventory,
    GpuReading,
    InstanceReading,
    NodeReading,
)
from shared.core.telemetry.thresholds import Thresholds
from shared.events.nodes import (
    CheckGpu,
    GpuHealthReported,
    HealthEventReported,
    InstanceUse,
    ReconfigureGpu,
)
from shared.ports.gpu_source import SourceSilentError

NO_CHECKS: Any = None
NOW = 1_700_000_000_000
DESCRIBED = Node(name="n1", flavor="h100", product="", cpu_milli=1, memory_mib=1, gpus=())


class StillClock:
    def __init__(self) -> None:
        self.at_ms = NOW

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_seconds(self) -> float:
        return self.at_ms / 1000


def a_gpu(index: int, **more: Any) -> Gpu:
    return Gpu(index=index, uuid=f"GPU-{index}", memory_mib=80, pci=f"0000:0{index}:00.0", **more)


class ToldSource:
    """Two boards on a switch; what a test writes into it is what is told."""

    def __init__(self, clock: StillClock) -> None:
        self._clock = clock
        self.problem = ""
        self.devices = DeviceInventory(
            product="NVIDIA-H100", driver="580", cuda="13.0", gpus=(a_gpu(0), a_gpu(1)), links="i"
        )
        self.values: dict[int, dict[str, float]] = {0: {GPU_UTIL: 40}, 1: {ENGINE_ACTIVE: 0.5}}
        self.answering: dict[int, Answering] = {}
        self.instances: dict[int, tuple[InstanceReading, ...]] = {}
        self.asked: list[str] = []
        self.set: list[tuple[str, bool]] = []

    async def inventory(self) -> DeviceInventory:
        self._ask("inventory")
        return self.devices

    async def read(self, *, full: bool = True) -> NodeReading:
        self._ask("full" if full else "quick")
        gpus = tuple(
            GpuReading(
                index=index,
                uuid=f"GPU-{index}",
                answering=self.answering.get(index, Answering.YES),
                values=values,
                instances=self.instances.get(index, ()),
            )
            for index, values in self.values.items()
        )
        return NodeReading(at_ms=self._clock.now_ms(), driver="580", gpus=gpus)

    async def set_mig(self, uuid: str, *, mig: bool) -> str:
        self.set.append((uuid, mig))
        return "in use" if uuid == "GPU-1" else ""

    async def close(self) -> None:
        pass

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.problem:
            raise SourceSilentError(self.problem)


class Watched:
    def __init__(self) -> None:
        self.clock = StillClock()
        self.source = ToldSource(self.clock)
        self.probe = LiveProbe(DESCRIBED, source=self.source, clock=self.clock, seconds=5)
        self.xids = Xids(self.probe, self.clock)

    async def refresh(self, *, after_ms: int = 5_000) -> None:
        self.clock.at_ms += after_ms
        await self.probe.refresh()

    def events(self) -> list[tuple[int, Kind, int]]:
        told = [one for one in self.probe.changes() if isinstance(one, HealthEventReported)]
        return [(one.gpu, one.kind, one.code) for one in told]

    def health(self) -> list[bool]:
        return [gpu.healthy for gpu in self.probe.inventory().gpus]


@pytest.fixture
async def watched() -> Watched:
    one = Watched()
    await one.refresh()
    return one


async def test_a_node_is_what_its_driver_tells_and_its_description_knows(watched):
    node = watched.probe.inventory()

    assert (node.name, node.flavor, node.product, node.driver, node.links) == (
        "n1", "h100", "NVIDIA-H100", "580", "i",
    )  # fmt: skip
    assert watched.probe.known
    assert watched.probe.changes() == []


async def test_nothing_is_known_before_the_first_answer():
    one = Watched()
    one.source.problem = "no driver"
    await one.refresh()

    assert (one.probe.known, one.probe.problem, one.probe.changes()) == (False, "no driver", [])


async def test_use_has_the_time_of_its_reading_and_tells_what_was_not_read(watched):
    watched.source.values[1] = {}
    await watched.refresh()

    usage = watched.probe.usage(at_ms=NOW * 2)

    assert (usage.at_ms, usage.utilization_percent, usage.unread) == (NOW + 10_000, (40, 0), (1,))


async def test_clocks_and_replays_are_told_where_the_driver_does_and_are_never_0_for_unknown(
    watched,
):
    told = {SM_CLOCK: 1_980.4, PCIE_REPLAYS: 12, CLOCK_REASONS: 0x40}
    watched.source.values = {0: {GPU_UTIL: 40} | told, 1: {GPU_UTIL: 0}}
    await watched.refresh()

    usage = watched.probe.usage(0)

    assert (usage.sm_clock_mhz, usage.pcie_replays, usage.throttled) == (
        (1_980, -1), (12, -1), (0,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "throttled"),
    [(0x0, ()), (0x1 | 0x2 | 0x4, ()), (0x8, (0,)), (0x20, (0,)), (0x40, (0,)), (0x84, (0,))],
)
async def test_a_limit_of_power_is_no_throttling(watched, bits, throttled):
    watched.source.values[0] = {GPU_UTIL: 40, CLOCK_REASONS: bits}
    await watched.refresh()

    assert watched.probe.usage(0).throttled == throttled


async def test_instances_tell_their_use_where_it_is_known(watched):
    parts = (
        InstanceReading(number=3, profile="p", start=2, size=2, values={ENGINE_ACTIVE: 0.5}),
        InstanceReading(number=4, profile="p", start=4, size=2, values={}),
    )
    watched.source.instances[1] = parts
    await watched.refresh()

    assert watched.probe.usage(0).instances == (
        InstanceUse(gpu=1, mask=0b1100, utilization_percent=50, number=3),
    )


async def test_a_lost_gpu_takes_nothing_new_and_its_neighbour_goes_on(watched):
    before = watched.probe.generation
    watched.source.answering[1] = Answering.LOST
    watched.source.values[1] = {}
    await watched.refresh()

    changes = watched.probe.changes()

    (health,) = [one for one in changes if isinstance(one, GpuHealthReported)]
    assert (health.gpu, health.healthy, health.reason) == (1, False, "lost")
    assert health.generation == watched.probe.generation > before
    assert watched.health() == [True, False]
    assert watched.probe.usage(0).unread == (1,)
    del watched.source.answering[1]
    await watched.refresh()
    assert watched.health() == [True, True]
    assert watched.events() == [(1, Kind.RETURNED, 0)]


async def test_a_gpu_that_the_driver_names_no_more_keeps_its_place(watched):
    watched.source.devices = DeviceInventory(
        product="NVIDIA-H100", driver="580", gpus=(a_gpu(0),), links=""
    )
    del watched.source.values[1]
    await watched.refresh(after_ms=INVENTORY_MS)

    node = watched.probe.inventory()

    assert ([gpu.index for gpu in node.gpus], watched.health()) == ([0, 1], [True, False])
    assert node.links == "i"


async def test_a_driver_that_does_not_answer_takes_the_node_out_until_it_does(watched):
    watched.source.problem = "NVML does not answer for 15 s"
    await watched.refresh()
    await watched.refresh()

    assert watched.events() == [(-1, Kind.UNRESPONSIVE, 0)]
    assert watched.health() == [False, False]
    assert watched.probe.usage(7).unread == (0, 1)
    assert watched.probe.usage(7).at_ms == 7
    watched.source.problem = ""
    await watched.refresh()
    assert watched.events() == [(-1, Kind.RETURNED, 0)]
    assert watched.health() == [True, True]


async def test_the_inventory_is_read_once_a_minute(watched):
    await watched.refresh()
    await watched.refresh()
    assert watched.source.asked.count("inventory") == 1

    await watched.refresh(after_ms=INVENTORY_MS)
    assert watched.source.asked.count("inventory") == 2


async def test_what_changes_slowly_is_read_every_ten_seconds_and_when_something_happened(watched):
    watched.source.asked.clear()
    for _ in range(4):
        await watched.refresh()
    watched.probe.look()
    await watched.refresh()

    assert watched.source.asked == ["quick", "full", "quick", "full", "full"]


async def test_an_error_of_the_driver_is_told_once_whoever_tells_it_first(watched):
    line = LoggedXid(slot=(0, 1, 0), xid=79, line="NVRM: Xid ...")
    watched.xids.hear_kernel(line)
    watched.xids.hear_driver("GPU-1", XID_CRITICAL, 79, -1)

    assert watched.events() == [(1, Kind.XID, 79)]
    assert (watched.xids.counts[1, 79], watched.xids.last) == (1, {1: 79})


async def test_errors_of_devices_that_are_not_here_are_passed_over(watched):
    watched.xids.hear_kernel(LoggedXid(slot=(9, 9, 9), xid=79, line=""))
    watched.xids.hear_driver("GPU-9", XID_CRITICAL, 79, -1)

    assert watched.events() == []


async def test_an_error_of_one_instance_names_it(watched):
    watched.xids.hear_driver("GPU-0", XID_CRITICAL, 94, 3)
    watched.xids.hear_driver("GPU-0", SINGLE_BIT_STORM, 0, -1)

    xid, storm = watched.probe.changes()
    assert (xid.kind, xid.instance, storm.kind) == (Kind.XID, 3, Kind.SINGLE_BIT_ECC_STORM)


async def test_what_happens_is_reported_at_once(watched):
    woken: list[int] = []
    watched.probe.changed = lambda: woken.append(1)
    watched.xids.hear_driver("GPU-0", XID_CRITICAL, 13, -1)

    assert woken == [1]


def order(**more: Any) -> ReconfigureGpu:
    given: dict[str, Any] = {
        "node": "n1",
        "gpu": 0,
        "mig": True,
        "expires_at_ms": NOW + 60_000,
        "epoch": 1,
    }
    return ReconfigureGpu(**given | more)


async def test_an_order_is_carried_out_and_the_next_inventory_tells(watched):
    obey = obeying(watched.probe, watched.clock, NO_CHECKS)
    await obey(order(uuid="GPU-0"))
    watched.source.devices = DeviceInventory(
        product="", driver="580", gpus=(a_gpu(0, mig=True), a_gpu(1)), links="i"
    )
    await watched.refresh(after_ms=1)

    assert watched.source.set == [("GPU-0", True)]
    assert watched.probe.inventory().gpus[0].mig


@pytest.mark.parametrize(
    "other",
    [{"node": "n2"}, {"gpu": 7}, {"uuid": "GPU-9"}, {"mig": False}, {"expires_at_ms": NOW}],
)
async def test_an_order_for_another_or_too_late_or_done_already_is_passed_over(watched, other):
    await obeying(watched.probe, watched.clock, NO_CHECKS)(order(**other))

    assert watched.source.set == []


async def test_a_gpu_in_use_stays_as_it_is(watched):
    await obeying(watched.probe, watched.clock, NO_CHECKS)(order(gpu=1))
    await watched.refresh()

    assert watched.source.set == [("GPU-1", True)]
    assert not watched.probe.inventory().gpus[1].mig


async def test_what_crosses_a_threshold_is_told_with_what_changed():
    clock = StillClock()
    source = ToldSource(clock)
    thresholds = Thresholds()
    probe = LiveProbe(DESCRIBED, source=source, clock=clock, seconds=5, thresholds=thresholds)
    source.values[1] = {TEMPERATURE: 91}
    for _ in range(30):
        clock.at_ms += 5_000
        await probe.refresh()

    (told,) = [one for one in probe.changes() if isinstance(one, HealthEventReported)]
    assert (told.gpu, told.kind, told.code, told.uuid) == (1, Kind.HOT, 91, "GPU-1")


async def test_a_check_is_ordered_for_a_gpu_of_this_node_alone(watched):
    ordered: list[Any] = []

    class Ordering:
        order = ordered.append

    checks: Any = Ordering()
    command = CheckGpu(node="n1", gpu=1, expires_at_ms=watched.clock.at_ms + 1, epoch=1)
    obey = obeying(watched.probe, watched.clock, checks)
    await obey(command)
    await obey(CheckGpu(node="n2", gpu=1, expires_at_ms=watched.clock.at_ms + 1, epoch=1))
    await obey(CheckGpu(node="n1", gpu=1, expires_at_ms=watched.clock.at_ms - 1, epoch=1))

    assert ordered == [command]


async def test_an_error_of_an_instance_names_its_slices(watched):
    watched.source.instances[1] = (
        InstanceReading(number=4, profile="2g.20gb", start=2, size=2, values={}),
    )
    await watched.refresh()
    watched.probe.changes()
    watched.xids.hear_driver("GPU-1", XID_CRITICAL, 94, 4)
    watched.xids.hear_driver("GPU-1", XID_CRITICAL, 95, 9)

    told = [one for one in watched.probe.changes() if isinstance(one, HealthEventReported)]
    assert [(one.code, one.instance, one.mask) for one in told] == [(94, 4, 0b1100), (95, 9, 0)]
