"""A running system with work of every sort, faults of devices, two agents and Prometheus."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import aiohttp

from deploy.local.processes import wait_until
from deploy.local.system import LocalSystem
from deploy.observe.servers import RULES, Observing
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from shared.events.quotas import DebtsTold
from shared.events.topics import QUOTA_FACTS
from tests.support.agents import AgentProcess
from tests.support.nvml.boards import h100, t4
from tests.support.system import TEAM, UNLIMITED, Stage, launch, now_ms
from tests.support.work import record

SCRAPE_SECONDS: Final = 1
QUEUES: Final = {TEAM: "default", "small": "default"}
"""Flavors of the queues, by name."""
MANY_GPU_MILLI: Final = 1_000_000
"""A quota that is shown and keeps nothing waiting."""
BUDGET: Final = {"gpu_hours_per_month": 1_000_000}
"""More than is spent here."""
PRICE: Final = {"price_microdollars_per_gpu_hour": 3_600_000}
DEAF: Final = {"url": "https://hooks.example.com/budgets", "events": ["budget"]}
"""A destination that is told of nothing here."""
BOARDS: Final = {"agent-a": h100(), "agent-b": t4() | {"gpu.0.fan": 40}}
"""Nodes with an agent on a stand-in, which placement does not know."""
NOTIFICATIONS: Final = {
    "MUSTER_NOTIFICATION_NETWORKS": "127.0.0.0/8",
    "MUSTER_NOTIFICATION_LAST_RETRY_SECONDS": "1",
}
GROUP: Final = {
    "name": "n",
    "count": 3,
    "flavor": "default",
    "product": "NVIDIA-H100-80GB-HBM3",
    "gpus": 4,
    "gpu_memory_mib": 81_559,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What runs."""

    system: LocalSystem
    observing: Observing
    agents: dict[str, AgentProcess]
    """Of nodes that placement does not know, by name."""
    told: list[dict[str, Any]]
    """Alerts that Alertmanager has told its receiver, in order."""


@contextmanager
def receiving(told: list[dict[str, Any]]) -> Iterator[str]:
    """A receiver of Alertmanager's; its URL."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            told.extend(json.loads(self.rfile.read(length))["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(  # type: ignore[explicit-override]  # new in Python 3.12
            self, *_: object
        ) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def running(
    folder: Path, *, group: Mapping[str, Any] = GROUP, rules: Path = RULES
) -> Iterator[Live]:
    """The system with a fleet of one group, agents on stand-ins, and Prometheus."""
    described = folder / "fleet.json"
    described.write_text(json.dumps({"groups": [group]}))
    fleet = {
        "MUSTER_FLEET_FILE": str(described),
        "MUSTER_FLEET_USAGE_SECONDS": "0.5",
        "MUSTER_FLEET_FOLLOW_SECONDS": "0.25",
    }
    told: list[dict[str, Any]] = []
    with ExitStack() as stack:
        overrides = {"fleet": fleet, "*": NOTIFICATIONS}
        system = launch(folder / "system", overrides=overrides, leave_out=())
        stack.callback(system.discard)
        agents = {name: _agent(system, folder / name, board) for name, board in BOARDS.items()}
        for one in agents.values():
            stack.callback(one.end)
        running = agents.values()
        wait_until(lambda: all(map(_exposes, running)), seconds=90, what="agents that read GPUs")
        urls = {name: system.url(name) for name in system._ports}
        observing = Observing(
            folder / "observe",
            urls,
            agents=[f"127.0.0.1:{one.port}" for one in running],
            receiver=stack.enter_context(receiving(told)),
            seconds=SCRAPE_SECONDS,
            rules=rules,
        )
        stack.callback(observing.stop)
        observing.start()
        yield Live(system=system, observing=observing, agents=agents, told=told)


def _exposes(agent: AgentProcess) -> bool:
    return bool(agent.metric("DCGM_FI_DEV_GPU_TEMP{"))


def _agent(system: LocalSystem, folder: Path, state: dict[str, Any]) -> AgentProcess:
    access = system.kafka.access("fleet")
    more = {**access.variables(), "MUSTER_AGENT_REPORTS": "usage", "MUSTER_USAGE_SECONDS": "2"}
    return AgentProcess(access.bootstrap, "muster", folder, state, **more)


async def organise(
    stage: Stage, queues: Mapping[str, str] = QUEUES, destination: Mapping[str, Any] = DEAF
) -> None:
    """A team with idle work that is warned of, its queues by flavor, and a destination."""
    idle = {"warn_after_seconds": 2, "release_after_seconds": 600}
    for flavor in set(queues.values()):
        await stage.put(f"flavors/{flavor}", PRICE)
    await stage.put(f"teams/{TEAM}", {"default_queue": TEAM, "idle": idle, "budget": BUDGET})
    limits = {"cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    for name, flavor in queues.items():
        gpu_milli = UNLIMITED if name == TEAM else MANY_GPU_MILLI
        flavors = [{"flavor": flavor, "nominal": {"gpu_milli": gpu_milli, **limits}}]
        await stage.put(f"queues/{name}", {"team": TEAM, "flavors": flavors})
    await stage.put("notifications/hook", {"secret": "key", **destination})
    await stage.until("SELECT count(*) FROM placement.node", 3, 60)


async def submit(
    stage: Stage,
    name: str,
    gpus: int,
    *,
    use: int = 90,
    pods: int = 1,
    queue: str = "",
    kind: WorkloadKind = WorkloadKind.TRAINING,
) -> str:
    """Submit work that uses so much of its GPUs; its id."""
    identifier = workload_id(TEAM, name)
    await machine(stage, f"workloads/{identifier}/use", percent=str(use))
    pod_set = PodSet(count=pods, gpu=GpuRequest(count=gpus), cpu_milli=1_000, memory_mib=1_024)
    spec = WorkloadSpec(
        name=name,
        kind=kind,
        pod_sets=(pod_set,),
        queue=queue,
        grace_seconds=1,
        max_duration_seconds=600,
    )
    assert await stage.submit_http(spec, name) in (200, 202)
    return identifier


async def fault(stage: Stage, node: str, gpu: int, kind: str, code: int) -> None:
    """A device of the simulated fleet tells of something."""
    await machine(stage, f"nodes/{node}/gpus/{gpu}/tell", kind=kind, code=str(code))


async def machine(stage: Stage, path: str, **params: str) -> None:
    """A request to the simulated fleet."""
    url = f"{stage.system.url('fleet')}/v1/{path}"
    async with aiohttp.ClientSession() as session, session.post(url, params=params) as reply:
        assert reply.status in (200, 202), await reply.text()


async def live(stage: Stage, turn: int) -> None:
    """Work that runs, ends, waits, is idle and is evicted from a GPU that breaks."""
    busy = await submit(stage, f"busy-{turn}", 2, pods=3)
    await stage.reaches(busy, "running", 30)
    idle = await submit(stage, f"idle-{turn}", 1, use=0)
    found = await stage.reaches(idle, "running", 30)
    waits = await submit(stage, f"waits-{turn}", 2, pods=3)
    await asyncio.sleep(2)
    await stage.get(f"workloads/{waits}/eta")
    await fault(stage, found["nodes"][0], 0, "xid", 119)
    await fault(stage, found["nodes"][0], 1, "xid", 63)
    await tell_debts(stage, turn)
    await asyncio.sleep(4)
    await stage.command(busy, "cancel")
    await stage.reaches(waits, "running", 30)
    await asyncio.sleep(6)
    for one in (idle, waits):
        await stage.command(one, "cancel")
    await stage.reaches(waits, "cancelled", 30)


async def tell_debts(stage: Stage, turn: int) -> None:
    """As quota does once a minute, for which nobody waits here."""
    at_ms = now_ms()
    fact = DebtsTold(debts={TEAM: 31_250 + turn, "small": -turn}, at_ms=at_ms)
    await stage.publish([record(fact, QUOTA_FACTS, "", f"debts-{turn}", at_ms, 0)])


def answered(observing: Observing, expression: str, seconds: int = 90) -> list[dict[str, Any]]:
    """Series of an expression with at least one number within the last seconds."""
    now = time.time()
    asked = {"query": expression, "start": now - seconds, "end": now, "step": SCRAPE_SECONDS}
    series = ask(observing, "query_range", **asked)["result"]
    return [one for one in series if any(value != "NaN" for _, value in one["values"])]


def ask(observing: Observing, path: str, **parameters: Any) -> dict[str, Any]:
    """What Prometheus answers; raises with its words where it cannot."""
    url = f"{observing.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
            return found
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {error.read().decode()}") from error


async def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something that Prometheus sees later."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.5)
