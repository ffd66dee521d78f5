"""What monitoring makes of facts: cost rows, gauges and counts, before and after a restart."""

import itertools
import random

import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from services.monitoring.gauges import Gauges
from services.monitoring.handler import MonitoringHandler
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory
from shared.core.model.decision import Reason
from shared.core.model.nouns import GpuShare
from shared.core.model.units import Resources
from shared.core.quota.prices import Purchase
from shared.events import nodes, quotas, workloads
from shared.runtime import journal
from tests.unit.monitoring import builders as b

HOUR_MS = 3_600_000


class Clock:
    def __init__(self):
        self.ms = b.START_MS

    def now_ms(self):
        return self.ms

    def monotonic_seconds(self):
        return self.ms / 1000


class Monitoring:
    """A handler with its tables; each `read` is one committed unit of work."""

    def __init__(self):
        self.tables = b.Tables()
        self.handler = MonitoringHandler()
        self.clock = Clock()
        self._registry()

    def _registry(self):
        self.registry = CollectorRegistry()
        gauges = Gauges(lambda: self.handler.memory, self.clock, self.handler.team)
        self.registry.register(gauges)

    def read(self, *payloads):
        messages = [b.received(payload) for payload in payloads]
        self.tables.apply(self.handler.decide(messages, b.START_MS).writes)
        self.handler.topics()

    async def restart(self):
        self.handler = MonitoringHandler()
        self._registry()
        await self.handler.load(self.tables)

    def value(self, name, /, **labels):
        return self.registry.get_sample_value(name, labels)

    def state(self, state, team="vision"):
        return self.value("muster_workloads", team=team, state=state) or 0

    def reason(self, reason, team="vision"):
        return self.value("muster_queue_workloads", team=team, reason=reason) or 0

    def samples(self):
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.value
        }


@pytest.fixture
def monitoring():
    return Monitoring()


def test_an_attempt_is_one_row_from_placed_to_released(monitoring: Monitoring):
    monitoring.read(b.queued(), b.placed(at_ms=b.START_MS + 5))
    monitoring.read(b.released(workloads.WorkloadSucceeded, 3, b.START_MS + 105))

    row = ["vision", "vision-queue", "h100", 1000, b.START_MS + 5, b.START_MS + 105]
    assert {("w1", 1): row} == monitoring.tables.intervals


def test_a_gang_that_changes_its_size_has_an_interval_for_each_in_any_order():
    facts = [
        b.placed(2, at_ms=b.START_MS),
        b.resized(4, 3, 1, b.START_MS + 100),
        b.resized(5, 2, 2, b.START_MS + 150),
        b.released(workloads.WorkloadSucceeded, 6, b.START_MS + 250, released_resizes=2),
    ]
    for order in itertools.permutations(facts):
        one = Monitoring()
        for fact in [*order, *order]:
            one.read(fact)

        held = {key[2:]: row[3:] for key, row in one.tables.intervals.items()}
        assert held == {
            (): [1000, b.START_MS, b.START_MS + 100],
            (1,): [3000, b.START_MS + 100, b.START_MS + 150],
            (2,): [2000, b.START_MS + 150, b.START_MS + 250],
        }


def test_gauges_follow_the_size_of_a_gang(monitoring: Monitoring):
    monitoring.read(b.queued(), b.placed(2, at_ms=b.START_MS))
    monitoring.read(b.resized(4, 3, 1, b.START_MS + 100))

    memory = monitoring.handler.memory
    assert {("vision", "vision-queue", "h100"): 3000} == memory.held.charged
    assert ["n1", "n2", "n3"] == [node for node, *_ in memory.devices["w1"]]

    monitoring.read(
        b.released(workloads.WorkloadSucceeded, 5, b.START_MS + 200, released_resizes=1)
    )

    total = memory.held.gpus["vision", "h100"]
    assert 1000 * 100 + 3000 * 100 == total.at(b.START_MS + 900)
    assert {} == memory.devices


async def test_dollars_have_the_price_of_when_work_began_also_after_a_restart(
    monitoring: Monitoring,
):
    later = b.START_MS + 10_000
    monitoring.read(b.placed(2, "w0"), b.a_flavor(3_600_000), b.placed(2))
    monitoring.read(
        b.a_flavor(7_200_000, version=2, purchase=Purchase.RESERVED),
        b.released(workloads.WorkloadRequeued, 4, later),
        b.placed(5, attempt=2, at_ms=later),
    )
    for _ in range(2):
        monitoring.clock.ms = b.START_MS + 20_000
        labels = {"team": "vision", "flavor": "h100"}
        dollars = {
            one.value: monitoring.value("muster_team_cost_dollars_total", **labels, purchase=one)
            for one in (Purchase.ON_DEMAND, Purchase.RESERVED, Purchase.OWNED)
        }
        assert dollars == {"on-demand": 0.01, "reserved": 0.02, "owned": None}
        await monitoring.restart()


def test_cost_rows_are_the_same_in_any_order_and_told_twice():
    facts = [
        b.placed(2, at_ms=b.START_MS + 5),
        b.released(workloads.WorkloadRequeued, 4, b.START_MS + 9),
        b.placed(5, attempt=2, at_ms=b.START_MS + 20, flavor="a100"),
        b.released(workloads.WorkloadFailed, 6, b.START_MS + 30, attempt=2),
    ]
    outcomes = []
    for order in itertools.permutations(facts):
        one = Monitoring()
        for fact in [*order, *order]:
            one.read(fact)
        outcomes.append(one.tables.intervals)

    assert {("w1", 1), ("w1", 2)} == outcomes[0].keys()
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_a_workload_is_counted_in_one_state_only(monitoring: Monitoring):
    seen = []
    story = [
        b.queued(),
        b.placed(2),
        b.a_fact(workloads.WorkloadRunning, 3, running_at_ms=b.START_MS),
        b.a_fact(workloads.WorkloadEvicted, 4, reason=Reason.OPERATOR),
        b.released(workloads.WorkloadRequeued, 5, b.START_MS),
        b.released(workloads.WorkloadCancelled, 6, 0, attempt=0),
    ]
    for fact in story:
        monitoring.read(fact)
        states = ("queued", "placed", "running", "evicting", "cancelled")
        seen.append([state for state in states if monitoring.state(state)])

    assert [["queued"], ["placed"], ["running"], ["evicting"], ["queued"], []] == seen
    assert {} == monitoring.handler.memory.workloads


def test_the_order_between_topics_makes_no_difference():
    from_placement = [
        b.refused(),
        b.placed(2),
        b.a_fact(workloads.WorkloadRunning, 3, running_at_ms=b.START_MS),
        b.released(workloads.WorkloadSucceeded, 4, b.START_MS + 50),
    ]
    for place in range(len(from_placement) + 1):
        one = Monitoring()
        one.read(*from_placement[:place], b.queued(), *from_placement[place:])

        assert {} == one.handler.memory.workloads, place
        assert 0 == sum(one.handler.memory.states.values())
        assert 0 == sum(one.handler.memory.reasons.values())
        assert 0 == sum(one.handler.memory.held.charged.values())


def test_an_older_version_changes_no_gauge(monitoring: Monitoring):
    late = b.placed(2)
    monitoring.read(b.queued(), late, b.released(workloads.WorkloadRequeued, 4, b.START_MS))

    monitoring.read(late)

    assert (1, 0) == (monitoring.state("queued"), monitoring.state("placed"))
    assert 0 == monitoring.value("muster_gpu_allocated", flavor="h100")


def test_old_news_of_a_node_change_nothing(monitoring: Monitoring):
    monitoring.read(b.a_node(generation=3, gpus=8), b.a_node(generation=2, gpus=4))
    monitoring.read(nodes.GpuHealthReported(node="n1", gpu=-1, healthy=False, generation=3))
    monitoring.read(nodes.NodeRemoved(node="n1", generation=1))

    assert 8 == monitoring.value("muster_gpu_capacity", flavor="h100")
    assert 8 == monitoring.value("muster_gpu_healthy", flavor="h100")


def test_a_refusal_read_before_the_workload_is_not_lost(monitoring: Monitoring):
    monitoring.read(b.refused_by_quota())
    assert 0 == monitoring.state("queued")

    monitoring.read(b.queued())

    assert 1 == monitoring.reason("WaitingForQuota")


def test_a_late_refusal_brings_no_workload_back(monitoring: Monitoring):
    monitoring.read(
        b.queued(),
        b.placed(2),
        b.released(workloads.WorkloadSucceeded, 3, b.START_MS),
        b.refused_by_quota(),
    )

    assert 0 == monitoring.state("queued")
    assert 0 == monitoring.reason("WaitingForQuota")


def test_the_reason_told_last_is_shown_until_it_is_placed(monitoring: Monitoring):
    told = []
    for fact in (b.queued(), b.refused_by_quota(), b.refused(Reason.GANG_SHORT), b.placed(2)):
        monitoring.read(fact)
        reasons = ("", "WaitingForQuota", "GangIncomplete")
        told.append([reason for reason in reasons if monitoring.reason(reason)])

    assert [[""], ["WaitingForQuota"], ["GangIncomplete"], []] == told


def test_nothing_is_read_that_nothing_comes_of(monitoring: Monitoring):
    read = set(monitoring.handler.reads())

    assert quotas.WorkloadNominated not in read
    assert {workloads.WorkloadPlaced, nodes.GpuUsageReported} <= read


def test_nodes_on_which_nothing_starts_are_counted_by_flavor(monitoring: Monitoring):
    shunned = [
        nodes.NodeShunned(node=name, until_ms=9, workloads=2, start_seconds=120)
        for name in ("n1", "n2", "unknown")
    ]
    monitoring.read(b.a_node(), b.a_node("n2", gpus=4, flavor="a100"), *shunned)
    monitoring.read(b.a_node(generation=2))
    assert 1 == monitoring.value("muster_nodes_shunned", flavor="h100")

    monitoring.read(nodes.NodeUnshunned(node="n1", reason=Reason.STARTED))

    assert 0 == monitoring.value("muster_nodes_shunned", flavor="h100")
    assert 1 == monitoring.value("muster_nodes_shunned", flavor="a100")


def test_the_newest_debt_of_each_queue_and_cohort_is_shown(monitoring: Monitoring):
    monitoring.read(
        quotas.QuotaChanged(name="vision", kind="queue"),
        quotas.QuotaChanged(name="all", kind="cohort"),
        quotas.DebtsTold(debts={"vision": 31_250, "all": -500, "unknown": 9}, at_ms=2),
        quotas.DebtsTold(debts={"vision": 7}, at_ms=1),
    )

    debts = {one: value for one, value in monitoring.samples().items() if "_debt_" in str(one)}

    assert [-0.0005, 0.03125] == sorted(debts.values())
    assert 0.03125 == monitoring.value("muster_quota_debt_ratio", kind="queue", name="vision")


async def test_a_restart_changes_no_gauge(monitoring: Monitoring):
    limit = quotas.FlavorQuota(flavor="h100", nominal=Resources(gpu_milli=8000))
    monitoring.read(
        b.a_node(),
        b.a_node("n2", gpus=4, flavor="a100"),
        nodes.GpuHealthReported(node="n1", gpu=1, healthy=False, generation=2),
        nodes.NodeRemoved(node="n2", generation=2),
        b.a_node("n3", gpus=8),
        nodes.NodeShunned(node="n3", until_ms=9, workloads=2, start_seconds=120),
        quotas.QuotaChanged(name="vision-queue", kind="queue", flavors=(limit,)),
        quotas.DebtsTold(debts={"vision-queue": 31_250}, at_ms=1),
        b.queued(),
        b.queued("w2"),
        b.queued("w3", "speech"),
        b.refused(workload_id="w2"),
        b.placed(2),
        b.placed(2, "w3", "speech"),
        b.released(workloads.WorkloadSucceeded, 3, b.START_MS + 5000, "w3", "speech"),
    )
    monitoring.clock.ms += 60_000
    before = monitoring.samples()

    await monitoring.restart()

    assert before == monitoring.samples()
    assert 0.03125 == monitoring.value(
        "muster_quota_debt_ratio", kind="queue", name="vision-queue"
    )
    assert 10 == monitoring.value("muster_gpu_capacity", flavor="h100")
    assert 9 == monitoring.value("muster_gpu_healthy", flavor="h100")
    assert 8 == monitoring.value("muster_quota_nominal_gpus", queue="vision-queue", flavor="h100")
    assert 1 == monitoring.value("muster_quota_used_gpus", queue="vision-queue", flavor="h100")
    assert {60.0, 5.0} == {
        value for (name, _), value in before.items() if name == "muster_team_gpu_seconds_total"
    }


async def test_memory_survives_when_the_journal_is_written_anew(
    monitoring: Monitoring, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "SLACK_ENTRIES", 5)
    monkeypatch.setattr(journal, "ROW_ENTRIES_MAX", 3)
    generator = random.Random(1)
    for number in range(200):
        monitoring.read(b.queued(f"w{number}"), b.placed(2, f"w{number}"))
        if generator.random() < 0.8:
            end = b.released(workloads.WorkloadSucceeded, 3, b.START_MS, f"w{number}")
            monitoring.read(end)
    before = monitoring.samples()

    await monitoring.restart()

    live = len(monitoring.handler.memory.workloads)
    assert before == monitoring.samples()
    assert 200 > live > 0
    # Two entries live for each workload: what it is and what it holds, and one total.
    assert sum(entries for entries, _ in monitoring.tables.journal.values()) <= 6 * live + 20


def test_a_shared_gpu_is_used_by_what_each_team_holds_of_it(monitoring: Monitoring):
    shares = [GpuShare(index=0, mask=0, milli=milli, memory_mib=1) for milli in (200, 600)]
    monitoring.read(
        b.a_node(),
        b.placed(2, "w1", "vision", shares=(shares[0],)),
        b.placed(2, "w2", "speech", shares=(shares[1],)),
        b.usage(10, 0, at_ms=b.START_MS),
        b.usage(80, 0, at_ms=b.START_MS + 1),
        b.usage(20, 0, at_ms=b.START_MS - 1),
    )

    assert pytest.approx(0.2) == monitoring.value("muster_team_gpu_utilized", team="vision")
    assert pytest.approx(0.6) == monitoring.value("muster_team_gpu_utilized", team="speech")
    assert 0.4 == monitoring.value("muster_gpu_utilization_ratio", flavor="h100")
    allocated = {"team": "vision", "flavor": "h100"}
    assert 0.2 == monitoring.value("muster_team_gpu_allocated", **allocated)


def test_use_that_was_reported_long_ago_counts_as_unknown(monitoring: Monitoring):
    monitoring.read(
        b.placed(2), b.usage(100), b.usage(0, node="n2", at_ms=b.START_MS + 10 * 60_000)
    )

    assert 0 == monitoring.value("muster_team_gpu_utilized", team="vision")


async def test_who_scrapes_while_memory_is_rebuilt_sees_all_or_nothing(
    monitoring: Monitoring, monkeypatch: pytest.MonkeyPatch
):
    names = [f"w{number}" for number in range(5)]
    monitoring.read(*(b.queued(name) for name in names))
    monitoring.read(*(b.placed(2, name, at_ms=b.START_MS) for name in names))
    seen = []
    count = MonitoringMemory.count

    def scraped(memory, one, by):
        seen.append(monitoring.state("placed"))
        count(memory, one, by)

    monkeypatch.setattr(MonitoringMemory, "count", scraped)
    await monitoring.handler.load(monitoring.tables)  # after a unit that failed
    await monitoring.restart()

    assert [5] * 5 + [0] * 5 == seen
    assert 5 == monitoring.state("placed")


async def test_counts_move_after_the_commit_and_only_once(monitoring: Monitoring):
    def counted() -> list[float]:
        names = [
            ("muster_submissions_total", {"team": "once", "answer": "accepted"}),
            ("muster_queue_wait_seconds_count", {"team": "once"}),
            ("muster_queue_wait_seconds_sum", {"team": "once"}),
            ("muster_outcomes_total", {"team": "once", "state": "succeeded"}),
            ("muster_evictions_total", {"reason": "kubelet-refused"}),
        ]
        return [REGISTRY.get_sample_value(name, labels) or 0 for name, labels in names]

    story = [
        b.queued("w9", "once"),
        b.placed(2, "w9", "once", at_ms=b.START_MS + 1500),
        b.a_fact(workloads.WorkloadEvicted, 3, "w9", "once", reason=Reason.KUBELET_REFUSED),
        b.released(workloads.WorkloadRequeued, 4, b.START_MS + 1600, "w9", "once"),
        b.placed(5, "w9", "once", attempt=2, at_ms=b.START_MS + HOUR_MS),
        b.released(workloads.WorkloadSucceeded, 6, b.START_MS + HOUR_MS, "w9", "once", attempt=2),
    ]
    handler = monitoring.handler
    handler.decide([b.received(fact) for fact in story], b.START_MS)
    assert [0, 0, 0, 0, 0] == counted()

    await handler.load(monitoring.tables)  # as after a transaction that did not happen
    monitoring.read(*story)

    assert [1, 1, 1.5, 1, 1] == counted()


def test_labels_beyond_the_bound_are_called_other():
    team = Capped(2)

    assert ["a", "b", "other", "a"] == [team(name) for name in "abca"]


def test_the_first_price_of_a_version_stands(monitoring: Monitoring):
    monitoring.read(b.a_flavor(5), b.a_flavor(7))
    monitoring.read(b.a_flavor(9, version=2), b.a_flavor(11))

    prices = {key: row[1] for key, row in monitoring.tables.prices.items()}
    assert {("h100", 1): 5, ("h100", 2): 9} == prices
