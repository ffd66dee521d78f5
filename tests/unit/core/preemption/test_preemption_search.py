"""Which victims are found, in cases small enough to see the answer."""

from __future__ import annotations

import dataclasses

from shared.core.model.amounts import amount
from shared.core.model.nouns import Level, Placement, TopologyRequest
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.rules import WHOLE_MS
from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    Obstacle,
    PreemptionRules,
    Rule,
    SearchLimits,
    choose_victims,
)
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from tests.support import placing
from tests.support.evicting import (
    NOW_MS,
    PATIENT,
    Scene,
    gpus,
    one_queue,
    victims,
    waiting,
)


def test_who_cannot_fit_even_so_hears_how_near_it_came() -> None:
    full = Scene(*(placing.node(f"n{at}", gpus=4, rack=f"r{at % 2}") for at in range(4)))
    full.queue("q", nominal=100)
    for at in range(4):
        full.put(f"w{at}", 4, protected=at == 0)
    rack = TopologyRequest(required=Level.RACK)

    found = full.choose(waiting("p", 4, pods=3, priority=5, topology=rack))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.NO_ROOM
    assert "2 of 3 pods" in found.message
    assert "4 GPUs are of a protected class" in found.message
    assert found.evidence["best_part_pods_fit"] == 2
    assert found.evidence["evictable_gpu_milli"] == 12_000


def test_the_next_nodes_are_told_with_what_they_would_cost() -> None:
    full = one_queue(nodes=3, gpus=1)
    for at in range(3):
        full.put(f"w{at}", 1, ran_ms=1000 * (1 + at))

    found = full.choose(waiting("p", 1, priority=5))

    assert isinstance(found, EvictionPlan)
    assert victims(found) == ["w0"]
    assert [each.victims for each in found.alternatives] == [("w1",), ("w2",)]
    assert "costs 36002000 GPU-ms instead of 36001000, on node n" in found.alternatives[0].why


def test_instances_of_mig_are_reclaimed_by_their_part_of_a_gpu() -> None:
    full = Scene(placing.node("n0", gpus=1, mig=(0,)))
    full.queue("q", nominal=1)
    full.queue("other", nominal=0)
    for name, ran_ms in (("a", 500_000), ("b", 100_000)):
        full.put(name, placing.mig("3g.40gb"), queue="other", ran_ms=ran_ms)

    found = full.choose(waiting("p", placing.mig("3g.40gb")))

    assert victims(found) == ["b"]
    assert isinstance(found, EvictionPlan)
    assert found.rule is Rule.RECLAIM


def test_shares_leave_one_gpu_together_for_a_whole_one() -> None:
    full = one_queue(gpus=2)
    for at, ran_ms in enumerate((100_000, 100_000, 900_000, 900_000)):
        full.put(f"w{at}", placing.share(500), ran_ms=ran_ms, node="n0")

    found = full.choose(waiting("p", 1, priority=5))

    assert victims(found) == ["w0", "w1"]


def test_nobody_leaves_a_node_that_takes_no_work() -> None:
    full = one_queue(nodes=2, gpus=1)
    full.put("a", node="n0", ran_ms=1000)
    full.put("b", node="n1", ran_ms=900_000)
    full.cluster.put_node(placing.node("n0", gpus=1, pool="n0", cordoned=True))

    found = full.choose(waiting("p", 1, priority=5))

    assert victims(found) == ["b"]


def test_cpu_that_is_short_is_freed_with_the_gpus() -> None:
    full = Scene(placing.node("n0", gpus=2, cpu_milli=8000))
    full.queue("q", nominal=100)
    small = (placing.pods(placing.whole(1), cpu_milli=2000),)
    cpu = (placing.pods(None, cpu_milli=5000),)
    full.try_to_put(waiting("gpu", pod_sets=small), ran_ms=1000)
    full.try_to_put(waiting("cpu", pod_sets=cpu), ran_ms=1000)
    full.try_to_put(waiting("other", pod_sets=(placing.pods(placing.whole(1)),)), ran_ms=9_000_000)
    hungry = (placing.pods(placing.whole(1), cpu_milli=4000),)

    found = full.choose(waiting("p", pod_sets=hungry, priority=5))

    assert victims(found) == ["cpu", "gpu"]


def test_trials_are_bounded_and_what_was_found_counts() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q", nominal=4)
    for at in range(4):
        full.put(f"w{at}", 1)

    found = full.choose(waiting("p", 2, priority=5), limits=SearchLimits(trials_max=2))

    assert len(victims(found)) == 2


def test_many_more_occupants_than_rows_at_first_are_kept_apart() -> None:
    full = Scene(*(placing.node(f"n{at:02}", gpus=8) for at in range(40)))
    full.queue("q", nominal=1000)
    for at in range(320):
        full.put(f"w{at:03}", 1, ran_ms=1000 + (at * 7919) % 320)

    found = full.choose(waiting("p", 1, priority=5))
    again = Occupants(full.occupants.tenants.running.values())

    assert victims(found) == ["w000"]
    assert again.row_of.keys() == full.occupants.row_of.keys()


def test_a_workload_without_any_flavor_hears_so() -> None:
    full = one_queue()
    work = PlacementRequest(workload=waiting("p"), flavors=(), headroom={})

    found = choose_victims(
        full.cluster, full.tree, full.occupants, work, PreemptionRules(), now_ms=NOW_MS
    )

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.QUOTA


def test_of_two_flavors_the_one_with_cheaper_victims_is_taken() -> None:
    full = Scene(
        placing.node("n0", gpus=1, pool="n0"), placing.node("n1", gpus=1, flavor="h100", pool="n1")
    )
    full.tree.apply(
        QuotaDocument(
            name="q",
            kind="queue",
            version=1,
            flavors={name: FlavorLimits(nominal=gpus(9)) for name in ("a100", "h100")},
            policy=PATIENT,
        )
    )
    old = full.put("old", node="n0", ran_ms=900_000)
    new = waiting("new")
    answer = place(
        full.cluster,
        PlacementRequest(workload=new, flavors=("h100",), headroom={"h100": UNBOUNDED}),
    )
    assert isinstance(answer, Placement)
    full.tree.charge("q", "h100", amount(answer.charge))
    full.occupants.put(
        dataclasses.replace(old, workload=new, placement=answer, started_at_ms=NOW_MS - 1000)
    )

    for flavors in (("a100", "h100"), ("h100", "a100")):
        found = choose_victims(
            full.cluster,
            full.tree,
            full.occupants,
            PlacementRequest(workload=waiting("p", priority=5), flavors=flavors, headroom={}),
            PreemptionRules(),
            now_ms=NOW_MS,
        )
        assert victims(found) == ["new"]
        assert isinstance(found, EvictionPlan)
        assert found.flavor == "h100"


def test_an_occupant_can_be_replaced_and_forgotten() -> None:
    full = one_queue()
    known = full.put("a", 2)
    full.occupants.put(dataclasses.replace(known, protected=True))

    kept = full.choose(waiting("p", 1, priority=5))
    full.occupants.remove("a")
    full.occupants.remove("nobody")

    assert isinstance(kept, NoEviction)
    assert kept.obstacle is Obstacle.PROTECTED
    nobody = full.choose(waiting("p", 1, priority=5))
    assert isinstance(nobody, NoEviction)
    assert nobody.obstacle is Obstacle.NOBODY
    assert full.occupants.of("a") is None


def test_small_work_takes_a_place_on_a_node_that_could_not_be_emptied_anyway() -> None:
    full = Scene(placing.node("n0", gpus=4, pool="n0"), placing.node("n1", gpus=4, pool="n1"))
    full.queue("q", nominal=100)
    for at in range(4):
        full.put(f"open{at}", node="n0", ran_ms=1_000)
    full.put("kept", 3, node="n1", protected=True)
    full.put("beside", node="n1", ran_ms=100_000)
    work = waiting("p", 1, priority=5)

    assert victims(full.choose(work)) == ["open0"]
    assert victims(full.choose(work, PreemptionRules(whole_ms=WHOLE_MS))) == ["beside"]
    gang = full.choose(waiting("p", 4, priority=5), PreemptionRules(whole_ms=WHOLE_MS))
    assert isinstance(gang, EvictionPlan)
    assert gang.cost_gpu_ms == 4 * (36_000_000 + 1_000)
