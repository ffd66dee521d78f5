"""The ledger is the last line: what must never be true is refused by PostgreSQL in raw SQL.

Everything goes through the service's own role, so nothing here needs the service to be right.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from deploy.local.postgres import LocalPostgres
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.ports.errors import MusterError, Rejected
from shared.ports.store import Write
from tests.fixtures.servers import TEMPLATE, Database
from tests.support.protocol import a_message, a_row, a_unit, an_audit

CHECK_VIOLATION, DENIED, UNIQUE, STALE, FROZEN = "23514", "42501", "23505", "MU002", "P0001"
WHOLE, SHARE = 255, 0
COLUMNS = (
    "workload_id, attempt, rank, node, gpu, team, queue, flavor, mask, milli, gpu_memory_mib,"
    " cpu_milli, memory_mib, epoch"
)


def pod(name: str = "w1", **more: Any) -> dict[str, Any]:
    """One allocation row: a whole GPU 0 of node n1, but for what is named."""
    row = {
        "workload_id": name,
        "attempt": 1,
        "rank": 0,
        "node": "n1",
        "gpu": 0,
        "team": "red",
        "queue": "q",
        "flavor": "h100",
        "mask": WHOLE,
        "milli": 1000,
        "gpu_memory_mib": 0,
        "cpu_milli": 1_000,
        "memory_mib": 1_024,
    }
    assert set(more) <= set(row)
    return row | more


def share(name: str, milli: int = 300, memory: int = 10_000, **more: Any) -> dict[str, Any]:
    """A time-sliced share of a GPU."""
    return pod(name, mask=SHARE, milli=milli, gpu_memory_mib=memory, **more)


def instance(name: str, mask: int, **more: Any) -> dict[str, Any]:
    """A MIG instance on the slices of `mask`."""
    return pod(name, mask=mask, milli=125 * mask.bit_count(), **more)


def a_node(name: str = "n1", *, gpus: int = 4, cpu: int = 10_000, present: bool = True) -> str:
    """A node as `put_nodes` takes it."""
    row = {
        "name": name,
        "generation": 1,
        "present": present,
        "ready": True,
        "cpu_milli": cpu,
        "memory_mib": 20_000,
        "gpus": [[index, 80_000, True] for index in range(gpus)],
        "body": "",
    }
    return json.dumps(row)


def a_quota(
    name: str, gpus: int, path: tuple[str, ...] = (), *, flavors: tuple[str, ...] = ("h100",)
) -> str:
    """A node of the quota tree as `put_quotas` takes it, with `gpus` GPUs in each flavor."""
    row = {
        "name": name,
        "kind": "queue",
        "parent": path[0] if path else "",
        "path": [name, *path],
        "version": 1,
        "body": "",
        "limits": [[flavor, gpus * 1000, 1 << 40, 1 << 40] for flavor in flavors],
    }
    return json.dumps(row)


@dataclass
class Ledger:
    """The ledger as the service's role sees it."""

    pool: Pool

    async def run(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.pool.fetch(sql, *arguments)]

    async def insert(self, *rows: dict[str, Any]) -> None:
        """Allocation rows in one raw INSERT."""
        values = ", ".join(
            "(" + ", ".join(repr(value) for value in row.values()) + ", 1)" for row in rows
        )
        await self.run(f"INSERT INTO placement.allocation ({COLUMNS}) VALUES {values}")

    async def release(self, *names: str) -> None:
        await self.run("DELETE FROM placement.allocation WHERE workload_id = ANY($1)", list(names))

    async def refused(self, sql: str) -> str:
        """The SQL state with which a statement is refused; empty if it was not."""
        return await state_of(self.run(sql))

    async def gpu(self, gpu: int = 0) -> tuple[int, int, int, int, str]:
        """(mask, slices, milli, shares, team) of a GPU of n1."""
        (row,) = await self.run(
            "SELECT mask, slices_used, milli_used, shares, share_team FROM placement.gpu"
            " WHERE node = 'n1' AND gpu = $1",
            gpu,
        )
        return tuple(row.values())

    async def usage(self, name: str, flavor: str = "h100") -> tuple[int, int, int]:
        """(used, ceiling, limit) of one node of the tree in milli-GPU."""
        (row,) = await self.run(
            "SELECT gpu_milli, gpu_milli_ceiling, gpu_milli_limit FROM placement.usage"
            " WHERE quota_node = $1 AND flavor = $2",
            name,
            flavor,
        )
        return tuple(row.values())

    async def put(self, nodes: list[str] | None = None, quotas: list[str] | None = None) -> None:
        if nodes:
            await self.run("SELECT placement.put_nodes($1)", nodes)
        if quotas:
            await self.run("SELECT placement.put_quotas($1)", quotas)


async def state_of(call: Any) -> str:
    """The SQL state of the error that `call` raises; empty if it raises none."""
    try:
        await call
    except MusterError as error:
        cause = error.__cause__
        assert isinstance(cause, asyncpg.PostgresError)
        return str(cause.sqlstate)
    return ""


TABLES = (
    "allocation, gpu, node, usage, quota_node, lease, lease_history, watermark, consumer_offset,"
    " inbox, outbox, audit"
)


@pytest.fixture(scope="module")
def database(postgres: LocalPostgres) -> Iterator[Database]:
    """One database for all tests here, emptied before each: there are many and they are small."""
    name = f"test_ledger_{os.getpid()}"
    postgres.create_database(name, TEMPLATE)
    yield Database(postgres, name)
    postgres.drop_database(name)


@pytest.fixture
async def ledger(database: Database) -> AsyncIterator[Ledger]:
    tables = ", ".join(f"placement.{name.strip()}" for name in TABLES.split(","))
    owner = Pool(database.url(), max_size=1)
    await owner.execute(f"TRUNCATE {tables}")
    await owner.close()
    pool = Pool(database.url("placement"), max_size=1)
    ledger = Ledger(pool)
    await ledger.put([a_node()], [a_quota("q", 100)])
    yield ledger
    await pool.close()


async def test_the_role_is_the_service_s_own(ledger):
    assert [{"current_user": "muster_placement"}] == await ledger.run("SELECT current_user")


async def test_what_is_charged_stands_in_gpu_node_and_usage_and_goes_with_the_release(ledger):
    await ledger.insert(pod("w1"), instance("w2", 0b11, gpu=1))

    assert (255, 8, 1000, 0, "") == await ledger.gpu(0)
    assert (3, 2, 250, 0, "") == await ledger.gpu(1)
    assert 1250 == (await ledger.usage("q"))[0]
    node = "SELECT cpu_milli_used, memory_mib_used FROM placement.node"
    assert [{"cpu_milli_used": 2000, "memory_mib_used": 2048}] == await ledger.run(node)

    await ledger.release("w1", "w2")

    assert (0, 0, 0, 0, "") == await ledger.gpu(0) == await ledger.gpu(1)
    assert (0, 100_000, 100_000) == await ledger.usage("q")
    assert [{"cpu_milli_used": 0, "memory_mib_used": 0}] == await ledger.run(node)


VIOLATIONS = {
    "MIG masks that overlap": [instance("w1", 0b0110), instance("w2", 0b0011)],
    "a mask inside another": [instance("w1", 0b1111), instance("w2", 0b0001)],
    "a GPU twice": [pod("w1"), pod("w2")],
    "an instance on a whole GPU": [pod("w1"), instance("w2", 0b1)],
    "shares of more than one GPU": [share("w1", 600), share("w2", 401)],
    "shares of more memory than there is": [share("w1", 1, 50_000), share("w2", 1, 30_001)],
    "two teams on one shared GPU": [share("w1"), share("w2", team="blue")],
    "a team with a comma in its name": [share("w1", team="red,blue")],
    "a share on a whole GPU": [pod("w1", milli=500), share("w2")],
    "a share beside a MIG instance": [instance("w1", 0b1), share("w2")],
    "an instance beside a share": [share("w1"), instance("w2", 0b1)],
    "a mask of nine slices": [pod("w1", mask=256)],
    "a negative amount": [share("w1", -1)],
    "negative memory": [share("w1", 1, -1)],
    "more CPU than the node has": [pod("w1", cpu_milli=10_001)],
    "more memory than the node has": [pod("w1", memory_mib=20_001)],
    "more CPU in two pods": [pod("w1", cpu_milli=6_000), pod("w2", gpu=1, cpu_milli=4_001)],
}


@pytest.mark.parametrize("rows", VIOLATIONS.values(), ids=VIOLATIONS)
async def test_what_must_never_be_true_is_refused_in_two_statements(ledger, rows):
    *first, last = rows
    for row in first:
        await ledger.insert(row)

    assert CHECK_VIOLATION == await state_of(ledger.insert(last))

    assert len(first) == len(await ledger.run("SELECT 1 FROM placement.allocation"))


@pytest.mark.parametrize("rows", VIOLATIONS.values(), ids=VIOLATIONS)
async def test_what_must_never_be_true_is_refused_in_one_statement(ledger, rows):
    assert CHECK_VIOLATION == await state_of(ledger.insert(*rows))

    assert [] == await ledger.run("SELECT 1 FROM placement.allocation")
    assert (0, 0, 0, 0, "") == await ledger.gpu()


FITTING = {
    "two halves of a GPU": [instance("w1", 0b1111), instance("w2", 0b11110000)],
    "two instances of one pod": [instance("w1", 0b01), instance("w1", 0b10)],
    "shares up to the brim": [share("w1", 600, 50_000), share("w2", 400, 30_000)],
    "a CPU pod": [pod("w1", gpu=-1, mask=0, milli=0)],
    "all CPU and memory": [pod("w1", cpu_milli=10_000, memory_mib=20_000)],
}


@pytest.mark.parametrize("rows", FITTING.values(), ids=FITTING)
async def test_what_fits_exactly_is_taken(ledger, rows):
    await ledger.insert(*rows)

    assert len(rows) == len(await ledger.run("SELECT 1 FROM placement.allocation"))


async def test_a_shared_gpu_is_free_for_another_team_when_the_last_share_is_gone(ledger):
    await ledger.insert(share("w1"), share("w2"))
    await ledger.release("w1")
    assert CHECK_VIOLATION == await state_of(ledger.insert(share("w3", team="blue")))
    await ledger.release("w2")

    await ledger.insert(share("w3", team="blue"))

    assert (0, 0, 300, 1, "blue") == await ledger.gpu()


@pytest.mark.parametrize(
    "row",
    [pod(gpu=4), pod(node="nowhere"), pod(node="nowhere", gpu=-1, mask=0, milli=0)],
    ids=["GPU", "GPU of a node", "node"],
)
async def test_an_allocation_of_what_is_not_there_is_refused(ledger, row):
    assert STALE == await state_of(ledger.insert(row))


@pytest.mark.parametrize("row", [pod(queue="nobody"), pod(flavor="a100")], ids=["queue", "flavor"])
async def test_an_allocation_without_quota_is_refused(ledger, row):
    assert STALE == await state_of(ledger.insert(row))


async def test_the_same_pod_cannot_hold_a_gpu_twice(ledger):
    await ledger.insert(instance("w1", 0b1))

    assert UNIQUE == await state_of(ledger.insert(instance("w1", 0b1)))


TREE = {
    "the queue": (1, 9, 9),
    "its cohort": (9, 1, 9),
    "the root": (9, 9, 1),
}


@pytest.mark.parametrize("limits", TREE.values(), ids=TREE)
async def test_quota_holds_at_every_level_of_the_tree(ledger, limits):
    queue, cohort, root = limits
    await ledger.put(
        quotas=[
            a_quota("root", root),
            a_quota("cohort", cohort, ("root",)),
            a_quota("deep", queue, ("cohort", "root")),
        ]
    )
    await ledger.insert(pod("w1", queue="deep"))

    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w2", queue="deep", gpu=1)))

    for name in ("deep", "cohort", "root"):
        assert 1000 == (await ledger.usage(name))[0]


async def test_a_lowered_quota_falls_as_use_falls_and_never_below(ledger):
    await ledger.insert(pod("w1"), pod("w2", gpu=1), pod("w3", gpu=2))
    await ledger.put(quotas=[a_quota("q", 1)])
    assert (3000, 3000, 1000) == await ledger.usage("q")
    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w4", gpu=3)))

    await ledger.release("w1")
    assert (2000, 2000, 1000) == await ledger.usage("q")
    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w4", gpu=3)))
    await ledger.release("w2", "w3")

    assert (0, 1000, 1000) == await ledger.usage("q")
    await ledger.insert(pod("w4", gpu=3))


async def test_a_raised_quota_is_in_force_at_once(ledger):
    await ledger.put(quotas=[a_quota("q", 0)])
    assert CHECK_VIOLATION == await state_of(ledger.insert(pod()))

    await ledger.put(quotas=[a_quota("q", 1)])

    await ledger.insert(pod())


async def test_a_cohort_made_known_after_its_queue_counts_what_is_charged_already(ledger):
    await ledger.put(quotas=[a_quota("early", 9, ("late",))])
    await ledger.insert(pod("w1", queue="early"))

    await ledger.put(quotas=[a_quota("late", 1)])

    assert (1000, 1000, 1000) == await ledger.usage("late")
    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w2", queue="early", gpu=1)))
    await ledger.release("w1")
    assert 0 == (await ledger.usage("late"))[0]


async def test_a_flavor_named_later_counts_what_is_charged_already(ledger):
    await ledger.put(quotas=[a_quota("top", 9, flavors=("a100",)), a_quota("low", 9, ("top",))])
    await ledger.insert(pod("w1", queue="low"))

    await ledger.put(quotas=[a_quota("top", 9, flavors=("a100", "h100"))])

    assert 1000 == (await ledger.usage("top"))[0]
    await ledger.release("w1")


async def test_a_queue_that_moves_takes_its_use_along(ledger):
    await ledger.put(quotas=[a_quota("one", 9), a_quota("two", 9), a_quota("a", 9, ("one",))])
    await ledger.insert(pod("w1", queue="a"))

    await ledger.put(quotas=[a_quota("a", 9, ("two",)), a_quota("one", 9), a_quota("two", 9)])

    assert (0, 1000) == ((await ledger.usage("one"))[0], (await ledger.usage("two"))[0])
    await ledger.release("w1")
    assert 0 == (await ledger.usage("two"))[0]


async def test_a_node_that_shrinks_below_its_use_takes_nothing_new(ledger):
    await ledger.insert(pod("w1", cpu_milli=8_000))
    await ledger.put([a_node(cpu=2_000)])

    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w2", gpu=1, cpu_milli=1)))


async def test_what_a_removed_node_holds_can_be_given_back(ledger):
    await ledger.insert(pod("w1"))
    await ledger.put([a_node(gpus=0, cpu=0, present=False)])

    await ledger.release("w1")

    assert (0, 0, 0, 0, "") == await ledger.gpu()


DENIED_SQL = [
    "UPDATE placement.gpu SET mask = 0",
    "UPDATE placement.usage SET gpu_milli_ceiling = 0",
    "UPDATE placement.node SET cpu_milli_used = 0",
    "UPDATE placement.quota_node SET parent = ''",
    "UPDATE placement.allocation SET gpu = 3",
    "INSERT INTO placement.gpu (node, gpu, memory_mib) VALUES ('n1', 9, 1)",
    "INSERT INTO placement.node VALUES ('n9', 1, true, true, 1, 1, 0, 0, '')",
    "DELETE FROM placement.gpu",
    "DELETE FROM placement.usage",
    "DELETE FROM placement.node",
    "DELETE FROM placement.quota_node",
    "UPDATE placement.audit SET actor = 'nobody'",
    "DELETE FROM placement.audit",
    "DELETE FROM placement.outbox",
    "DELETE FROM placement.inbox",
    "UPDATE placement.lease_history SET next_seq = 1",
    "DELETE FROM placement.lease_history",
    "TRUNCATE placement.allocation",
    "TRUNCATE placement.audit",
    "ALTER TABLE placement.allocation DISABLE TRIGGER charge",
    "ALTER TABLE placement.gpu DROP CONSTRAINT gpu_slices",
    "DROP TRIGGER charge ON placement.allocation",
    "SET session_replication_role = replica",
    "SELECT 1 FROM quota.lease",
    "SELECT 1 FROM gateway.lease",
]


@pytest.mark.parametrize("sql", DENIED_SQL)
async def test_the_service_s_role_may_not(ledger, sql):
    assert DENIED == await ledger.refused(sql)


@pytest.mark.parametrize("table", ["audit", "lease_history", "outbox", "inbox"])
async def test_the_parts_of_a_protected_table_are_protected_too(ledger, table):
    parts = await ledger.run(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass",
        f"placement.{table}",
    )
    assert parts or table in ("audit", "lease_history")
    for part in parts:
        assert DENIED == await ledger.refused(f"DELETE FROM {part['name']}")
        assert DENIED == await ledger.refused(f"TRUNCATE {part['name']}")


async def test_not_even_the_owner_changes_an_allocation(ledger, database):
    await ledger.insert(pod())
    owner = Ledger(Pool(database.url()))

    assert FROZEN == await owner.refused("UPDATE placement.allocation SET gpu = 3")

    await owner.pool.close()


CHANGE = (
    "SELECT placement.change_ledger({0}::text[], {1}::text[], {2}::text[], {3}::bigint,"
    " {4}::text[], {5}::int[], {6}::int[], {7}::text[], {8}::int[], {9}::text[], {10}::text[],"
    " {11}::text[], {12}::int[], {13}::int[], {14}::bigint[], {15}::bigint[], {16}::bigint[],"
    " {epoch})"
)


def change(
    *charged: dict[str, Any],
    nodes: tuple[str, ...] = (),
    quotas: tuple[str, ...] = (),
    released: tuple[str, ...] = (),
    released_rows: int | None = None,
) -> Write:
    """The one write of a batch, as the service makes it."""
    columns = [[row[name] for row in charged] for name in pod()]
    count = len(released) if released_rows is None else released_rows
    return Write(CHANGE, (list(nodes), list(quotas), list(released), count, *columns))


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
