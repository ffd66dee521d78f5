"""The simulated cell: what happens to it by a seed, and the trace of it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from shared.adapters.memory_cluster import MemoryCluster
from shared.adapters.memory_log import MemoryLog
from shared.simulator.pods import Timing
from tests.simulation.client import NODES, Client
from tests.simulation.faults import COMMIT, SERVICES, Fault
from tests.simulation.judges import doubled_gpus, verdict
from tests.simulation.ports import SHARD, Armed, SimulatedDatabase, Time
from tests.simulation.services import Service

SETTLE_SECONDS: Final = 300.0
TICK_SECONDS: Final = 0.1


@dataclass(slots=True)
class Ended:
    """What became of one seed."""

    problems: Sequence[str]
    digest: str
    records: int
    seconds: float


@dataclass
class World:
    """Everything outside the processes; made inside a running virtual loop."""

    seed: int
    faults: Sequence[Fault]
    time: Time = field(default_factory=Time)
    graves: list[Any] = field(default_factory=list)
    """Killed processes are kept until the end: to collect them would run their `finally`."""
    crashes: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(f"world {self.seed}")
        self.armed = Armed(Random(f"ports {self.seed}"))
        self.log = MemoryLog(clock=self.time)
        self.databases = {
            name: SimulatedDatabase(self.time, name, Random(f"{name} {self.seed}"))
            for name in SERVICES
        }
        timing = Timing(start_delay_ms=200, stop_delay_ms=300)
        self.cluster = MemoryCluster(self.time, timing, seed=self.seed, window_events=40)
        self.current: dict[str, Service] = {}
        self.slots: dict[str, int] = defaultdict(int)
        self.client = Client(self.log, Random(f"client {self.seed}"), self.time)

    async def run(self) -> Ended:
        """The whole story of the seed."""
        for name in SERVICES:
            self.current[name] = Service(self, name, "a")
        beside = [asyncio.create_task(one) for one in (self._tick(), self.client.run())]
        beside += [asyncio.create_task(self._happen(one)) for one in self.faults]
        loop = asyncio.get_running_loop()
        while loop.time() < SETTLE_SECONDS and not (
            self.client.done and all(one.done() for one in beside[1:])
        ):
            await asyncio.sleep(0.5)
            for one in beside:
                if one.done():
                    one.result()
        await asyncio.sleep(3.0)
        problems = [*verdict(self)]
        return Ended(problems, self.digest(), self._count(), loop.time())

    async def _tick(self) -> None:
        while True:
            self.cluster.tick()
            self.doubled += doubled_gpus(self.cluster)
            await asyncio.sleep(TICK_SECONDS)

    # ── faults ──

    async def _happen(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_seconds)
        kind = fault.kind
        if kind in COMMIT:
            self.armed.waiting[fault.service, "commit"].append(kind)
        elif kind.startswith("publish"):
            times = 1 + round(fault.amount * 4) if kind == "publish_away" else 1
            self.armed.waiting[fault.service, "publish"] += [kind] * times
        else:
            await getattr(self, f"_{kind}")(fault)

    async def _kill(self, fault: Fault) -> None:
        service = self.current[fault.service]
        if not service.process.dead:
            service.kill()
            await asyncio.sleep(fault.amount * 2)
            service.again()

    async def _pause(self, fault: Fault) -> None:
        """It stands still, for long enough perhaps that a standby takes over."""
        service = self.current[fault.service]
        process = service.process
        process.paused = True
        await asyncio.sleep(fault.amount * 4)
        if fault.amount > 0.3:
            self._replace(fault.service)
            await asyncio.sleep(fault.amount * 8)
        process.resume()
        if self.current[fault.service] is not service:
            await asyncio.sleep(2.0)
            service.loop.stop()

    async def _roll(self, fault: Fault) -> None:
        """A new process waits for the lease, the old one is told to end."""
        service = self.current[fault.service]
        self._replace(fault.service)
        await asyncio.sleep(fault.amount)
        service.loop.stop()

    def _replace(self, name: str) -> None:
        self.slots[name] += 1
        self.current[name] = Service(self, name, f"b{self.slots[name]}")

    async def _clock(self, fault: Fault) -> None:
        service = self.current[fault.service]
        service.time.off_ms = round((fault.amount - 0.5) * 20_000)
        await asyncio.sleep(3.0)
        service.time.off_ms = 0

    async def _trim(self, fault: Fault) -> None:
        """Retention removes what every reader has read: nothing where one has yet to begin."""
        read: dict[tuple[str, int], int] = {}
        for name in SERVICES:
            offsets = self.databases[name].shard(SHARD).offsets
            for topic, partitions in self.current[name].handler.topics():
                for place in ((topic.name, partition) for partition in partitions):
                    offset = offsets.get(place, 0)
                    read[place] = min(read.get(place, offset), offset)
        for place, offset in read.items():
            self.log.trim(*place, max(offset, self.log.starts.get(place, 0)))

    async def _watch(self, fault: Fault) -> None:
        self.cluster.drop_watches()

    async def _reply_lost(self, fault: Fault) -> None:
        faults = self.cluster.dice.faults
        self.cluster.dice.faults = type(faults)(reply_lost=0.5)
        await asyncio.sleep(fault.amount)
        self.cluster.dice.faults = type(faults)()

    async def _node(self, fault: Fault) -> None:
        node = NODES[int(fault.amount * len(NODES))]
        self.cluster.pods.node_down(node)
        await asyncio.sleep(1.0 + fault.amount * 3)
        self.cluster.pods.node_up(node, self.time.now_ms())

    # ── the trace ──

    def _count(self) -> int:
        return sum(len(one) for one in self.log.records.values())

    def digest(self) -> str:
        """Over every record of the log with its time, and over every audit row."""
        sums = hashlib.blake2b(digest_size=16)
        for place in sorted(self.log.records):
            for one in self.log.records[place]:
                sums.update(repr(one).encode())
        for name in SERVICES:
            sums.update(repr(self.databases[name].shard(SHARD).audits).encode())
        return sums.hexdigest()
