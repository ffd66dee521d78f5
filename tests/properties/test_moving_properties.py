"""What must hold for every plan of moves: it can be carried out, by the rules."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.model.amounts import amount
from shared.core.model.nouns import Workload
from shared.core.model.request import PlacementRequest
from shared.core.preemption.eligibility.plan import EvictionPlan
from shared.core.preemption.eligibility.rules import policy_of
from shared.core.preemption.moves.moving import may_ask
from shared.core.preemption.victims.choose import NoEviction, PreemptionRules, Rule
from shared.core.quota.queue_policy import QueuePolicy
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, waiting
from tests.support.eviction_scenes import any_rules, put

seeds = st.integers(0, 2**40)


Case = tuple[Scene, EvictionPlan | None, Workload, PreemptionRules]


def plan_of(seed: int) -> Case:
    """A fleet with holes, of owners and of borrowers, and the moves for one that needs more."""
    draw = Random(seed)
    nodes = draw.randint(2, 4)
    scene = Scene(*(placing.node(f"n{at}", gpus=4) for at in range(nodes)))
    patience = QueuePolicy(min_runtime_seconds=draw.choice((0, 0, 60)))
    scene.queue("a", nominal=draw.choice((2, 4, 8)))
    scene.queue("b", nominal=draw.choice((4, 8)), policy=patience)
    scene.queue("c")
    for at in range(4 * nodes):
        put(scene, draw, f"w{at:02}", draw.choice(("a", "b", "b", "c")))
    for name in list(scene.occupants.tenants.running):
        if draw.random() < 0.4:
            scene.leave(name)
    pods, priority = draw.choice((1, 1, 2)), draw.choice((1, 2, 2))
    work = waiting("p", draw.choice((3, 4)), queue="a", pods=pods, priority=priority)
    rules = any_rules(draw, scene)
    if not isinstance(scene.choose(work, rules), NoEviction):
        return scene, None, work, rules
    return scene, scene.choose_moves(work, rules), work, rules


@settings(max_examples=400, deadline=None)
@given(seeds)
def test_a_plan_of_moves_can_be_carried_out_and_keeps_the_rules(seed: int) -> None:
    scene, plan, work, rules = plan_of(seed)
    if plan is None:
        return
    running = scene.occupants.tenants.running
    used = {name: node.taken("a100") for name, node in scene.tree.nodes.items()}
    assert plan.moves
    for move in plan.moves:
        mover = running[move.workload_id]
        policy = policy_of(scene.tree.node(mover.queue))
        assert mover.evictable
        assert mover.priority <= work.priority
        assert not mover.protected
        assert mover.id not in rules.promised
        assert NOW_MS >= mover.started_at_ms + policy.min_runtime_seconds * 1000
        assert rules.cooldown_until_ms.get(mover.id, 0) <= NOW_MS
        assert amount(move.placement.charge) <= amount(mover.placement.charge)
    assert {one.workload_id for one in plan.moves}.isdisjoint(
        one.workload_id for one in plan.victims
    )
    gpus = sum(running[one.workload_id].placement.charge.gpu_milli for one in plan.moves)
    assert gpus <= plan.placement.charge.gpu_milli
    for team, left in rules.loss_left_gpu_ms.items():
        assert left >= sum(lost for name, lost in plan.losses if running[name].team == team)
    request = PlacementRequest(workload=work, flavors=("a100",), headroom={})
    assert may_ask(scene.tree, request)
    assert (plan.rule is Rule.MOVE) == (not plan.victims)
    scene.carry_out(plan, work)
    _quota_is_kept(scene, used)


def _quota_is_kept(scene: Scene, before: dict[str, tuple[int, int, int]]) -> None:
    """No node of the tree is beyond its ceiling that was not before."""
    for name, node in scene.tree.nodes.items():
        now, ceiling = node.taken("a100"), node.limits_in("a100").ceiling
        for unit in range(3):
            assert now[unit] <= max(ceiling[unit], before[name][unit])


def test_the_scenes_have_moves_with_and_without_evictions() -> None:
    """Otherwise the property above says nothing."""
    plans = [plan for seed in range(400) if (plan := plan_of(seed)[1]) is not None]

    assert any(plan.victims for plan in plans)
    assert 3 < sum(not plan.victims for plan in plans)
