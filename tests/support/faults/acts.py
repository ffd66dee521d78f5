"""The faults by name: each is done to a loaded system and mended, and tells how long it took."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from deploy.local.services import KAFKA, POSTGRES
from tests.support.faults.load import RestingLoad
from tests.support.faults.system import STANDBY, STOOD_BY, BreakableSystem
from tests.support.killing import SERVERS, SERVICES, decided, patient
from tests.support.recovering import named_seconds
from tests.support.system import Stage

WATCHED: Final = ("admission", "quota", "placement", "binder")
"""Schemas of the services through which every workload goes."""
DECIDES_AGAIN_SECONDS_MAX: Final = 60.0
AGAIN_SECONDS: Final = 10.0
"""Limit of services and the database ..."""
BROKER_AGAIN_SECONDS: Final = 20.0
"""... and where the broker was away: it lets its old registration time out first."""
TAKEN_OVER_SECONDS: Final = 10.0
CLOCK_NAMED_SECONDS: Final = 5.0
CLOCK_STEPS_SECONDS: Final = (3_600, -3_600, 60, -60)
PAUSE_SECONDS: Final = (1.0, 12.0)
AWAY_SECONDS: Final = (5.0, 20.0)
PAUSED: Final = (*SERVICES, *SERVERS, "gateway", "simulated-cluster")
ENDED: Final = (*SERVICES, "gateway", "simulated-cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How long one thing took, and how long it may."""

    what: str
    seconds: float
    limit_seconds: float

    @property
    def slow(self) -> bool:
        """Whether it took longer than it may."""
        return self.seconds > self.limit_seconds

    @override
    def __str__(self) -> str:
        mark = f" SLOW (limit {self.limit_seconds:g} s)" if self.slow else ""
        return f"{self.what} {self.seconds:.1f} s{mark}"


@dataclass(slots=True, kw_only=True)
class Broken:
    """A system under faults, and the seed's own choices."""

    system: BreakableSystem
    stage: Stage
    generator: random.Random
    load: RestingLoad


Act = Callable[[Broken], Awaitable[list[Took]]]


async def decides_again(stage: Stage, limit_seconds: float = AGAIN_SECONDS) -> Took:
    """Until each service has committed another unit than the one it stands at now."""
    started = time.monotonic()
    before = {one: await _unit(stage, one) for one in WATCHED}
    left = set(WATCHED)
    while left and time.monotonic() - started < DECIDES_AGAIN_SECONDS_MAX:
        left = {one for one in left if await _unit(stage, one) <= before[one]}
        await asyncio.sleep(0.05)
    what = f"decides again{f', but for {sorted(left)}' if left else ''}"
    return Took(what=what, seconds=time.monotonic() - started, limit_seconds=limit_seconds)


async def _unit(stage: Stage, schema: str) -> int:
    _, unit = await patient(lambda: decided(stage, schema))
    return unit


async def pause_one(broken: Broken) -> list[Took]:
    """SIGSTOP of one process, a server or a service, for a while."""
    name = broken.generator.choice(PAUSED)
    with broken.system.frozen([name]):
        await asyncio.sleep(broken.generator.uniform(*PAUSE_SECONDS))
    return [await decides_again(broken.stage)]


async def pause_all(broken: Broken) -> list[Took]:
    """SIGSTOP of everything, as a machine that was suspended."""
    with broken.system.frozen([*PAUSED, STANDBY.name]):
        await asyncio.sleep(broken.generator.uniform(*PAUSE_SECONDS))
    return [await decides_again(broken.stage)]


async def terminate(broken: Broken) -> list[Took]:
    """SIGTERM of a service; its supervisor starts it again."""
    broken.system.send(broken.generator.choice(ENDED), signal.SIGTERM)
    return [await decides_again(broken.stage)]


async def kill(broken: Broken) -> list[Took]:
    """SIGKILL of any process."""
    name = broken.generator.choice(PAUSED)
    await asyncio.to_thread(broken.system.kill, name)
    return [await _after_server(broken, name) if name in SERVERS else await _again(broken)]


async def _again(broken: Broken) -> Took:
    return await decides_again(broken.stage)


async def _after_server(broken: Broken, name: str) -> Took:
    server = getattr(broken.system, name)
    await asyncio.sleep(0.3)
    while not await asyncio.to_thread(server.answers):
        await asyncio.sleep(0.05)
    limit = BROKER_AGAIN_SECONDS if name == KAFKA else AGAIN_SECONDS
    return await decides_again(broken.stage, limit)


def away(name: str) -> Act:
    """A server that is not there for a while."""

    async def act(broken: Broken) -> list[Took]:
        whole = broken.system.away(name)
        await asyncio.to_thread(whole.__enter__)
        try:
            await asyncio.sleep(broken.generator.uniform(*AWAY_SECONDS))
        finally:
            await asyncio.to_thread(whole.__exit__, None, None, None)
        return [await _after_server(broken, name)]

    return act


async def disk_full(broken: Broken) -> list[Took]:
    """Broker and database have no room to write."""
    assert broken.system.disk is not None
    with broken.system.disk.full():
        await asyncio.sleep(broken.generator.uniform(*AWAY_SECONDS))
    took = [await _after_server(broken, name) for name in (POSTGRES, KAFKA)]
    return took[-1:]


async def clock_step(broken: Broken) -> list[Took]:
    """The clock of one service is set, and set right."""
    name = broken.generator.choice(WATCHED)
    clock = broken.system.clocks[name]
    clock.set(broken.generator.choice(CLOCK_STEPS_SECONDS))
    try:
        named = await named_seconds(broken.system, {name}, "the clock of this machine is")
    finally:
        clock.set(0)
    told = Took(what="named", seconds=named, limit_seconds=CLOCK_NAMED_SECONDS)
    return [told, await decides_again(broken.stage)]


async def take_over(broken: Broken) -> list[Took]:
    """The holder stands still for longer than its lease; the standby decides meanwhile."""
    with broken.system.frozen([STOOD_BY]):
        started = time.monotonic()
        taken = await _held_by(broken.stage, STANDBY.name)
    limit = TAKEN_OVER_SECONDS
    took = Took(what="taken over", seconds=taken - started, limit_seconds=limit)
    return [took, await decides_again(broken.stage)]


async def hand_back(broken: Broken) -> None:
    """A standby that decides ends in order, so that the first process does again."""
    if await patient(lambda: _holder(broken.stage)) == STANDBY.name:
        broken.system.send(STANDBY.name, signal.SIGTERM)
        await _held_by(broken.stage, STOOD_BY)


async def _held_by(stage: Stage, slot: str) -> float:
    """Wait until it has placement's lease; when that was, monotonic."""
    deadline = time.monotonic() + DECIDES_AGAIN_SECONDS_MAX
    while await patient(lambda: _holder(stage)) != slot and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return time.monotonic()


async def _holder(stage: Stage) -> str:
    holder: str = await stage.rows.fetchval(
        f"SELECT holder FROM {STOOD_BY}.lease WHERE shard = 'cell-0'"
    )
    return holder


PROCESS_ACTS: Final[Mapping[str, Act]] = MappingProxyType(
    {
        "pause-one": pause_one,
        "pause-all": pause_all,
        "terminate": terminate,
        "kill": kill,
        "broker-away": away(KAFKA),
        "database-away": away(POSTGRES),
        "disk-full": disk_full,
        "clock-step": clock_step,
        "take-over": take_over,
    }
)
