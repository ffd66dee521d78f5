"""Budgets in the service: warned once, obeyed at the limit, over with the month."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from services.quota.budgets import Budgets
from shared.core.model.team_policy import AtLimit, Budget
from shared.core.queueing.nomination.nominator import Nominator
from shared.core.quota.budget import month_start_ms
from shared.core.quota.cost import rounded
from shared.core.quota.prices import DatedPrice
from shared.events.organisation import TeamApplied
from shared.events.quotas import (
    BudgetTold,
    BudgetWarned,
    FlavorQuota,
    QuotaRefused,
    WorkloadNominated,
)
from tests.unit.admission.builders import gpu_quota
from tests.unit.quota.support import (
    CohortApplied,
    FlavorApplied,
    Ledger,
    a_workload,
    queue_document,
    short,
    writes,
)

HOUR_MS = 3_600_000
START_MS = month_start_ms(2026 * 12 + 10)


def a_team(version=1, **budget):
    limits = Budget(**budget) if budget else None
    return TeamApplied(name="t", version=version, default_queue="q", budget=limits)


def a_ledger(at_limit=AtLimit.STOP, *documents, hours=10):
    ledger = Ledger()
    ledger.now_ms = START_MS
    ledger.apply(
        *(documents or [queue_document()]), a_team(gpu_hours_per_month=hours, at_limit=at_limit)
    )
    return ledger


def wait_until(ledger, at_ms):
    """Let time pass: what is due is done when it is due; everything told."""
    told = []
    while (due_ms := ledger.handler.next_due_ms()) is not None and due_ms <= at_ms:
        ledger.now_ms = max(ledger.now_ms, due_ms)
        outcome = ledger.handler.decide(ledger.handler.due(ledger.now_ms), ledger.now_ms)
        ledger.outcomes.append(outcome)
        told += [one.payload for one in outcome.emits]
    ledger.now_ms = at_ms
    return told


def warnings(told):
    return [one for one in told if isinstance(one, BudgetWarned)]


def spent(told):
    return [one for one in told if isinstance(one, BudgetTold)]


def spend_all(ledger, identifier="w1"):
    ledger.queue(a_workload(identifier, gpus=5))
    ledger.place(identifier, gpus=5, at_ms=ledger.now_ms)
    return wait_until(ledger, ledger.now_ms + 2 * HOUR_MS)


def test_a_team_is_warned_at_80_and_at_100_percent_once():
    ledger = a_ledger()
    told = warnings(spend_all(ledger))

    assert [one.threshold_percent for one in told] == [80, 100]
    assert (told[0].team, told[0].month) == ("t", "2026-11")
    assert told[0].spent_gpu_milli_hours == 8_000
    assert told[1].spent_gpu_milli_hours == told[1].limit_gpu_milli_hours == 10_000
    assert warnings(wait_until(ledger, ledger.now_ms + 50 * HOUR_MS)) == []


def test_another_budget_is_warned_of_anew_and_one_of_other_words_is_not():
    ledger = a_ledger()
    spend_all(ledger)
    raised = warnings(
        [one.payload for one in ledger.apply(a_team(2, gpu_hours_per_month=20)).emits]
    )
    again = warnings(wait_until(ledger, ledger.now_ms + 50 * HOUR_MS))
    same = warnings([one.payload for one in ledger.apply(a_team(3, gpu_hours_per_month=20)).emits])
    less = warnings([one.payload for one in ledger.apply(a_team(4, gpu_hours_per_month=5)).emits])

    assert raised == same == []
    assert [(one.threshold_percent, one.limit_gpu_milli_hours) for one in again] == [
        (80, 20_000),
        (100, 20_000),
    ]
    assert less == []  # they know that nothing is left


def test_what_is_spent_is_told_once_a_minute_while_it_grows():
    ledger = a_ledger()
    ledger.queue(a_workload("w1", gpus=2))
    ledger.place("w1", gpus=2, at_ms=ledger.now_ms)
    begin_ms = ledger.now_ms
    told = spent(wait_until(ledger, begin_ms + HOUR_MS))
    ledger.succeed("w1", at_ms=ledger.now_ms)
    last = spent(wait_until(ledger, ledger.now_ms + HOUR_MS))

    assert len(told) in {60, 61}
    assert [one.spent_gpu_milli_hours for one in told] == [
        (one.at_ms - begin_ms) * 2_000 // HOUR_MS for one in told
    ]
    assert [(one.percent, one.limit_gpu_milli_hours) for one in told[-1:]] == [(20, 10_000)]
    assert [(one.percent, one.spent_gpu_milli_hours) for one in last] == [(20, 2_000)]


def test_a_new_month_of_one_who_does_nothing_is_told():
    ledger = a_ledger()
    spend_all(ledger)
    ledger.succeed("w1", at_ms=ledger.now_ms)
    wait_until(ledger, ledger.now_ms + HOUR_MS)

    told = spent(wait_until(ledger, month_start_ms(2026 * 12 + 11) + HOUR_MS))

    assert [("2026-12", 0)] == [(one.month, one.percent) for one in told]


def test_a_team_without_a_budget_is_told_nothing():
    ledger = a_ledger()
    ledger.apply(a_team(version=2))

    assert spent(spend_all(ledger)) == []


def test_at_the_limit_nothing_is_nominated_and_the_reason_has_the_numbers():
    ledger = a_ledger()
    ledger.queue(a_workload("open", gpus=3))
    told = spend_all(ledger)

    outcome = ledger.queue(a_workload("w2"))

    assert "NominationWithdrawn" in [type(one).__name__ for one in told]  # open, but not placed
    assert short(outcome) == ["QuotaRefused:w2"]
    refusal = outcome.emits[0].payload
    assert isinstance(refusal, QuotaRefused)
    assert refusal.reason == "BudgetSpent"
    assert "10 GPU-hours" in refusal.message
    assert "2026-12-01 00:00 UTC" in refusal.message


def test_a_new_month_and_a_raised_budget_let_work_go_on():
    ledger = a_ledger()
    spend_all(ledger)
    ledger.succeed("w1", at_ms=ledger.now_ms)
    ledger.queue(a_workload("w2"))
    raised = ledger.apply(a_team(version=2, gpu_hours_per_month=20, at_limit=AtLimit.STOP))
    assert short(raised) == ["BudgetTold:t", "WorkloadNominated:w2"]

    lowered = ledger.apply(a_team(version=3, gpu_hours_per_month=5, at_limit=AtLimit.STOP))
    assert "NominationWithdrawn:w2" in short(lowered)
    told = wait_until(ledger, month_start_ms(2026 * 12 + 11))
    assert "WorkloadNominated" in [type(one).__name__ for one in told]

    gone = ledger.apply(a_team(version=4))
    assert short(gone) == ["BudgetTold:t"]
    assert gone.emits[0].payload.limit_gpu_milli_hours is None
    assert ledger.handler.memory.budgets.due_ms() is None


def test_what_is_left_may_be_spot_only():
    flavors = tuple(FlavorQuota(flavor=one, nominal=gpu_quota(8)) for one in ("h100", "spot"))
    spot = FlavorApplied(name="spot", version=1, spot=True)
    ledger = a_ledger(AtLimit.SPOT, spot, queue_document(flavors=flavors))
    told = spend_all(ledger)

    outcome = ledger.queue(a_workload("w2", checkpoint_interval_seconds=60), a_workload("w3"))

    assert short(outcome) == ["WorkloadNominated:w2", "QuotaRefused:w3"]
    nominated = outcome.emits[0].payload
    assert [one.flavor for one in nominated.flavors] == ["spot"]
    assert {("spot",)} == {one.spot_flavors for one in spent(told)}
    assert outcome.emits[1].payload.reason == "BudgetSpent"


def test_what_is_left_may_be_the_nominal_quota_only():
    cohort = CohortApplied(
        name="c", version=1, flavors=(FlavorQuota(flavor="h100", nominal=gpu_quota(8)),)
    )
    ledger = a_ledger(AtLimit.NOMINAL, cohort, queue_document(cohort="c", gpus=8))
    before = ledger.queue(a_workload("w0", gpus=9))
    told = spend_all(ledger)

    outcome = ledger.queue(a_workload("w2", gpus=3), a_workload("w3", gpus=4))

    assert not before.emits[0].payload.within_nominal
    withdrawn = [one.workload_id for one in told if hasattr(one, "nomination")]
    assert "w0" in withdrawn
    assert short(outcome) == ["WorkloadNominated:w2", "QuotaRefused:w3"]
    assert outcome.emits[0].payload.within_nominal
    assert "nothing may be borrowed" in outcome.emits[1].payload.message


def test_money_is_spent_by_the_price_at_the_beginning():
    ledger = Ledger()
    ledger.now_ms = START_MS
    price = FlavorApplied(name="h100", version=1, price_microdollars_per_gpu_hour=2_000_000)
    team = a_team(microdollars_per_month=20_000_000, at_limit=AtLimit.STOP)
    ledger.apply(price, queue_document(), team)
    ledger.queue(a_workload("w1"))
    ledger.place("w1", at_ms=START_MS)
    wait_until(ledger, START_MS + HOUR_MS)
    ledger.apply(FlavorApplied(name="h100", version=2, price_microdollars_per_gpu_hour=9_000_000))

    told = warnings(wait_until(ledger, START_MS + 9 * HOUR_MS))

    assert [(one.threshold_percent, one.spent_microdollars) for one in told] == [(80, 16_000_000)]


def told_ratios(team="t"):
    """What Prometheus finds of a team, by metric and unit."""
    found = {}
    for name in ("ratio", "forecast_ratio"):
        for unit in ("gpu_hours", "dollars"):
            labels = {"team": team, "unit": unit}
            value = REGISTRY.get_sample_value(f"muster_team_budget_{name}", labels)
            if value is not None:
                found[name, unit] = value
    return found


def test_a_budget_is_told_with_its_forecast_and_as_a_metric_while_there_is_one():
    ledger = a_ledger(hours=1_440)
    ledger.queue(a_workload("w1", gpus=4))
    ledger.place("w1", gpus=4, at_ms=START_MS)

    told = [
        one for one in wait_until(ledger, START_MS + 36 * HOUR_MS) if isinstance(one, BudgetTold)
    ]

    assert 4 * 720 * 1_000 == told[-1].forecast_gpu_milli_hours
    assert START_MS + 360 * HOUR_MS == told[-1].whole_spent_at_ms
    assert {("ratio", "gpu_hours"): 0.1, ("forecast_ratio", "gpu_hours"): 2} == told_ratios()
    ledger.apply(a_team(version=2, microdollars_per_month=0))
    assert 1 == told_ratios()["ratio", "dollars"]
    ledger.apply(a_team(version=3))
    assert {} == told_ratios()


async def test_a_price_of_a_later_time_holds_for_what_begins_then_also_after_a_restart():
    since = DatedPrice(since="2026-11-01T04:00:00Z", microdollars_per_gpu_hour=9_000_000)
    price = FlavorApplied(
        name="h100", version=1, price_microdollars_per_gpu_hour=2_000_000, prices=(since,)
    )
    ledger = a_ledger(AtLimit.STOP, price, queue_document(), hours=100)
    for number, hours in enumerate((0, 4)):
        ledger.queue(a_workload(f"w{number}"))
        ledger.place(f"w{number}", at_ms=START_MS + hours * HOUR_MS)
    again = Budgets(Nominator())
    await again.load(Rows(ledger.outcomes), ledger.handler.memory.records.alive.values())

    for budgets in (ledger.handler.memory.budgets, again):
        spent = budgets._spending["t"].money
        assert 8_000_000 == rounded(spent.at(START_MS + 4 * HOUR_MS))
        assert 19_000_000 == rounded(spent.at(START_MS + 5 * HOUR_MS))


def test_a_price_that_is_told_late_counts_from_the_beginning():
    ledger = a_ledger()
    ledger.apply(a_team(version=2, microdollars_per_month=10_000_000))
    ledger.queue(a_workload("w1"))
    ledger.place("w1", at_ms=START_MS)
    ledger.apply(FlavorApplied(name="h100", version=1, price_microdollars_per_gpu_hour=2_000_000))

    (told, _) = warnings(wait_until(ledger, START_MS + 5 * HOUR_MS))

    assert told.spent_microdollars == 8_000_000


def test_a_budget_that_makes_no_sense_leaves_the_old_one():
    ledger = a_ledger()
    ledger.apply(a_team(version=2, gpu_hours_per_month=-1))

    assert [one.threshold_percent for one in warnings(spend_all(ledger))] == [80, 100]


class Rows:
    """The rows that were written, newest last."""

    def __init__(self, outcomes):
        self.tables: dict[str, dict] = {
            "quota.team ": {},
            "quota.team_spending": {},
            "quota.flavor_price": {},
        }
        for outcome in outcomes:
            for n, v, b in _rows(outcome, "team (", 3):
                self.tables["quota.team "][n] = {"name": n, "version": v, "budget": b}
            for row in _rows(outcome, "team_spending", 5):
                names = ("team", "month", "gpu_base", "money_base", "warned")
                self.tables["quota.team_spending"][row[0]] = dict(zip(names, row, strict=True))
            for price in (
                *_rows(outcome, "flavor_price", 4),
                *_rows(outcome, "dated_price", 4),
            ):
                of_price = ("flavor", "version", "applied_at_ms", "microdollars_per_gpu_hour")
                self.tables["quota.flavor_price"][price] = dict(zip(of_price, price, strict=True))

    async def fetch(self, sql):
        found = next(rows for table, rows in self.tables.items() if table in sql + " ")
        return list(found.values())


def _rows(outcome, table, columns):
    for arguments in writes(outcome, "INSERT", table):
        yield from zip(*arguments[:columns], strict=True)


@pytest.mark.parametrize("spent", [True, False])
async def test_a_restart_goes_on_where_it_was(spent):
    price = FlavorApplied(name="h100", version=1, price_microdollars_per_gpu_hour=2_000_000)
    ledger = a_ledger(AtLimit.STOP, price, queue_document())
    if spent:
        spend_all(ledger)
    else:
        ledger.queue(a_workload("w1", gpus=5))
        ledger.place("w1", gpus=5, at_ms=START_MS)
    again = Budgets(core := Nominator())
    alive = list(ledger.handler.memory.records.alive.values())

    await again.load(Rows(ledger.outcomes), alive)

    known = ledger.handler.memory.budgets._spending["t"]
    restored = again._spending["t"]
    at_ms = ledger.now_ms + HOUR_MS
    assert restored.gpu.at(at_ms) == known.gpu.at(at_ms) > 0
    assert restored.money.at(at_ms) == known.money.at(at_ms) > 0
    assert bool(core._permissions._restrictions) is spent
    assert again.review(ledger.now_ms, 0) == []
    assert again.due_ms() == ledger.handler.memory.budgets.due_ms()


async def test_what_ran_before_there_were_rows_counts_from_its_start():
    ledger = a_ledger()
    ledger.queue(a_workload("w1", gpus=5))
    ledger.place("w1", gpus=5, at_ms=START_MS)
    again = Budgets(Nominator())

    await again.load(Rows([]), ledger.handler.memory.records.alive.values())

    assert again._spending["t"].gpu.at(START_MS + 10) == 50_000


@settings(max_examples=50)
@given(
    st.sampled_from([AtLimit.STOP, AtLimit.NOMINAL]),
    st.lists(
        st.tuples(
            st.sampled_from(["queue", "place", "end", "wait"]),
            st.integers(1, 6),
            st.integers(0, 5),
        ),
        max_size=40,
    ),
)
def test_nothing_is_nominated_against_a_spent_budget(at_limit, steps):
    """Whatever happens and whenever it is told."""
    cohort = CohortApplied(
        name="c", version=1, flavors=(FlavorQuota(flavor="h100", nominal=gpu_quota(8)),)
    )
    ledger = a_ledger(at_limit, cohort, queue_document(cohort="c", gpus=4), hours=20)
    nominated: dict[str, int] = {}
    placed: list[str] = []
    for number, (kind, gpus, hours) in enumerate(steps):
        told = []
        if kind == "queue":
            told += [one.payload for one in ledger.queue(a_workload(f"w{number}", gpus)).emits]
        elif kind == "place" and nominated:
            name, held = nominated.popitem()
            told += [one.payload for one in ledger.place(name, held, at_ms=ledger.now_ms).emits]
            placed.append(name)
        elif kind == "end" and placed:
            told += [one.payload for one in ledger.succeed(placed.pop(), ledger.now_ms).emits]
        else:
            told += wait_until(ledger, ledger.now_ms + hours * HOUR_MS)
        spending = ledger.handler.memory.budgets._spending["t"]
        full = spending.gpu.at(ledger.now_ms) >= 20 * 1000 * HOUR_MS
        for fact in told:
            if isinstance(fact, WorkloadNominated):
                nominated[fact.workload.id] = fact.workload.spec.pod_sets[0].gpu.count
                assert not full or fact.within_nominal or kind == "wait"
                assert not full or at_limit is not AtLimit.STOP or kind == "wait"
        if full:
            open_now = ledger.handler.memory.core.lines["q"].open.values()
            assert not open_now or at_limit is AtLimit.NOMINAL
