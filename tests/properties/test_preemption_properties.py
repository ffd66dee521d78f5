"""What must hold for every eviction plan; the rules are told again here, in plain words."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.model.amounts import amount
from shared.core.model.charges import least_amount
from shared.core.model.demand import gang_of
from shared.core.model.nouns import Placement, Workload
from shared.core.model.units import UNBOUNDED
from shared.core.model.value import replace
from shared.core.placement.gang.attempt import attempt, least_charge
from shared.core.placement.gang.elastic import smallest
from shared.core.placement.place import place
from shared.core.placement.resize import sizes
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.rules import EligibilityJudge, Spared
from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    Obstacle,
    PreemptionRules,
    Rule,
    Victim,
)
from shared.core.quota.queue_policy import Reclaim, WithinQueue
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene
from tests.support.eviction_scenes import any_preemptor, any_rules, any_scene

seeds = st.integers(0, 2**40)


def gone(scene: Scene, plan: EvictionPlan, keep: str = "") -> None:
    """Evict the victims in fact, but for one."""
    for victim in plan.victims:
        if victim.workload_id != keep:
            scene.evict(victim.workload_id, victim.pods)


def borrowed(scene: Scene, work: Workload) -> dict[str, tuple[int, int, int]]:
    """What each node above the preemptor borrows."""
    return {node.name: node.borrowed("a100") for node in scene.tree.node(work.queue).path()}


def borrowed_with(scene: Scene, work: Workload) -> dict[str, tuple[int, int, int]]:
    """The same once the least of the preemptor is charged."""
    charge = amount(least_charge(smallest(gang_of(work))))
    scene.tree.charge(work.queue, "a100", charge)
    after = borrowed(scene, work)
    scene.tree.charge(work.queue, "a100", charge, -1)
    return after


def grows(
    scene: Scene, work: Workload, before: dict[str, tuple[int, int, int]], gone_ids: set[str]
) -> bool:
    """Whether a node would borrow more than before although one of those below it has gone."""
    after = borrowed_with(scene, work)
    queues = [scene.tree.node(scene.occupants.tenants.running[one].queue) for one in gone_ids]
    below = {node.name for queue in queues for node in queue.path()}
    return any(
        more > less
        for name in below & before.keys()
        for more, less in zip(after[name], before[name], strict=True)
    )


def borrows_from_others(
    scene: Scene, work: Workload, before: dict[str, tuple[int, int, int]], gone_ids: set[str]
) -> bool:
    """Whether the preemptor's side would borrow more than before while another queue loses work.

    Its side: from its queue up to below the first node that is above the other queue, too.
    Reclaim is for nominal quota and a fair share for the smaller share: a victim of the own queue
    may be what the other one goes for.
    """
    after = borrowed_with(scene, work)
    queues = [scene.tree.node(scene.occupants.tenants.running[one].queue) for one in gone_ids]
    return any(
        more > less
        for queue in queues
        for name in after.keys() - {node.name for node in queue.path()}
        for more, less in zip(after[name], before[name], strict=True)
    )


def fits(scene: Scene, work: Workload) -> bool:
    """Whether the least of it finds a place and quota now."""
    statement = attempt(scene.cluster, smallest(gang_of(work)), "a100", UNBOUNDED)
    if statement is None:
        return False
    charge = amount(statement.charge_sum())
    statement.rollback()
    return scene.tree.blocked_by(scene.tree.node(work.queue), "a100", charge) is None


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_the_preemptor_fits_whole_after_a_plan_and_nobody_goes_in_vain(seed: int) -> None:
    scene, draw = any_scene(seed)
    work = any_preemptor(draw)

    plan = scene.choose(work, any_rules(draw, scene))

    if isinstance(plan, NoEviction):
        assert (plan.obstacle is Obstacle.FITS) == fits(scene, work)
        return
    assert plan.victims
    for victim in plan.victims:
        again, _ = any_scene(seed)
        before = borrowed(again, work)
        gone(again, plan, keep=victim.workload_id)
        others = {each.workload_id for each in plan.victims} - {victim.workload_id}
        assert (
            not fits(again, work)
            or grows(again, work, before, others)
            or borrows_from_others(again, work, before, others)
        ), victim.workload_id
    gone(scene, plan)
    assert fits(scene, work)
    answer = place(scene.cluster, placing.request(work))
    assert isinstance(answer, Placement)


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_every_victim_is_one_that_the_rules_give(seed: int) -> None:
    scene, draw = any_scene(seed)
    work, rules = any_preemptor(draw), any_rules(draw, scene)

    plan = scene.choose(work, rules)

    if isinstance(plan, NoEviction):
        return
    lost: dict[str, int] = {}
    own = scene.tree.node(work.queue).document.policy  # type: ignore[union-attr]
    for victim in plan.victims:
        each = scene.occupants.of(victim.workload_id)
        assert each is not None
        policy = scene.tree.node(each.queue).document.policy  # type: ignore[union-attr]
        assert not each.protected
        assert each.evictable
        assert NOW_MS >= each.started_at_ms + policy.min_runtime_seconds * 1000
        assert victim.workload_id not in rules.promised
        cools_down = victim.workload_id in rules.cooldown_until_ms
        assert victim.rule is Rule.RECLAIM or not cools_down
        assert (each.queue == work.queue) == (victim.rule is Rule.PRIORITY)
        if victim.rule is Rule.PRIORITY:
            assert own.within_queue is not WithinQueue.NEVER
            assert each.priority < work.priority
        elif victim.rule is Rule.RECLAIM:
            assert own.reclaim is not Reclaim.NEVER
            assert own.reclaim is Reclaim.ANY or each.priority < work.priority
        else:
            assert own.fair_share
        whole_or_surplus(each, victim.kept_ranks)
        lost[each.team] = lost.get(each.team, 0) + victim.lost_gpu_ms
    for team, left in rules.loss_left_gpu_ms.items():
        assert lost.get(team, 0) <= left
    nominal_is_kept(scene, plan, work)


def whole_or_surplus(each: Occupant, kept: tuple[int, ...]) -> None:
    """What goes on is what placement can let go on: its first ranks, as many as it may have."""
    if kept:
        assert sorted(kept) == list(range(len(kept)))
        assert len(kept) in sizes(each.workload, each.placement)


def nominal_is_kept(scene: Scene, plan: EvictionPlan, work: Workload) -> None:
    """Others lose only what they have above nominal; the preemptor's reclaim stays within its own.

    A queue may be below its nominal quota in the end only for a reclaim, and then one of its
    victims could not have run within it.
    """
    own = scene.tree.node(work.queue)
    lost: dict[str, list[int]] = {}
    for victim in plan.victims:
        each = scene.occupants.of(victim.workload_id)
        assert each is not None
        gpu_milli = sum(share.milli for pod in victim.pods for share in pod.shares)
        lost.setdefault(each.queue, []).append(gpu_milli)
    for name, amounts in lost.items():
        if name == work.queue:
            continue
        queue = scene.tree.node(name)
        used, owned = queue.used["a100"][0], queue.owned("a100")[0]
        after = used - sum(amounts)
        assert used > owned
        if after < owned:
            assert after + max(amounts) > owned
            assert rules_of(scene, plan, name) == {Rule.RECLAIM}
    if Rule.RECLAIM in {victim.rule for victim in plan.victims} and own.parent is not None:
        inside = sum(lost.get(work.queue, ()))
        outside = {name for name in lost if name != work.queue}
        if all(scene.tree.node(name).parent is own.parent for name in outside):
            own_used = own.used.get("a100", [0])[0]
            charge = plan.placement.charge.gpu_milli
            fair = Rule.FAIR_SHARE in {victim.rule for victim in plan.victims}
            assert fair or own_used - inside + charge <= own.owned("a100")[0]


def rules_of(scene: Scene, plan: EvictionPlan, queue: str) -> set[Rule]:
    """The rules by which a queue loses workloads."""
    return {
        victim.rule
        for victim in plan.victims
        if scene.occupants.tenants.running[victim.workload_id].queue == queue
    }


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_the_victims_that_are_left_may_go_one_after_the_other(seed: int) -> None:
    """Those of its own queue first, then the largest last: by the rules as they are then."""
    scene, draw = any_scene(seed)
    work, rules = any_preemptor(draw), any_rules(draw, scene)

    plan = scene.choose(work, rules)

    if isinstance(plan, EvictionPlan):
        told = {victim.workload_id: victim.rule for victim in plan.victims}
        assert told in [in_turn(scene, plan, work, rules, strad) for strad in (False, True)]


def victim_charge(scene: Scene, victim: Victim) -> tuple[int, int, int]:
    """What it gives up."""
    return scene.charge(scene.occupants.tenants.running[victim.workload_id], victim.pods)


def in_turn(
    scene: Scene, plan: EvictionPlan, work: Workload, rules: PreemptionRules, straddling: bool
) -> dict[str, Rule | Spared]:
    """What the judge says of each victim when those before it have gone."""
    charge = least_amount(work.spec)
    judge = EligibilityJudge(
        scene.tree, rules, work, charge, flavor="a100", now_ms=NOW_MS, straddling=straddling
    )
    running = scene.occupants.tenants.running
    leaving = sorted(
        (running[one.workload_id].queue != work.queue, victim_charge(scene, one), one.workload_id)
        for one in plan.victims
    )
    said: dict[str, Rule | Spared] = {}
    for _, amounts, name in leaving:
        said[name] = judge.rule(running[name], amounts)
        judge.take(running[name], amounts)
    for _, amounts, name in leaving:
        judge.give_back(running[name], amounts)
    return said


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_inside_one_queue_a_plan_is_found_exactly_when_there_is_one_and_one_pod_costs_least(
    seed: int,
) -> None:
    scene, draw = any_scene(seed, queues=("a",))
    names = sorted(scene.occupants.tenants.running)[:9]
    for name in sorted(scene.occupants.tenants.running)[9:]:
        scene.freeze(name)
    work = replace(any_preemptor(draw, ("a",)), priority=3)

    charge = amount(least_charge(smallest(gang_of(work))))
    queue = scene.tree.node("a")
    devices_alone = queue.used["a100"][0] + charge[0] <= queue.owned("a100")[0]

    plan = scene.choose(work)

    best = cheapest_by_force(scene, work, names)
    assert isinstance(plan, EvictionPlan) == (best is not None), plan
    if isinstance(plan, EvictionPlan) and best is not None and work.pods == 1 and devices_alone:
        assert plan.cost_gpu_ms <= best


def cheapest_by_force(scene: Scene, work: Workload, names: list[str]) -> int | None:
    """The least cost of any set of whole workloads that makes room, by trying all of them."""
    policy = scene.tree.node("a").document.policy  # type: ignore[union-attr]
    if policy.within_queue is WithinQueue.NEVER or fits(scene, work):
        return None
    may = [
        each
        for name in names
        if (each := scene.occupants.of(name)) is not None
        and not each.protected
        and each.evictable
        and NOW_MS >= each.started_at_ms + policy.min_runtime_seconds * 1000
    ]
    before = borrowed(scene, work)
    best: int | None = None
    for count in range(1, len(may) + 1):
        for chosen in combinations(may, count):
            for each in chosen:
                scene.evict(each.id, each.placement.pods)
            names_gone = {each.id for each in chosen}
            if fits(scene, work) and not grows(scene, work, before, names_gone):
                cost = sum(scene.cost(each) for each in chosen)
                best = cost if best is None else min(best, cost)
            for each in chosen:
                scene.come_back(each)
    return best
