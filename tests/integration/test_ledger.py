"""The ledger is the last line: what must never be true is refused by PostgreSQL in raw SQL.

Everything goes through the service's own role, so nothing here needs the service to be right.
"""

from __future__ import annotations

import pytest

from shared.adapters.postgres.pool import Database as Pool
from tests.fixtures.ledger import (
    CHECK_VIOLATION,
    DENIED,
    FROZEN,
    STALE,
    UNIQUE,
    Ledger,
    a_node,
    a_quota,
    instance,
    pod,
    share,
    state_of,
)


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


async def test_not_even_the_owner_changes_an_allocation(ledger, ledger_database):
    await ledger.insert(pod())
    owner = Ledger(Pool(ledger_database.url()))

    assert FROZEN == await owner.refused("UPDATE placement.allocation SET gpu = 3")

    await owner.pool.close()
