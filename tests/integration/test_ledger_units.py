"""The ledger in whole units of work: all that a batch changes, in one statement or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from services.placement.unit.ledger import LEDGER
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.store import PostgresStore
from shared.ports.errors import MusterError, Rejected
from shared.ports.store import Write
from tests.fixtures.ledger import Ledger, a_node, a_quota, pod
from tests.support.protocol import a_message, a_row, a_unit, an_audit


def change(
    *charged: dict[str, Any],
    nodes: tuple[str, ...] = (),
    quotas: tuple[str, ...] = (),
    released: tuple[str, ...] = (),
    shrunk: dict[str, int] | None = None,
    released_rows: int | None = None,
) -> Write:
    """The one write of a batch, as the service makes it."""
    columns = [[row[name] for row in charged] for name in pod()]
    count = len(released) if released_rows is None else released_rows
    ranks = shrunk or {}
    gone = (list(released), list(ranks), list(ranks.values()), count)
    return Write(LEDGER, (list(nodes), list(quotas), *gone, *columns))


@pytest.fixture
async def store(ledger: Ledger) -> PostgresStore:
    lease = PostgresLease(ledger.pool, "placement", "cell-0", "a")
    assert await lease.try_acquire()
    return PostgresStore(ledger.pool, lease)


async def test_a_gpu_is_given_back_and_charged_anew_in_one_unit(ledger, store):
    await store.commit(a_unit(1, writes=[change(pod("w1"))]))

    await store.commit(a_unit(2, writes=[change(pod("w2"), released=("w1",))]))

    rows = await ledger.run("SELECT workload_id FROM placement.allocation")
    assert [{"workload_id": "w2"}] == rows
    assert (255, 8, 1000, 0, "") == await ledger.gpu()
    assert 1000 == (await ledger.usage("q"))[0]


async def test_one_workload_moves_to_its_next_attempt_in_one_unit(ledger, store):
    await store.commit(a_unit(1, writes=[change(pod("w1"))]))

    await store.commit(a_unit(2, writes=[change(pod("w1", attempt=2), released=("w1",))]))

    assert 1000 == (await ledger.usage("q"))[0]


async def test_a_new_node_a_new_quota_and_its_first_charge_work_in_one_unit(ledger, store):
    row = pod("w1", node="n2", queue="fresh", flavor="a100")
    write = change(row, nodes=(a_node("n2"),), quotas=(a_quota("fresh", 1, flavors=("a100",)),))

    await store.commit(a_unit(writes=[write]))

    assert 1000 == (await ledger.usage("fresh", "a100"))[0]


async def test_a_unit_that_is_refused_leaves_nothing_at_all(ledger, store):
    unit = a_unit(
        consumed=[a_message(1)],
        outbox=[a_row(1)],
        audits=[an_audit(1)],
        writes=[change(pod("w1"), pod("w2"), nodes=(a_node("n2"),), quotas=(a_quota("x", 1),))],
    )

    with pytest.raises(Rejected):
        await store.commit(unit)

    for table in ("allocation", "inbox", "outbox", "audit", "consumer_offset"):
        assert [] == await ledger.run(f"SELECT 1 FROM placement.{table}"), table
    assert 1 == len(await ledger.run("SELECT 1 FROM placement.node"))
    assert 1 == len(await ledger.run("SELECT 1 FROM placement.quota_node"))


async def test_a_release_of_other_rows_than_were_seen_is_stale(ledger, store):
    await store.commit(a_unit(1, writes=[change(pod("w1"))]))

    with pytest.raises(MusterError, match="released allocations"):
        await store.commit(a_unit(2, writes=[change(released=("w1",), released_rows=2)]))

    assert 1000 == (await ledger.usage("q"))[0]


async def test_a_gang_gives_up_its_highest_ranks_and_keeps_the_others(ledger, store):
    gang = [pod("w1", rank=rank, gpu=rank) for rank in range(3)]
    await store.commit(a_unit(1, writes=[change(*gang, pod("w2", gpu=3))]))

    await store.commit(a_unit(2, writes=[change(shrunk={"w1": 1}, released_rows=2)]))

    rows = await ledger.run("SELECT workload_id, rank FROM placement.allocation ORDER BY 1")
    assert [("w1", 0), ("w2", 0)] == [(row["workload_id"], row["rank"]) for row in rows]
    assert 2000 == (await ledger.usage("q"))[0]


async def test_a_workload_shrinks_and_ends_in_one_unit_and_each_row_counts_once(ledger, store):
    gang = [pod("w1", rank=rank, gpu=rank) for rank in range(3)]
    await store.commit(a_unit(1, writes=[change(*gang)]))

    both = change(released=("w1",), shrunk={"w1": 1}, released_rows=3)
    await store.commit(a_unit(2, writes=[both]))

    assert 0 == (await ledger.usage("q"))[0]


async def test_a_shrink_to_other_ranks_than_were_seen_is_stale(ledger, store):
    await store.commit(a_unit(1, writes=[change(pod("w1"), pod("w1", rank=1, gpu=1))]))

    with pytest.raises(MusterError, match="released allocations"):
        await store.commit(a_unit(2, writes=[change(shrunk={"w1": 1}, released_rows=2)]))
