"""Debts in the service: reviewed once a minute, told when they moved, the same after a restart."""

import asyncio

from services.quota.debts import REVIEW_MS, NodeDebts
from services.quota.memory import QuotaMemory
from shared.core.model.units import Resources
from shared.core.queueing.nomination.nominator import Nominator
from shared.core.quota.usage_history import HALF_LIFE_MS
from shared.events.organisation import CohortApplied
from shared.events.quotas import DebtsTold, FlavorQuota
from tests.unit.quota.support import Ledger, a_workload, queue_document

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
POOL = CohortApplied(
    name="pool",
    version=1,
    flavors=(FlavorQuota(flavor="h100", nominal=Resources(gpu_milli=8000)),),
)


class Rows:
    """A reader of the rows of debts."""

    def __init__(self, write):
        names, _, origins, weighted, rates = write.arguments
        self.rows = [
            {"node": node, "origin": origin, "weighted": number, "rate": rate}
            for node, origin, number, rate in zip(names, origins, weighted, rates, strict=True)
        ]

    async def fetch(self, sql, *arguments):
        return self.rows if "node_debt" in sql else []


def a_ledger():
    """`q` holds all 8 GPUs of the pool, `r` waits for some."""
    ledger = Ledger(
        POOL,
        queue_document("q", gpus=0, cohort="pool"),
        queue_document("r", gpus=0, cohort="pool"),
    )
    ledger.now_ms = START_MS
    ledger.queue(a_workload("w1", gpus=8))
    ledger.place("w1", gpus=8, at_ms=START_MS)
    ledger.queue(a_workload("w2", gpus=8, queue="r"))
    return ledger


def review(ledger, now_ms):
    ledger.now_ms = now_ms
    due = [one for one in ledger.handler.due(now_ms) if one.event.payload.kind == "debts"]
    outcome = ledger.handler.decide(due, now_ms)
    told = [one.payload for one in outcome.emits if isinstance(one.payload, DebtsTold)]
    rows = [one for one in outcome.writes if "node_debt" in one.sql]
    return told, rows


def test_who_holds_all_owes_to_who_waits_and_it_is_told():
    ledger = a_ledger()
    review(ledger, START_MS)

    ((told,), _) = review(ledger, START_MS + HOUR_MS)

    assert told.at_ms == START_MS + HOUR_MS
    assert 230_000 < told.debts["q"] < 250_000
    assert abs(told.debts["q"] + told.debts["r"]) <= 2
    tree = ledger.handler.memory.core.tree
    assert {name: tree.node(name).debt for name in ("q", "r")} == told.debts


def test_what_has_hardly_moved_is_not_told_again_and_rows_follow_rates():
    ledger = a_ledger()
    _, rows = review(ledger, START_MS)
    told, again = review(ledger, START_MS + REVIEW_MS)

    assert [sorted(one.arguments[0]) for one in rows] == [["q", "r"]]
    assert [sorted(one.debts) for one in told] == [["q", "r"]]
    assert not again
    assert ledger.handler.memory.debts.due_ms(alive=True) == START_MS + 2 * REVIEW_MS
    assert review(ledger, START_MS + REVIEW_MS + 1) == ([], [])


def test_a_restart_goes_on_with_the_same_debts():
    ledger = a_ledger()
    _, (rows,) = review(ledger, START_MS)
    core = ledger.handler.memory.core
    again = NodeDebts(core)
    asyncio.run(again.load(Rows(rows)))

    (told,) = again.review(START_MS + HOUR_MS, 0)

    ((wanted,), _) = review(ledger, START_MS + HOUR_MS)
    assert told == wanted


def test_a_cell_in_which_nothing_lives_is_left_alone():
    debts = NodeDebts(Nominator())

    assert debts.due_ms(alive=False) is None
    assert debts.due_ms(alive=True) == REVIEW_MS
    assert debts.review(START_MS, 0) == []
    assert QuotaMemory(HALF_LIFE_MS).debts.writes() == ()
