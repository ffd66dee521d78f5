"""Documents become limits in force, or are refused and change nothing."""

from shared.core.model.units import Resources
from shared.core.quota.prices import Purchase
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from shared.events.organisation import CohortApplied, FlavorApplied
from shared.events.quotas import (
    FlavorQuota,
    QuotaChanged,
)
from tests.unit.admission.builders import gpu_quota
from tests.unit.quota.support import Ledger, a_workload, queue_document, short, writes


def test_a_node_in_force_tells_its_whole_document():
    pool = (FlavorQuota(flavor="h100", nominal=gpu_quota(4), lending_limit=gpu_quota(1)),)
    policy = QueuePolicy(reclaim=Reclaim.NEVER)
    ledger = Ledger()

    outcome = ledger.apply(
        CohortApplied(name="c", version=4, flavors=pool, weight=3),
        queue_document(cohort="c", version=9, policy=policy, draining=True),
    )

    cohort, queue = (one.payload for one in outcome.emits)
    assert cohort == QuotaChanged(name="c", kind="cohort", flavors=pool, weight=3, version=1)
    assert queue == QuotaChanged(
        name="q",
        kind="queue",
        parent="c",
        flavors=(FlavorQuota(flavor="h100", nominal=gpu_quota(8)),),
        policy=policy,
        draining=True,
        team="t",
        version=9,
    )
    (rows,) = writes(outcome, "INSERT", "quota_node")
    assert rows[0] == ["c", "q"]


def test_a_document_that_makes_no_sense_leaves_the_old_in_force():
    ledger = Ledger(queue_document())
    twice = (FlavorQuota(flavor="h100"), FlavorQuota(flavor="h100"))
    negative = (FlavorQuota(flavor="h100", nominal=Resources(gpu_milli=-1)),)

    for number, flavors in enumerate((twice, negative), 2):
        outcome = ledger.apply(queue_document(version=number, flavors=flavors))
        assert (outcome.emits, outcome.writes) == ([], [])
    bad = FlavorApplied(name="h100", version=1, price_microdollars_per_gpu_hour=-1)
    assert ledger.apply(bad).writes == []
    bad = FlavorApplied(name="h100", version=1, purchase=Purchase.SPOT)
    assert ledger.apply(bad).writes == []
    assert ledger.handler.memory.core.tree.node("q").owned("h100")[0] == 8000


def test_a_change_of_quota_takes_effect_in_the_same_batch():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1", gpus=2))

    outcome = ledger.apply(queue_document(version=2, gpus=2))

    assert short(outcome) == ["QuotaChanged:q", "WorkloadNominated:w1"]
