"""The tables of the simulation hold and answer what PostgreSQL's do.

Units of random histories go to both, some twice and some not at all, so that later ones are
refused; what was refused, every table and every answer to `load` must be the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from services.admission.handler import AdmissionHandler
from services.binder.handler import BinderHandler
from services.placement.handlers import PlacementHandler
from services.placement.unit import agreement
from services.quota.handler import QuotaHandler
from shared.adapters.clock import SystemClock
from shared.adapters.memory_cluster import MemoryCluster
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.ports.errors import MusterError
from shared.ports.store import Unit, Write
from shared.runtime.handler import Handler, Outcome
from shared.simulator.pods import Timing
from tests.fixtures.servers import Database
from tests.golden.histories import HISTORIES
from tests.simulation.__main__ import run
from tests.simulation.rows import catalog
from tests.simulation.rows.tables import Tables

KINDS: dict[str, Callable[[], Any]] = {
    "admission": AdmissionHandler,
    "quota": QuotaHandler,
    "placement": PlacementHandler,
    "binder": lambda: BinderHandler(
        cluster=MemoryCluster(SystemClock(), Timing(start_delay_ms=0, stop_delay_ms=0), seed=0),
        clock=SystemClock(),
    ),
}
COMPARED_EVERY = 8
TIED = "ORDER BY changed_at_ms DESC"
"""An order that leaves some rows in none."""


async def test_they_are_made_as_the_migrations_make_them(database: Database) -> None:
    pool = Pool(database.url())
    tables = await catalog.read(pool)
    await pool.close()
    if os.environ.get("MUSTER_RECORD"):
        catalog.FILE.write_text(tables)

    assert catalog.FILE.read_text() == tables


@dataclass
class Both:
    """The tables of one service here and in PostgreSQL."""

    name: str
    pool: Pool
    store: PostgresStore
    epoch: int
    tables: Tables
    units: int = 0

    async def apply(self, writes: Sequence[Write]) -> str:
        """What becomes of a unit in both: "" or the kind of its refusal."""
        self.units += 1
        here = there = ""
        try:
            await self.store.commit(Unit(writes=writes, number=self.units))
        except MusterError as error:
            there = type(error).__name__
        try:
            self.tables.apply(writes, self.epoch)
        except MusterError as error:
            here = type(error).__name__
        assert (there, writes) == (here, writes)
        return here

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Any]:
        """The rows of both, in their order where the query has one."""
        there = [dict(row) for row in await self.pool.fetch(sql, *arguments)]
        if ".lease " in sql:
            return there
        here = [dict(row) for row in self.tables.fetch(sql, *arguments)]
        numbers = {key for row in there for key, one in row.items() if isinstance(one, Decimal)}
        here = [
            {key: Decimal(one) if key in numbers else one for key, one in row.items()}
            for row in here
        ]
        if "ORDER BY" not in sql or TIED in sql:
            there, here = sorted(there, key=repr), sorted(here, key=repr)
        assert there == here, sql
        return there

    async def compare(self) -> None:
        """Every table."""
        for line in catalog.FILE.read_text().splitlines():
            if line.startswith(f"CREATE TABLE {self.name}."):
                await self.fetch(f"SELECT * FROM {line.split()[2]}")


@pytest.fixture
async def both(database: Database) -> AsyncIterator[dict[str, Both]]:
    made = {}
    for name in catalog.SCHEMAS:
        pool = Pool(database.url(name))
        lease = PostgresLease(pool, name, "cell-0", "test")
        assert await lease.try_acquire()
        store = PostgresStore(pool, lease)
        await store.restore()
        made[name] = Both(name, pool, store, lease.epoch, Tables(name))
    yield made
    for one in made.values():
        await one.pool.close()


@contextmanager
def recorded() -> Iterator[list[tuple[str, Sequence[Write]]]]:
    """What the handlers of the services write in this block, unit by unit."""
    units: list[tuple[str, Sequence[Write]]] = []

    def recording(kind: type[Any]) -> Callable[..., Outcome]:
        decide = kind.decide

        def decided(handler: Handler, messages: Any, now_ms: int) -> Outcome:
            outcome: Outcome = decide(handler, messages, now_ms)
            units.append((handler.name, [*outcome.writes]))
            return outcome

        return decided

    with ExitStack() as stack:
        for kind in (AdmissionHandler, QuotaHandler, PlacementHandler, BinderHandler):
            stack.enter_context(patch.object(kind, "decide", recording(kind)))
        yield units


async def units_of(history: str, seed: int) -> list[tuple[str, Sequence[Write]]]:
    """Of a recorded history, or of the simulation, which has a loop of its own."""
    with recorded() as units:
        play = run if history == "simulation" else HISTORIES[history]
        await asyncio.to_thread(play, seed)
    return units


@pytest.mark.parametrize(
    ("history", "disorder"),
    [
        ("admission", 0.0),
        ("placement_alone", 0.0),
        ("one_flavor", 0.4),
        ("simulation", 0.4),
    ],
)
async def test_units_leave_the_same_rows(
    both: dict[str, Both], history: str, disorder: float
) -> None:
    """`disorder`: the share of the units that come twice or never."""
    random, refused = Random(history), 0
    for number, (name, writes) in enumerate(await units_of(history, 5)):
        one = both.get(name)
        if one is None or not writes or random.random() < disorder / 2:
            continue
        for _ in range(2 if random.random() < disorder / 2 else 1):
            refused += bool(await one.apply(writes))
        if number % COMPARED_EVERY == 0:
            await one.compare()

    for name, make in KINDS.items():
        handler = make()
        await both[name].compare()
        await handler.load(both[name])
        if name == "binder":
            await handler.suspend()
    await both["placement"].fetch(agreement.HELD_SQL)
    assert bool(refused) is (disorder > 0)
