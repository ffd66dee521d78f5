"""Faults of devices on demand: what a simulated machine tells, and what is asked of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from shared.core.health.events import HealthEventKind
from shared.core.model.nouns import Gpu, Node
from shared.events.nodes import GpuHealthReported, HealthEventReported
from shared.simulator.fleet.routes import FleetRoutes
from shared.simulator.machine import Machine

NOW = 1_700_000_000_000


class FleetClock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_seconds(self) -> float:
        return 0.0


def a_machine() -> Machine:
    gpus = tuple(Gpu(index=index, uuid=f"u{index}", memory_mib=80) for index in range(2))
    node = Node(name="n1", flavor="f", product="p", cpu_milli=1, memory_mib=1, gpus=gpus)
    return Machine(node, now_ms=NOW, seed=0)


def test_what_a_driver_tells_of_a_device_is_reported_with_its_uuid():
    machine = a_machine()

    assert machine.tell(1, NOW, HealthEventKind.XID, code=48)
    assert not machine.tell(2, NOW, HealthEventKind.XID, code=48)

    (event,) = machine.changes()
    assert isinstance(event, HealthEventReported)
    assert (event.gpu, event.code, event.uuid, event.at_ms) == (1, 48, "u1", NOW)


def test_a_lost_device_is_unhealthy_until_it_returns():
    machine = a_machine()
    machine.tell(0, NOW, HealthEventKind.LOST)
    event, health = machine.changes()

    assert isinstance(event, HealthEventReported)
    assert isinstance(health, GpuHealthReported)
    assert (health.gpu, health.healthy, health.reason) == (0, False, "lost")
    machine.tell(0, NOW, HealthEventKind.RETURNED)
    assert machine.inventory().gpus[0].healthy


class FleetServer:
    def __init__(self) -> None:
        self.machine = a_machine()
        self.url = ""
        self.nodes: list[tuple[str, bool]] = []

    async def changed(self, name: str, ready: bool) -> None:
        self.nodes.append((name, ready))


@pytest.fixture
async def fleet() -> AsyncIterator[FleetServer]:
    one = FleetServer()
    routes = FleetRoutes(
        {"n1": one.machine},
        clock=FleetClock(),
        poke=lambda: None,
        ready=lambda: True,
        node_changed=one.changed,
    )
    runner = web.AppRunner(routes.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield one
    await runner.cleanup()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("n1/gpus/0/tell?kind=xid&code=79", 200, "told"),
        ("n1/gpus/0/tell?kind=what", 400, "kind: 'what' is not one of xid, double-bit-ecc"),
        ("n1/gpus/0/tell?code=-1", 400, "code: '-1' is not a number"),
        ("n1/gpus/7/tell", 404, "n1 has no GPU 7"),
        ("n9/gpus/0/tell", 404, "no node n9"),
        ("n1/gpus/1/thermal", 200, "grows"),
        ("n1/gpus/7/leak", 404, "n1 has no GPU 7"),
        ("n1/silent?seconds=60", 200, "silent"),
        ("n1/silent?seconds=soon", 400, "seconds: 'soon' is not a number of seconds"),
    ],
)
async def test_a_fleet_is_told_by_http_and_says_what_is_wrong(fleet, path, status, text):
    async with ClientSession() as session:
        answer = await session.post(f"{fleet.url}/v1/nodes/{path}")

        assert (answer.status, text in await answer.text()) == (status, True)


async def chaos(fleet: FleetServer, *arguments: str) -> tuple[int, str, str]:
    """`muster-ops chaos ...` as a process, against this fleet."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "operations", "chaos", *arguments, "--fleet-url", fleet.url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, wrong = await process.communicate()
    return process.returncode or 0, out.decode(), wrong.decode()


async def test_chaos_breaks_a_device_and_heals_it(fleet):
    code, out, _ = await chaos(fleet, "xid", "--node", "n1", "--gpu", "1", "--code", "119")
    await chaos(fleet, "lost", "--node", "n1")
    await chaos(fleet, "reset", "--node", "n1", "-o", "json")

    told = [one for one in fleet.machine.changes() if isinstance(one, HealthEventReported)]
    assert (code, out) == (0, "xid: told of GPU 1 of node n1; see `muster nodes n1`\n")
    assert [(one.gpu, one.kind, one.code) for one in told] == [
        (1, "xid", 119), (0, "lost", 0), (0, "returned", 0),
    ]  # fmt: skip


async def test_chaos_takes_a_node_down(fleet):
    await chaos(fleet, "node", "--node", "n1")

    assert fleet.nodes == [("n1", False)]
    assert not fleet.machine.inventory().ready


async def test_chaos_makes_two_errors_of_a_link_heat_a_leak_and_silence(fleet):
    for fault in ("nvlink", "thermal", "leak"):
        code, _, wrong = await chaos(fleet, fault, "--node", "n1", "--gpu", "1")
        assert (code, wrong) == (0, "")
    _, out, _ = await chaos(fleet, "silent", "--node", "n1", "--for", "60", "-o", "json")

    told = [one for one in fleet.machine.changes() if isinstance(one, HealthEventReported)]
    use = fleet.machine.usage(NOW + 60_000 * 60)
    assert [(one.gpu, one.kind, one.code) for one in told] == [(1, "xid", 74)] * 2
    assert (use.temperature_celsius, use.memory_used_mib) == ((32, 97), (0, 80))
    assert json.loads(out) == {"fault": "silent", "node": "n1", "for_s": 60}
    assert (fleet.machine.is_mute(NOW), fleet.machine.is_mute(NOW + 60_000)) == (True, False)


async def test_a_scenario_is_carried_out_and_a_dry_run_only_told(fleet, tmp_path):
    document = tmp_path / "chaos.yaml"
    document.write_text(
        "- {at_s: 0.2, do: node, node: n1}\n- {at_s: 0, do: xid, node: any, gpu: any, code: 13}\n"
    )
    arguments = ("--scenario", str(document), "--seed", "3")

    _, planned, _ = await chaos(fleet, *arguments, "--dry-run")
    untouched = fleet.machine.changes()
    code, out, _ = await chaos(fleet, *arguments)

    (told,) = [one for one in fleet.machine.changes() if isinstance(one, HealthEventReported)]
    assert untouched == []
    assert (code, told.code) == (0, 13)
    assert planned.splitlines() == [
        f"     0.0 s  xid 13: GPU {told.gpu} of node n1",
        "     0.2 s  node: node n1",
    ]
    assert [line.rsplit("  ", 1) for line in out.splitlines()] == [
        [planned.splitlines()[0], "[1/2]"],
        [planned.splitlines()[1], "[2/2]"],
    ]
    assert fleet.nodes == [("n1", False)]


async def test_a_scenario_with_faults_of_its_own_is_refused_whole(fleet, tmp_path):
    document = tmp_path / "chaos.yaml"
    document.write_text("- {at_s: -1, do: xid, node: n1}\n- {at_s: 0, do: hug, node: n1}\n")

    code, out, wrong = await chaos(fleet, "--scenario", str(document))

    assert (code, out) == (5, "")
    assert "steps[0].at_s: must be a number from 0 to 86,400 (given: -1)" in wrong
    assert "steps[1].do: must be one of xid, ecc," in wrong
    assert fleet.machine.changes() == []


async def test_chaos_says_what_it_cannot_do(fleet):
    unknown = await chaos(fleet, "xid", "--node", "n9")
    no_gpu = await chaos(fleet, "xid", "--node", "n1", "--gpu", "9")

    assert unknown == (2, "", "error: no node n9\n")
    assert no_gpu == (2, "", "error: n1 has no GPU 9\n")
