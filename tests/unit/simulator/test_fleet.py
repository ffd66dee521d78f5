"""The described fleet: what it consists of, what it reports, and what fails on demand."""

import json
from collections import Counter

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from shared.core.model.nouns import GpuShare
from shared.events.codec import decode_payload
from shared.ports.cluster import Pod
from shared.ports.errors import Transient
from shared.runtime import reporter as reporter_module
from shared.runtime.reporter import Pace, Reporter
from shared.simulator.fleet import routes as routes_module
from shared.simulator.fleet.description import (
    DEFAULT_GROUPS,
    FleetFile,
    Group,
    nodes_of,
    scaled,
)
from shared.simulator.fleet.files import read_fleet
from shared.simulator.fleet.occupancy import occupancy
from shared.simulator.fleet.routes import FleetRoutes
from shared.simulator.machine import Machine, Occupancy

NOW = 1_700_000_000_000


class ManualClock:
    def __init__(self):
        self.ms = NOW

    def now_ms(self):
        return self.ms

    def monotonic_seconds(self):
        return self.ms / 1000


class Log:
    """A publisher that keeps what it is given; `failures` calls fail first."""

    def __init__(self):
        self.rows = []
        self.failures = 0

    async def publish(self, rows):
        if self.failures:
            self.failures -= 1
            raise Transient("away")
        self.rows += rows

    async def close(self):
        pass

    def payloads(self):
        return [
            decode_payload(dict(row.headers)["ce_type"].decode(), row.value) for row in self.rows
        ]


def a_fleet(count=3, gpus=2):
    group = Group(name="n", count=count, flavor="h100", product="H100", gpus=gpus,
                  gpu_memory_mib=1000)  # fmt: skip
    return [Machine(node, now_ms=NOW, seed=1) for node in nodes_of(FleetFile(groups=(group,)), 1)]


def a_reporter(machines, **pace):
    clock, log = ManualClock(), Log()
    reporter = Reporter(probes=machines, publisher=log, clock=clock, pace=Pace(**pace))
    return reporter, log, clock


async def test_a_notice_before_the_first_report_follows_it_with_the_same_generation():
    (machine,) = a_fleet(count=1)
    reporter, log, _ = a_reporter([machine])
    machine.notice(NOW + 5, seconds=60, reason="spot")

    await reporter.announce()
    await reporter.tell_changes()

    told = [(type(one).__name__, one.generation) for one in log.payloads()]
    assert told == [("NodeInventoryReported", NOW + 5), ("NodeNoticeReported", NOW + 5)]


def test_the_default_fleet_has_1200_nodes_of_every_kind():
    nodes = nodes_of(FleetFile(groups=DEFAULT_GROUPS), 0)

    flavors = Counter(node.flavor for node in nodes)
    assert flavors == {"h100": 440, "a100": 310, "h200": 150, "l4": 120, "t4": 80, "cpu": 100}
    assert sum(node.gpus[0].mig for node in nodes if node.gpus) == 100
    assert {node.zone for node in nodes} == {"zone-a", "zone-b", "zone-c"}
    assert len({gpu.uuid for node in nodes for gpu in node.gpus}) == 8_000


def test_racks_blocks_and_nvlink_domains_nest():
    nodes = nodes_of(FleetFile(groups=DEFAULT_GROUPS), 0)

    racks = Counter(node.rack for node in nodes)
    assert all(node.rack.startswith(node.block + "/") for node in nodes)
    assert all(node.block.startswith(node.zone + "/") for node in nodes)
    assert max(racks.values()) <= 16
    assert {len({n.flavor for n in nodes if n.rack == rack}) for rack in racks} == {1}
    assert {n.nvlink_domain for n in nodes if n.flavor == "h100"} == {
        n.name for n in nodes if n.flavor == "h100"
    }


def test_the_same_seed_gives_the_same_uuids_and_another_does_not():
    file = FleetFile(groups=DEFAULT_GROUPS[:1])

    assert nodes_of(file, 5) == nodes_of(file, 5)
    assert nodes_of(file, 5)[0].gpus != nodes_of(file, 6)[0].gpus


@pytest.mark.parametrize("nodes", [1, 7, 1_200, 10_000])
def test_a_scaled_fleet_has_exactly_so_many_nodes(nodes):
    assert sum(group.count for group in scaled(DEFAULT_GROUPS, nodes)) == nodes


def test_a_fleet_file_is_json_or_yaml_with_groups_and_nodes(tmp_path):
    single = msgspec.to_builtins(nodes_of(FleetFile(groups=DEFAULT_GROUPS[:1]), 0)[0])
    group = {"name": "small", "count": 2, "flavor": "cpu"}
    (tmp_path / "a.json").write_text(json.dumps({"groups": [group], "nodes": [single]}))
    (tmp_path / "a.yaml").write_text("groups:\n- {name: small, count: 2, flavor: cpu}\n")

    by_json = read_fleet(tmp_path / "a.json", 0, 0)
    by_yaml = read_fleet(tmp_path / "a.yaml", 0, 0)

    assert [node.name for node in by_json] == ["h100-0000", "small-0000", "small-0001"]
    assert by_yaml == by_json[1:]


@pytest.mark.parametrize(
    "text",
    [
        '{"groups": [{"name": "a"}]}',
        '{"group": []}',
        "{",
        json.dumps({"groups": 2 * [{"name": "a", "count": 1, "flavor": "x"}]}),
    ],
)
def test_a_broken_fleet_file_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)

    with pytest.raises(ValueError, match=r"a\.json|same name"):
        read_fleet(tmp_path / "a.json", 0, 0)


async def test_every_inventory_is_announced_and_told_again_under_the_same_id():
    reporter, log, clock = a_reporter(a_fleet(3))

    await reporter.announce()
    clock.ms += 60_000
    await reporter.announce()

    ids = [row.event_id for row in log.rows]
    assert reporter.ready
    assert [one.node.name for one in log.payloads()[:3]] == ["n-0000", "n-0001", "n-0002"]
    assert ids[:3] == ids[3:]
    assert {(row.topic, row.partition) for row in log.rows} == {("node.facts.v1", 0)}


async def test_a_failed_gpu_is_told_at_once_and_stands_in_the_inventory():
    machines = a_fleet(1)
    reporter, log, _ = a_reporter(machines)
    await reporter.announce()

    machines[0].set_gpu(1, NOW + 5, healthy=False, reason="XID 79")
    await reporter.tell_changes()
    await reporter.tell_changes()
    await reporter.announce()

    _, health, inventory = log.payloads()
    assert (health.gpu, health.healthy, health.reason) == (1, False, "XID 79")
    assert health.generation == inventory.generation > NOW
    assert [gpu.healthy for gpu in inventory.node.gpus] == [True, False]


def test_generations_go_up_even_when_the_clock_does_not():
    machine = a_fleet(1)[0]

    machine.set_ready(NOW - 10, ready=False, reason="x")
    machine.set_gpu(0, NOW - 10, healthy=False, reason="x")

    generations = [change.generation for change in machine.changes()]
    assert generations == [NOW + 1, NOW + 2]
    assert machine.set_gpu(0, NOW, healthy=False, reason="x") is False


async def test_use_is_told_in_turn_at_the_rate_that_is_allowed():
    reporter, log, _ = a_reporter(
        a_fleet(10), usage_seconds=10, usage_messages_per_second_max=1_000
    )

    await reporter.tell_usage(5)
    await reporter.tell_usage(5)

    assert [one.node for one in log.payloads()] == [f"n-{number:04d}" for number in range(10)]


async def test_many_nodes_do_not_exceed_the_rate():
    reporter, log, _ = a_reporter(a_fleet(50), usage_seconds=1, usage_messages_per_second_max=10)

    await reporter.tell_usage(1)

    assert len(log.rows) == 10


async def test_a_broker_that_is_away_is_waited_for(monkeypatch):
    monkeypatch.setattr(reporter_module, "RETRY_SECONDS", 0)
    reporter, log, _ = a_reporter(a_fleet(3))
    log.failures = 2

    await reporter.announce()

    assert len(log.rows) == 3


def test_only_what_is_held_is_in_use():
    machine = a_fleet(1, gpus=3)[0]
    shares = (
        GpuShare(index=0, mask=255, milli=1000, memory_mib=1000),
        GpuShare(index=2, mask=0, milli=500, memory_mib=400),
    )
    pod = Pod(name="a", workload_id="w", attempt=1, rank=0, size=1, epoch=1, node="n-0000",
              shares=shares, phase="Running")  # fmt: skip
    waiting = msgspec.structs.replace(pod, name="b", node="n-0001", phase="Pending")

    nodes = occupancy([pod, waiting])
    untold = machine.usage(NOW)
    machine.occupy(nodes["n-0000"])
    usage = machine.usage(NOW)

    assert set(nodes) == {"n-0000"}
    assert usage.utilization_percent[0] > usage.utilization_percent[2] > 0
    assert (usage.utilization_percent[1], usage.memory_used_mib[1]) == (0, 0)
    assert usage.memory_used_mib == (900, 0, 360)
    assert (untold.unread, usage.unread) == ((0, 1, 2), ())
    assert usage.sm_clock_mhz == (1_980, 345, 1_980)
    assert (usage.pcie_replays, usage.throttled) == ((0, 0, 0), ())
    quiet = occupancy([pod, waiting], {"w": 0})["n-0000"]
    assert [(1000, 0), (500, 0)] == [(one.gpu_milli, one.busy_milli) for one in quiet.values()]


def test_a_node_that_is_down_uses_nothing():
    machine = a_fleet(1)[0]
    machine.occupy({0: Occupancy(1000, 1000, 1000)})

    machine.set_ready(NOW, ready=False, reason="x")

    assert machine.usage(NOW).utilization_percent == (0, 0)


@pytest.fixture
async def fleet():
    machines = {machine.name: machine for machine in a_fleet(2)}
    told: list[object] = []

    async def node_changed(name, ready):
        if cluster_away:
            raise aiohttp.ClientConnectionError
        told.append((name, ready))

    cluster_away: list[bool] = []
    use: dict[str, int] = {}
    routes = FleetRoutes(
        machines, clock=ManualClock(), poke=lambda: told.append("poke"), ready=lambda: True,
        node_changed=node_changed, use=use,
    )  # fmt: skip
    async with TestClient(TestServer(routes.application())) as client:
        client.cluster_away = cluster_away  # type: ignore[attr-defined]  # for one test
        client.use = use  # type: ignore[attr-defined]  # for one test
        yield client, machines, told


async def test_a_node_stays_as_it_is_while_the_cluster_cannot_be_told(fleet):
    client, machines, told = fleet
    client.cluster_away.append(True)

    answer = await client.post("/v1/nodes/n-0001/down")

    assert answer.status == 502
    assert machines["n-0001"].inventory().ready
    assert told == []


async def test_failures_come_over_http_and_the_cluster_hears_of_nodes(fleet):
    client, machines, told = fleet

    down = await client.post("/v1/nodes/n-0001/down?reason=power")
    again = await client.post("/v1/nodes/n-0001/down")
    gpu = await client.post("/v1/nodes/n-0000/gpus/1/fail")
    nodes = (await (await client.get("/v1/nodes")).json())["nodes"]

    assert [(await one.json())["changed"] for one in (down, again, gpu)] == [True, False, True]
    known = [("n-0001", False), "poke"]
    assert told == [*known, *known, "poke"], "also what this process knew: the cluster may not"
    assert machines["n-0001"].changes()[0].reason == "power"
    assert [(one["ready"], one["failed_gpus"]) for one in nodes] == [(True, [1]), (False, [])]


async def test_what_comes_back_is_told_too(fleet):
    client, machines, told = fleet
    await client.post("/v1/nodes/n-0001/down")
    await client.post("/v1/nodes/n-0000/gpus/1/fail")

    await client.post("/v1/nodes/n-0001/up")
    await client.post("/v1/nodes/n-0000/gpus/1/heal")

    assert told[-3:] == [("n-0001", True), "poke", "poke"]
    assert [one.healthy for one in machines["n-0000"].changes()] == [False, True]
    assert machines["n-0001"].inventory().ready


@pytest.mark.parametrize("path", ["/v1/nodes/nobody/down", "/v1/nodes/n-0000/gpus/9/fail"])
async def test_what_does_not_exist_cannot_fail(fleet, path):
    client, _, told = fleet

    assert (await client.post(path)).status == 404
    assert told == []


async def test_work_can_be_told_how_much_of_its_gpus_it_uses(fleet, monkeypatch):
    client, _, _ = fleet
    monkeypatch.setattr(routes_module, "USE_MAX", 2)

    for name in ("w1", "w2", "w3"):
        assert (await client.post(f"/v1/workloads/{name}/use?percent=3")).status == 200
    await client.post("/v1/workloads/w3/use?percent=100")
    wrong = [await client.post(f"/v1/workloads/w/use?percent={one}") for one in ("101", "x", "-1")]

    assert client.use == {"w2": 3}
    assert [400] * 3 == [one.status for one in wrong]
