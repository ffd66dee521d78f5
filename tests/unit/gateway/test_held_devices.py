"""What is held of the fleet is read once for all who ask, and again when it is old or failed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from services.gateway.fleet.held import SECONDS, Hold, held_of_fleet
from shared.adapters.memory import ManualClock
from shared.ports.errors import Transient

PLACEMENT = (
    '{"flavor":"a","charge":{},"pods":[{"pod_set":"p","rank":0,"node":"n1","shares":'
    '[{"index":2,"mask":3,"milli":250,"memory_mib":1}]},{"pod_set":"q","rank":1,"node":"n2"}]}'
)
SPEC = '{"name":"x","pod_sets":[{"name":"p","gpu":{"mig_profile":"2g.20gb"}},{"name":"q"}]}'


class Reader:
    """One workload that holds two slices; `failures` reads fail first."""

    def __init__(self, failures: int = 0) -> None:
        self.read = 0
        self.failures = failures

    async def fetch(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        if "workload_spec" in statement:
            assert arguments == (["w1"],)
            return [{"id": "w1", "spec": SPEC}]
        self.read += 1
        if self.read <= self.failures:
            raise Transient("the database is away")
        return [{"id": "w1", "team": "red", "placement": PLACEMENT}]


def a_door(reader: Reader) -> Any:
    return SimpleNamespace(reader=reader, clock=ManualClock(), cache={})


async def test_many_who_ask_at_once_share_one_read():
    gateway = a_door(reader := Reader())

    found = await asyncio.gather(*(held_of_fleet(gateway) for _ in range(20)))

    assert 1 == reader.read
    assert all(one is found[0] for one in found)
    (hold,) = found[0].of("n1", 2)
    assert Hold("w1", "red", 250, 3, "p") == hold
    assert "2g.20gb" == found[0].profile(hold)
    assert () == found[0].of("n2", 0)


async def test_it_is_read_again_when_it_is_old():
    gateway = a_door(reader := Reader())

    await held_of_fleet(gateway)
    gateway.clock.advance(SECONDS - 0.1)
    await held_of_fleet(gateway)
    assert 1 == reader.read
    gateway.clock.advance(0.1)
    await held_of_fleet(gateway)

    assert 2 == reader.read


async def test_a_read_that_failed_is_not_kept():
    gateway = a_door(Reader(failures=1))

    with pytest.raises(Transient):
        await held_of_fleet(gateway)

    assert (await held_of_fleet(gateway)).of("n1", 2)


async def test_one_who_leaves_takes_the_read_from_nobody():
    gateway = a_door(reader := Reader())
    first = asyncio.create_task(held_of_fleet(gateway))
    await asyncio.sleep(0)
    other = asyncio.create_task(held_of_fleet(gateway))
    await asyncio.sleep(0)

    first.cancel()

    assert (await other).of("n1", 2)
    assert 1 == reader.read
