"""Who may be evicted for whom, in cases small enough to see the answer."""

from __future__ import annotations

from shared.core.model.nouns import GpuChoice
from shared.core.model.value import replace
from shared.core.preemption.eligibility.rules import EligibilityJudge, Spared
from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    Obstacle,
    PreemptionRules,
    Rule,
)
from shared.core.preemption.victims.telling import NEXT_STEP
from shared.core.quota.queue_policy import QueuePolicy, WithinQueue
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, one_queue, victims, waiting


def test_what_fits_needs_no_victims() -> None:
    found = one_queue().choose(waiting("p", 2))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.FITS


def test_the_one_with_least_work_since_its_start_goes() -> None:
    full = one_queue()
    full.put("old", ran_ms=900_000)
    full.put("new", ran_ms=100_000)

    found = full.choose(waiting("p", 1, priority=5))

    assert victims(found) == ["new"]
    assert isinstance(found, EvictionPlan)
    assert found.rule is Rule.PRIORITY
    assert found.lost_gpu_ms == 100_000
    assert (found.victims[0].version, found.victims[0].attempt) == (7, 1)
    assert [pod.node for pod in found.placement.pods] == ["n0"]


def test_equal_priority_in_the_queue_is_never_a_victim() -> None:
    full = one_queue()
    full.put("a", 2, priority=5)

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.PRIORITY


def test_a_protected_class_is_never_a_victim() -> None:
    full = one_queue()
    full.put("a", 2, protected=True)

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.PROTECTED


def test_min_runtime_spares_for_a_time_and_says_until_when() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=9, policy=QueuePolicy(min_runtime_seconds=60))
    full.put("a", 2, ran_ms=20_000)

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, NoEviction)
    assert (found.obstacle, found.flavor) == (Obstacle.MIN_RUNTIME, "a100")
    assert found.retry_at_ms == NOW_MS + 40_000


def test_whatever_spares_the_victims_there_is_a_next_step() -> None:
    assert set(Obstacle) == set(NEXT_STEP)


def test_a_loss_budget_is_never_exceeded() -> None:
    full = one_queue()
    full.put("a", ran_ms=100_000)
    full.put("b", ran_ms=200_000)
    budget = PreemptionRules(loss_left_gpu_ms={"red": 250_000})

    one = full.choose(waiting("p", 1, priority=5), budget)
    both = full.choose(waiting("p", 2, priority=5), budget)

    assert victims(one) == ["a"]
    assert isinstance(both, NoEviction)


def test_the_preemptor_waits_for_its_delay() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=9, policy=QueuePolicy(preemption_delay_seconds=20_000))
    full.put("a", 2)

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.DELAY
    assert found.retry_at_ms == 20_000_000


def test_who_cools_down_or_is_promised_stays() -> None:
    full = one_queue()
    full.put("a", ran_ms=1)
    full.put("b", ran_ms=2)

    found = full.choose(
        waiting("p", 1, priority=5),
        PreemptionRules(cooldown_until_ms={"a": NOW_MS + 1}, promised={"c"}),
    )
    promised = full.choose(waiting("p", 1, priority=5), PreemptionRules(promised={"a", "b"}))

    assert victims(found) == ["b"]
    assert isinstance(promised, NoEviction)
    assert promised.obstacle is Obstacle.PROMISED


def test_an_elastic_gang_gives_its_surplus_and_goes_on() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q", nominal=100)
    pod_set = replace(placing.pods(placing.whole(1), 4), min_count=2)
    elastic = full.try_to_put(waiting("e", pod_sets=(pod_set,)), ran_ms=100_000)

    two = full.choose(waiting("p", 1, pods=2, priority=5))
    three = full.choose(waiting("p", 1, pods=3, priority=5))

    assert elastic is not None
    assert isinstance(two, EvictionPlan)
    assert two.victims[0].kept_ranks == (0, 1)
    assert [pod.rank for pod in two.victims[0].pods] == [2, 3]
    assert two.lost_gpu_ms == 200_000
    assert isinstance(three, EvictionPlan)
    assert three.victims[0].kept_ranks == ()
    assert three.lost_gpu_ms == 400_000


def test_an_elastic_gang_gives_its_highest_ranks_wherever_room_is_wanted() -> None:
    """A gang goes on with ranks 0, 1, ...: whoever wants the place of rank 1 takes 2 and 3 too."""
    full = Scene(*(placing.node(f"n{at}", gpus=1, pool=f"n{at}") for at in range(4)))
    full.queue("q", nominal=100)
    pod_set = replace(placing.pods(placing.whole(1), 4), min_count=1)
    gang = full.try_to_put(waiting("e", pod_sets=(pod_set,)), ran_ms=100_000)
    assert gang is not None
    node_of = {pod.rank: pod.node for pod in gang.placement.pods}

    def taken(rank: int) -> tuple[tuple[int, ...], int]:
        asked = waiting("p", 1, priority=5)
        there = GpuChoice(node_pool=node_of[rank])
        found = full.choose(replace(asked, spec=replace(asked.spec, gpu_choice=there)))
        assert isinstance(found, EvictionPlan)
        (victim,) = found.victims
        return tuple(sorted(victim.kept_ranks)), found.lost_gpu_ms

    assert ((0, 1, 2), 100_000) == taken(3)
    assert ((0, 1), 200_000) == taken(2)
    assert ((0,), 300_000) == taken(1)
    assert ((), 400_000) == taken(0)


def test_only_the_work_since_the_last_checkpoint_is_lost() -> None:
    full = one_queue()
    saves = waiting("saves")
    saves = replace(saves, spec=replace(saves.spec, checkpoint_interval_seconds=60))
    full.try_to_put(saves, ran_ms=600_010, restart_ms=30_000)
    full.put("young", ran_ms=100_000)

    found = full.choose(waiting("p", 1, priority=5))

    assert victims(found) == ["saves"]
    assert isinstance(found, EvictionPlan)
    assert found.lost_gpu_ms == 30_010


def test_the_judge_knows_of_equal_priority_by_itself() -> None:
    full = one_queue()
    occupant = full.put("a", 2, priority=5)
    judge = EligibilityJudge(
        full.tree,
        PreemptionRules(),
        waiting("p", priority=5),
        (1000, 0, 0),
        flavor="a100",
        now_ms=NOW_MS,
    )

    assert judge.rule(occupant, (2000, 0, 0)) == Spared(Obstacle.PRIORITY)


def test_a_queue_may_be_told_not_to_take_from_itself() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=9, policy=QueuePolicy(within_queue=WithinQueue.NEVER))
    full.put("a", 2, ran_ms=9_000_000)

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.POLICY


def test_a_loss_budget_of_a_team_that_runs_nothing_stops_nobody() -> None:
    full = one_queue()
    full.put("a", 2)

    found = full.choose(
        waiting("p", 1, priority=5), PreemptionRules(loss_left_gpu_ms={"unknown": 0})
    )

    assert victims(found) == ["a"]


def test_who_wants_his_gpus_in_one_numa_domain_has_those_evicted_that_hold_one() -> None:
    full = Scene(placing.node("n0", gpus=8))
    full.queue("q", nominal=8)
    for number in range(8):
        full.put(f"v{number}", ran_ms=1000 * (number + 1))
    work = waiting("p", 4, priority=5)
    topology = replace(work.spec.topology, numa_aligned=True)

    found = full.choose(replace(work, spec=replace(work.spec, topology=topology)))

    domains = {
        full.occupants.tenants.running[one].placement.pods[0].shares[0].index // 4
        for one in victims(found)
    }
    assert len(victims(found)) == 4
    assert len(domains) == 1
