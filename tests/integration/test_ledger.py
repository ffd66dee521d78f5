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


def a_cohort(name: str, gpus: int, parent: str = "", **more) -> str:
    return a_quota(name, gpus, parent, kind="cohort", **more)


@pytest.mark.parametrize("limits", TREE.values(), ids=TREE)
async def test_quota_holds_at_every_level_of_the_tree(ledger, limits):
    queue, cohort, root = limits
    await ledger.put(
        quotas=[
            a_cohort("root", root),
            a_cohort("cohort", cohort, "root"),
            a_quota("deep", queue, "cohort"),
        ]
    )
    await ledger.insert(pod("w1", queue="deep"))

    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w2", queue="deep", gpu=1)))

    for name in ("deep", "cohort", "root"):
        assert 1000 == (await ledger.usage(name))[0]


LENDERS = [
    # Owns 2, keeps 1 for itself; the other owns nothing and may borrow 2 of the pool of 1 and
    # the one that is lent.
    a_quota("lender", 9, "pool", guaranteed=1),
    a_quota("borrower", 2, "pool"),
    a_cohort("pool", 2),
]
BORROWING = {
    "more than the borrowing limit": ["borrower"] * 3,
    "what the lender keeps": ["borrower", "borrower", "lender", "lender"],
    "what the borrower has already": ["lender", "lender", "lender", "borrower"],
}


@pytest.mark.parametrize("queues", BORROWING.values(), ids=BORROWING)
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "in one statement"])
async def test_nobody_takes_more_than_is_lent(ledger, queues, together):
    await ledger.put(quotas=LENDERS)
    rows = [pod(f"w{gpu}", gpu=gpu, queue=queue) for gpu, queue in enumerate(queues)]
    if not together:
        await ledger.insert(*rows[:-1])

    assert CHECK_VIOLATION == await state_of(ledger.insert(*(rows if together else rows[-1:])))

    count = 0 if together else len(rows) - 1
    assert count == len(await ledger.run("SELECT 1 FROM placement.allocation"))


async def test_use_within_the_guaranteed_part_is_not_counted_above(ledger):
    await ledger.put(quotas=LENDERS)
    await ledger.insert(*(pod(f"w{gpu}", gpu=gpu, queue="borrower") for gpu in range(2)))

    await ledger.insert(pod("w2", gpu=2, queue="lender"))  # the pool is full, this is its own

    assert (2000, 2000, 2000) == await ledger.usage("pool")
    await ledger.release("w0", "w2")
    assert 1000 == (await ledger.usage("pool"))[0]
    await ledger.insert(*(pod(f"w{gpu}", gpu=gpu, queue="lender") for gpu in (0, 2)))
    assert 2000 == (await ledger.usage("pool"))[0]


async def test_a_guarantee_that_is_given_up_is_counted_above_at_once(ledger):
    await ledger.put(quotas=LENDERS)
    await ledger.insert(pod("w1", queue="lender"))
    assert 0 == (await ledger.usage("pool"))[0]

    await ledger.put(quotas=[a_quota("lender", 9, "pool")])

    assert 1000 == (await ledger.usage("pool"))[0]
    await ledger.release("w1")
    assert 0 == (await ledger.usage("pool"))[0]


async def test_what_one_queue_gives_back_another_takes_in_the_same_unit(ledger):
    await ledger.put(quotas=LENDERS)
    await ledger.insert(*(pod(f"w{gpu}", gpu=gpu, queue="borrower") for gpu in range(2)))

    await ledger.release("w0")
    await ledger.insert(*(pod(f"l{gpu}", gpu=gpu, queue="lender") for gpu in (0, 2)))

    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w9", gpu=3, queue="borrower")))


async def test_a_pool_that_shrinks_below_its_use_falls_as_use_falls(ledger):
    await ledger.put(quotas=LENDERS)
    await ledger.insert(*(pod(f"w{gpu}", gpu=gpu, queue="borrower") for gpu in range(2)))

    await ledger.put(quotas=[a_cohort("pool", 0)])

    assert (2000, 2000, 0) == await ledger.usage("pool")
    assert CHECK_VIOLATION == await state_of(ledger.insert(pod("w3", gpu=3, queue="borrower")))
    await ledger.insert(pod("w4", gpu=3, queue="lender"))
    await ledger.release("w0")
    assert (1000, 1000, 0) == await ledger.usage("pool")


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


async def test_a_charge_that_a_level_above_has_no_row_for_is_refused(ledger):
    await ledger.put(quotas=[a_quota("early", 9, "late")])
    assert STALE == await state_of(ledger.insert(pod("w1", queue="early")))

    await ledger.put(quotas=[a_cohort("late", 9, flavors=("a100",))])
    assert STALE == await state_of(ledger.insert(pod("w1", queue="early")))

    await ledger.put(quotas=[a_cohort("late", 1)])
    await ledger.insert(pod("w1", queue="early"))
    assert (1000, 1000, 1000) == await ledger.usage("late")


async def test_a_queue_that_moves_takes_its_use_along(ledger):
    await ledger.put(
        quotas=[
            a_cohort("one", 9, "top"),
            a_cohort("two", 9, "top"),
            a_cohort("top", 9),
            a_quota("a", 9, "one", guaranteed=1),
        ]
    )
    await ledger.insert(pod("w1", queue="a"), pod("w2", gpu=1, queue="a"))
    assert [1000, 1000] == [(await ledger.usage(name))[0] for name in ("one", "top")]

    await ledger.put(quotas=[a_quota("a", 9, "two"), a_cohort("one", 9, "top")])

    assert [0, 2000, 2000] == [(await ledger.usage(name))[0] for name in ("one", "two", "top")]
    await ledger.release("w1", "w2")
    assert [0, 0] == [(await ledger.usage(name))[0] for name in ("two", "top")]


async def test_a_cohort_that_moves_takes_all_below_it_along(ledger):
    await ledger.put(
        quotas=[a_cohort("old", 9), a_cohort("c", 9, "old"), a_quota("a", 9, "c")],
    )
    await ledger.insert(pod("w1", queue="a"))

    await ledger.put(quotas=[a_cohort("c", 9, "new"), a_cohort("old", 9), a_cohort("new", 9)])

    assert [0, 1000] == [(await ledger.usage(name))[0] for name in ("old", "new")]
    await ledger.release("w1")
    assert 0 == (await ledger.usage("new"))[0]


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
    "SELECT placement.move_usage(ARRAY[('q', 'h100', -1, 0, 0)::placement.quota_change])",
    "SELECT placement.recount_usage()",
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
