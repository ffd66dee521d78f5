"""Memory of placement and its rows: equal after real work, and a difference is seen."""

from __future__ import annotations

import pytest

from services.placement.handlers import PlacementHandler
from services.placement.unit.agreement import compare
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.core.model.nouns import Workload
from shared.events.envelope import Event, Received, event_id
from shared.events.nodes import NodeInventoryReported
from shared.events.quotas import FlavorQuota, PermittedFlavor, QuotaChanged, WorkloadNominated
from shared.events.workloads import Wire
from shared.ports.errors import Stale
from shared.runtime.assemble import Counters, assemble
from tests.fixtures.servers import Database
from tests.support.work import fleet, submissions


def _message(number: int, payload: Wire) -> Received:
    event = Event(
        id=event_id(1_700_000_000_000 + number, str(number), "test", 0),
        type="test",
        source="test",
        subject="test",
        time_ms=1_700_000_000_000,
        key="test",
        payload=payload,
    )
    return Received(event=event, topic="test", partition=0, offset=number)


def _messages() -> list[Received]:
    payloads: list[Wire] = [
        QuotaChanged(name="bench", kind="queue", flavors=(FlavorQuota(flavor="default"),))
    ]
    payloads += [NodeInventoryReported(node=node, generation=1) for node in fleet(40)]
    for number, spec in enumerate(submissions(300, seed=3)):
        workload = Workload(
            id=f"w{number}",
            team="bench",
            queue="bench",
            cell=0,
            priority=1,
            spec=spec,
            submitted_at_ms=number,
        )
        nomination = WorkloadNominated(
            workload=workload,
            version=1,
            nomination=1,
            order_key=(-1, number),
            flavors=(PermittedFlavor(flavor="default"),),
        )
        payloads.append(nomination)
    return [_message(number, payload) for number, payload in enumerate(payloads)]


async def test_arrays_and_rows_hold_the_same_and_a_difference_is_seen(database: Database) -> None:
    pool = Pool(database.url("placement"))
    lease = PostgresLease(pool, "placement", "cell-0", "test")
    assert await lease.try_acquire()
    store = PostgresStore(pool, lease)
    await store.restore()
    handler = PlacementHandler()
    await handler.load(pool)
    messages = _messages()
    counters = Counters(next_seq=1, next_unit=1, next_audit=1, last_digest=b"")

    outcome = handler.decide(messages, 1)
    await store.commit(
        assemble("placement", counters, outcome, consumed=messages, dead=(), now_ms=1)
    )

    await compare(handler.state, pool)
    again = PlacementHandler()
    await again.load(pool)
    await compare(again.state, pool)
    database.execute(
        "DELETE FROM placement.allocation WHERE workload_id ="
        " (SELECT min(workload_id) FROM placement.allocation WHERE milli > 0)"
    )
    with pytest.raises(Stale):
        await compare(again.state, pool)
    await pool.close()
