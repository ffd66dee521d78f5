"""Evictions in cases small enough to see the answer."""

from __future__ import annotations

from shared.core.preemption import EvictionPlan, NoEviction, Obstacle, Rule, Rules
from shared.core.queue_policy import QueuePolicy
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, victims, waiting


def scene(nodes: int = 1, gpus: int = 2, nominal: int = 100) -> Scene:
    """One queue "q" on nodes that are a pool each by their name."""
    made = Scene(*(placing.node(f"n{at}", gpus=gpus, pool=f"n{at}") for at in range(nodes)))
    made.queue("q", nominal=nominal)
    return made


def test_what_fits_needs_no_victims() -> None:
    found = scene().choose(waiting("p", 2))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.FITS


def test_the_one_with_least_work_since_its_start_goes() -> None:
    full = scene()
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
    full = scene()
    full.put("a", 2, priority=5)

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.PRIORITY


def test_a_protected_class_is_never_a_victim() -> None:
    full = scene()
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
    assert found.obstacle is Obstacle.MIN_RUNTIME
    assert found.retry_at_ms == NOW_MS + 40_000


def test_a_queue_reclaims_its_nominal_quota_from_one_above_its_own() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=1)
    full.queue("other", nominal=1)
    full.put("a", queue="other", ran_ms=500_000)
    full.put("b", queue="other", ran_ms=100_000, priority=100)

    found = full.choose(waiting("p", 1, priority=-5))

    assert victims(found) == ["b"]
    assert isinstance(found, EvictionPlan)
    assert found.rule is Rule.RECLAIM


def test_nobody_takes_from_a_queue_within_its_nominal() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=1)
    full.queue("other", nominal=2)
    full.put("a", queue="other")
    full.put("b", queue="other")

    found = full.choose(waiting("p", 1, priority=1000))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.NOMINAL


def test_a_gang_goes_whole_and_nobody_else_goes_without_need() -> None:
    full = scene(nodes=2)
    full.put("gang", 1, pods=2, ran_ms=1000)
    full.put("a", ran_ms=100)
    full.put("b", ran_ms=200)

    found = full.choose(waiting("p", 2, pods=1, priority=5))

    assert victims(found) in (["gang"], ["a", "b"])


def test_a_loss_budget_is_never_exceeded() -> None:
    full = scene()
    full.put("a", ran_ms=100_000)
    full.put("b", ran_ms=200_000)
    budget = Rules(loss_left_gpu_ms={"red": 250_000})

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
    full = scene()
    full.put("a", ran_ms=1)
    full.put("b", ran_ms=2)

    found = full.choose(
        waiting("p", 1, priority=5), Rules(cooldown_until_ms={"a": NOW_MS + 1}, promised={"c"})
    )
    promised = full.choose(waiting("p", 1, priority=5), Rules(promised={"a", "b"}))

    assert victims(found) == ["b"]
    assert isinstance(promised, NoEviction)
    assert promised.obstacle is Obstacle.PROMISED


def test_fair_share_takes_from_a_strictly_larger_share_only() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q", nominal=1)
    full.queue("other", nominal=1)
    full.queue("rest", nominal=2)
    for name in ("a", "b", "c"):
        full.put(name, queue="other")
    full.put("d", queue="q")

    first = full.tree.node("all").owned("a100")
    found = full.choose(waiting("p", 1, queue="q"))

    assert first[0] == 4000
    # q would be one above its nominal, other is two above.
    assert isinstance(found, NoEviction) or found.rule is Rule.FAIR_SHARE
