"""What must hold for every eviction plan; the rules are told again here, in plain words."""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.amounts import amount
from shared.core.charges import least_amount
from shared.core.demand import gang_of
from shared.core.gang.attempt import attempt, least_charge
from shared.core.gang.elastic import smallest
from shared.core.model import Level, Placement, PodSet, Spread, TopologyRequest, Workload
from shared.core.placement import place
from shared.core.preemption.choose import EvictionPlan, NoEviction, Obstacle, Rule, Rules, Victim
from shared.core.preemption.occupant import Occupant
from shared.core.preemption.rules import Judge, Spared
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.core.units import UNBOUNDED
from shared.core.value import replace
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, waiting

seeds = st.integers(0, 2**40)
MINUTE_MS = 60_000


def any_scene(seed: int, queues: tuple[str, ...] = ("a", "b", "c")) -> tuple[Scene, Random]:
    """A few nodes, full of work of several queues, some of it protected or young."""
    draw = Random(seed)
    scene = Scene(
        *(
            placing.node(
                f"n{at}",
                gpus=draw.choice((2, 4)),
                cpu_milli=draw.choice((4000, 64_000)),
                rack=draw.choice(("r1", "r2")),
                zone="z",
            )
            for at in range(draw.randint(1, 4))
        )
    )
    scene.cohort("org", parent="all")
    for name in queues:
        policy = QueuePolicy(
            min_runtime_seconds=draw.choice((0, 0, 60)),
            within_queue=draw.choice((WithinQueue.LOWER_PRIORITY, WithinQueue.NEVER))
            if draw.random() < 0.2
            else WithinQueue.LOWER_PRIORITY,
            reclaim=draw.choice(tuple(Reclaim)) if draw.random() < 0.3 else Reclaim.ANY,
            fair_share=draw.random() < 0.8,
        )
        parent = draw.choice(("all", "all", "org"))
        scene.queue(
            name,
            parent=parent,
            nominal=draw.randint(0, 6),
            weight=draw.choice((1, 2)),
            policy=policy,
        )
    for at in range(draw.randint(2, 16)):
        put(scene, draw, f"w{at:02}", draw.choice(queues))
    return scene, draw


def put(scene: Scene, draw: Random, name: str, queue: str) -> None:
    pods = draw.choice((1, 1, 1, 2, 3))
    count = draw.choice((1, 1, 2))
    pod_set = PodSet(
        name="main",
        count=pods,
        min_count=draw.choice((None, 1)) if pods > 1 else None,
        gpu=placing.share(500) if draw.random() < 0.1 else placing.whole(count),
        cpu_milli=draw.choice((0, 500, 1000)),
        memory_mib=0,
    )
    scene.try_to_put(
        waiting(
            name, queue=queue, priority=draw.choice((0, 1, 2)), pod_sets=(pod_set,), team=queue
        ),
        ran_ms=draw.choice((10_000, 90_000, 500_000, 5_000_000)) + draw.randrange(1000),
        protected=draw.random() < 0.1,
        evictable=draw.random() < 0.9,
    )


def any_preemptor(draw: Random, queues: tuple[str, ...] = ("a", "b", "c")) -> Workload:
    pods = draw.choice((1, 1, 1, 2, 3))
    gpu = placing.whole(draw.choice((1, 1, 2, 4)))
    if draw.random() < 0.1:
        gpu = placing.share(draw.choice((300, 600)))
    sets = [placing.pods(gpu, pods, cpu_milli=draw.choice((0, 1000)))]
    if draw.random() < 0.1:
        sets.append(placing.pods(placing.whole(1), 1, name="other"))
    return waiting(
        "p",
        queue=draw.choice(queues),
        priority=draw.choice((0, 1, 2, 3)),
        pod_sets=sets,
        spread=draw.choice((Spread.NONE, Spread.NONE, Spread.REQUIRED)),
        topology=TopologyRequest(required=draw.choice((None, None, Level.NODE, Level.RACK))),
        team="p",
    )


def any_rules(draw: Random, scene: Scene) -> Rules:
    names = sorted(scene.occupants.tenants.running)
    return Rules(
        cooldown_until_ms={name: NOW_MS + 1 for name in names if draw.random() < 0.1},
        promised=[name for name in names if draw.random() < 0.1],
        loss_left_gpu_ms={"a": draw.choice((0, 1_000_000, 1 << 50))},
    )


def gone(scene: Scene, plan: EvictionPlan, keep: str = "") -> None:
    """Evict the victims in fact, but for one."""
    for victim in plan.victims:
        if victim.workload_id != keep:
            scene.evict(victim.workload_id, victim.pods)


def borrowed(scene: Scene, work: Workload) -> dict[str, tuple[int, int, int]]:
    """What each node above the preemptor borrows."""
    return {node.name: node.borrowed("a100") for node in scene.tree.node(work.queue).path()}


def grows(
    scene: Scene, work: Workload, before: dict[str, tuple[int, int, int]], gone_ids: set[str]
) -> bool:
    """Whether a node would borrow more than before although one of those below it has gone."""
    charge = amount(least_charge(smallest(gang_of(work))))
    scene.tree.charge(work.queue, "a100", charge)
    after = borrowed(scene, work)
    scene.tree.charge(work.queue, "a100", charge, -1)
    queues = [scene.tree.node(scene.occupants.tenants.running[one].queue) for one in gone_ids]
    below = {node.name for queue in queues for node in queue.path()}
    return any(
        more > less
        for name in below & before.keys()
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
        assert not fits(again, work) or grows(again, work, before, others), victim.workload_id
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
    (pod_set,) = each.workload.spec.pod_sets
    if kept:
        assert pod_set.min_count is not None
        assert len(kept) >= pod_set.min_count


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
    scene: Scene, plan: EvictionPlan, work: Workload, rules: Rules, straddling: bool
) -> dict[str, Rule | Spared]:
    """What the judge says of each victim when those before it have gone."""
    charge = least_amount(work.spec)
    judge = Judge(
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


@settings(max_examples=150, deadline=None)
@given(seeds, st.booleans())
def test_rounds_of_evictions_end_and_no_two_evict_each_other_twice(seed: int, fill: bool) -> None:
    """All come back and try again, at once and without any cooldown, until nobody can.

    They try in quota's order, the higher priority first: were a lower one of the same queue let
    in before it, it would be evicted again, and one cohort in ten thousand would never rest.
    Whatever debts there are, they stand still meanwhile.
    """
    draw = Random(seed)
    scene = a_cohort(draw)
    for name in ("a", "b", "c", "d", "org"):
        scene.tree.set_debt(name, draw.choice((0, 0, draw.randint(-2_000_000, 2_000_000))))
    queues = ("a", "b", "c", "d")
    works = [a_work(draw, f"w{at:02}", draw.choice(queues)) for at in range(draw.randint(3, 12))]
    pending = dict.fromkeys(work.id for work in works)
    by_id = {work.id: work for work in works}
    evicted: list[tuple[str, str]] = []

    for _ in range(ROUNDS_MAX):
        before = len(evicted)
        for name in sorted(pending, key=lambda each: -by_id[each].priority):
            placed = scene.place(by_id[name]) if fill or not evicted else None
            if placed is None:
                plan = scene.choose(by_id[name])
                if isinstance(plan, NoEviction):
                    continue
                for victim in plan.victims:
                    evicted.append((name, victim.workload_id))
                    scene.leave(victim.workload_id)
                    pending[victim.workload_id] = None
                assert scene.place(by_id[name]) is not None
            del pending[name]
        if len(evicted) == before:
            break
    else:
        raise AssertionError(evicted[-20:])
    assert all(
        evicted.count((one, other)) < 2 or not evicted.count((other, one))
        for one, other in evicted
    )


ROUNDS_MAX = 60


def a_cohort(draw: Random) -> Scene:
    scene = Scene(*(placing.node(f"n{at}", gpus=4) for at in range(draw.randint(1, 2))))
    scene.cohort("org", parent="all")
    total = 4 * len(scene.cluster.nodes)
    for name in ("a", "b", "c", "d"):
        nominal = draw.randint(0, total // 3)
        scene.queue(
            name,
            parent=draw.choice(("all", "all", "org")),
            nominal=nominal,
            weight=draw.choice((1, 2, 3)),
        )
    return scene


def a_work(draw: Random, name: str, queue: str) -> Workload:
    gpus = draw.choice((1, 1, 1, 2, 3, 4))
    return waiting(name, gpus, queue=queue, priority=draw.choice((0, 0, 1, 2)), team=queue)
