"""Who goes on elsewhere so that a gang finds room, in cases small enough to see."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.model.nouns import Workload, WorkloadSpec
from shared.core.model.value import replace
from shared.core.preemption.defragmentation.plan import DefragmentationLimits
from shared.core.preemption.eligibility.plan import EvictionPlan
from shared.core.preemption.moves import moving_search
from shared.core.preemption.moves.moving import limits_for
from shared.core.preemption.victims.choose import NoEviction, PreemptionRules, Rule
from shared.core.quota.queue_policy import QueuePolicy
from tests.support import placing
from tests.support.evicting import PATIENT, Scene, victims, waiting


def scene(
    nodes: int = 2, *, small: int = 4, owner: int = 12, policy: QueuePolicy = PATIENT
) -> Scene:
    """Nodes that are a pool each by their name; "small" and "owner" own all that there is."""
    made = Scene(*(placing.node(f"n{at}", gpus=8, pool=f"n{at}") for at in range(nodes)))
    made.queue("small", nominal=small, policy=policy)
    made.queue("owner", nominal=owner)
    made.queue("debtor")
    return made


def broken_up(*, policy: QueuePolicy = PATIENT, **rest: object) -> Scene:
    """Two GPUs of each of two nodes are in use, within quota."""
    made = scene(policy=policy)
    made.put("a", 2, queue="small", node="n0", ran_ms=400_000)
    made.put("b", 2, queue="small", node="n1", **rest)  # type: ignore[arg-type]
    return made


def moved(plan: EvictionPlan | None) -> dict[str, str]:
    """Where each mover goes."""
    assert plan is not None
    return {one.workload_id: one.placement.pods[0].node for one in plan.moves}


def test_who_loses_least_goes_to_the_other_node() -> None:
    here = broken_up(ran_ms=200_000)
    work = waiting("p", 8, queue="owner")

    assert isinstance(here.choose(work), NoEviction)
    plan = here.choose_moves(work)

    assert {"b": "n0"} == moved(plan)
    assert plan is not None
    assert (Rule.MOVE, (), "n1") == (plan.rule, plan.victims, plan.placement.pods[0].node)
    (move,) = plan.moves
    assert (7, 1, 400_000) == (move.version, move.attempt, move.lost_gpu_ms)
    assert 400_000 == plan.lost_gpu_ms
    assert (2_000, [("b", 400_000)]) == (move.placement.charge.gpu_milli, plan.losses)
    here.carry_out(plan, work)


@pytest.mark.parametrize(
    "kept",
    [
        {"protected": True},
        {"evictable": False},
        {"ran_ms": 1_000},
        {"priority": 1},
    ],
)
def test_who_may_never_be_evicted_is_not_moved_either(kept: dict[str, object]) -> None:
    here = broken_up(policy=QueuePolicy(min_runtime_seconds=60), **kept)

    assert {"a": "n1"} == moved(here.choose_moves(waiting("p", 8, queue="owner")))


@pytest.mark.parametrize(
    "rules",
    [
        PreemptionRules(cooldown_until_ms={"b": 1 << 60}),
        PreemptionRules(promised=("b",)),
    ],
)
def test_who_cools_down_or_goes_for_others_stays(rules: PreemptionRules) -> None:
    here = broken_up(ran_ms=1_000)

    assert {"a": "n1"} == moved(here.choose_moves(waiting("p", 8, queue="owner"), rules))


def test_no_team_loses_more_than_it_may_and_no_more_gpus_move_than_start() -> None:
    here = broken_up()
    work = waiting("p", 8, queue="owner")

    assert None is here.choose_moves(work, PreemptionRules(loss_left_gpu_ms={"red": 199_999}))
    assert None is not here.choose_moves(
        work, PreemptionRules(loss_left_gpu_ms={"red": 200_000, "z": 0})
    )

    crowded = scene(3, small=16, owner=8)
    for name, node in (("a", "n0"), ("b", "n0"), ("c", "n1"), ("e", "n2")):
        crowded.put(name, 4, queue="small", node=node, evictable=node == "n0")
    assert {"a": "n1", "b": "n2"}.keys() == moved(
        crowded.choose_moves(waiting("p", 8, queue="owner"))
    ).keys()
    assert None is crowded.choose_moves(waiting("p", 5, queue="owner"))


def test_the_wider_a_gang_the_more_may_be_moved_for_it() -> None:
    made = Scene(*(placing.node(f"n{at}", gpus=4, pool=f"n{at}") for at in range(36)))
    made.queue("small", nominal=108)
    made.queue("owner", nominal=36)
    for at in range(108):
        made.put(f"w{at}", queue="small", node=f"n{at % 36}")
    work = waiting("p", 4, queue="owner", pods=9)

    plan = made.choose_moves(work)

    assert plan is not None
    assert 27 == len(plan.moves)
    assert None is made.choose_moves(work, limits=limits_for(9, moves_max=26))
    assert DefragmentationLimits(moves_max=24, steps_max=200) == limits_for(6)
    assert DefragmentationLimits(moves_max=28, steps_max=512) == limits_for(7)
    assert DefragmentationLimits(moves_max=64, steps_max=512) == limits_for(99)
    made.carry_out(plan, work)


def test_who_had_more_than_its_part_lately_has_nobody_moved_for_what_it_borrows() -> None:
    here = broken_up()
    work = waiting("p", 8, queue="debtor")

    assert {"b": "n0"} == moved(here.choose_moves(work))
    here.tree.set_debt("debtor", 1)
    assert None is here.choose_moves(work)
    here.tree.set_debt("debtor", -1)
    assert {"b": "n0"} == moved(here.choose_moves(work))


def test_borrowers_go_and_who_is_within_quota_moves_and_nobody_else() -> None:
    """`d` and `b` share a node; `b` goes where two GPUs are free, so `e` may stay."""
    here = scene(small=2, owner=14)
    here.put("d", 6, queue="debtor", node="n0")
    here.put("b", 2, queue="small", node="n0")
    here.put("c", 2, queue="owner", node="n1")
    here.put("e", 4, queue="debtor", node="n1")
    work = waiting("p", 8, queue="owner")

    plan = here.choose_moves(work)

    assert {"b": "n1"} == moved(plan)
    assert plan is not None
    assert ["d"] == victims(plan)
    assert Rule.RECLAIM is plan.rule
    here.carry_out(plan, work)


def test_where_a_mover_needs_the_room_of_a_borrower_that_goes_as_well() -> None:
    here = scene(small=2, owner=14)
    here.put("d", 6, queue="debtor", node="n0")
    here.put("b", 2, queue="small", node="n0")
    here.put("c", 6, queue="owner", node="n1", evictable=False)
    here.put("e", 2, queue="debtor", node="n1")
    work = waiting("p", 8, queue="owner")

    plan = here.choose_moves(work)

    assert {"b": "n1"} == moved(plan)
    assert plan is not None
    assert ["d", "e"] == victims(plan)
    here.carry_out(plan, work)


def test_a_borrower_elsewhere_goes_only_if_quota_is_short_without_it() -> None:
    """`p` gets the node of `d` and `b`; `f` is in nobody's way."""
    here = scene(3, small=2, owner=22)
    here.put("d", 6, queue="debtor", node="n0")
    here.put("b", 2, queue="small", node="n0")
    here.put("c", 2, queue="owner", node="n1", evictable=False)
    here.put("f", 8, queue="debtor", node="n2")
    work = waiting("p", 8, queue="owner")
    here.tree.charge("owner", "a100", (2_000, 0, 0))
    assert isinstance(here.choose(replace(work, spec=_at_n0(work))), NoEviction)

    plan = here.choose_moves(replace(work, spec=_at_n0(work)))
    assert plan is not None
    assert (["d"], {"b": "n1"}) == (victims(plan), moved(plan))

    here.tree.charge("owner", "a100", (4_000, 0, 0))
    plan = here.choose_moves(replace(work, spec=_at_n0(work)))
    assert plan is not None
    assert (["d", "f"], {"b": "n1"}) == (victims(plan), moved(plan))


def _at_n0(work: Workload) -> WorkloadSpec:
    return replace(work.spec, gpu_choice=replace(work.spec.gpu_choice, node_pool="n0"))


def test_quota_that_nobody_gives_is_no_matter_of_moves() -> None:
    here = broken_up()
    here.tree.charge("owner", "a100", (8_000, 0, 0))

    assert None is here.choose_moves(waiting("p", 8, queue="owner"))


def test_a_mover_may_go_where_a_start_was_promised_to_who_starts_now() -> None:
    here = scene(3, small=6, owner=18)
    for name, node in (("a", "n0"), ("b", "n1"), ("c", "n2")):
        here.put(name, 2, queue="small", node=node)
    for node in ("n0", "n2", "gone"):
        here.cluster.pin(node, 1)
    here.cluster.pin("n1", 2)
    work = waiting("p", 8, queue="owner")

    assert None is here.choose_moves(work, pins=(1,))
    plan = here.choose_moves(work, pins=(1,), promised=("n0", "n2", "gone"))

    assert plan is not None
    assert {"n0", "n2"} == {*moved(plan).values(), plan.placement.pods[0].node}


def test_of_a_large_fleet_the_nodes_that_could_be_emptiest_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moving_search, "NODES_MAX", 2)
    here = scene(4, small=16, owner=16)
    for at, gpus in enumerate((5, 2, 4, 2)):
        here.put(f"s{at}", gpus, queue="small", node=f"n{at}")
    here.put("d", 2, queue="debtor", node="n1")

    plan = here.choose_moves(waiting("p", 8, queue="owner"))

    assert plan is not None
    assert plan.placement.pods[0].node in ("n1", "n3")


@pytest.mark.parametrize("other", [{"flavor": "h100"}, {"taints": ("dedicated=x:NoSchedule",)}])
def test_emptier_nodes_that_it_may_not_use_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    monkeypatch.setattr(moving_search, "NODES_MAX", 2)
    here = broken_up()
    for at in range(2):
        here.cluster.put_node(placing.node(f"idle{at}", gpus=8, **other))

    assert 1 == len(moved(here.choose_moves(waiting("p", 8, queue="owner"))))


def test_no_plan_is_larger_than_allowed() -> None:
    here = broken_up()

    assert None is here.choose_moves(
        waiting("p", 8, queue="owner"), None, DefragmentationLimits(moves_max=0)
    )


def test_who_is_on_the_node_of_the_gang_but_not_in_its_way_stays() -> None:
    """`p` takes seven GPUs of a node of which the borrowers have five, and one is free."""
    here = scene(2, small=2, owner=14)
    here.put("b", 2, queue="small", node="n0", ran_ms=1_000)
    for name, gpus in (("d", 2), ("e", 2), ("f", 1)):
        here.put(name, gpus, queue="debtor", node="n0")
    here.put("c", 6, queue="owner", node="n1", evictable=False)
    work = waiting("p", 7, queue="owner")

    plan = here.choose_moves(work)

    assert plan is not None
    assert {"b": "n1"} == moved(plan)
    assert ["d", "e"] == victims(plan)
    here.carry_out(plan, work)
