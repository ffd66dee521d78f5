"""Small full fleets drawn by chance, for properties of evictions."""

from __future__ import annotations

from random import Random

from shared.core.model.nouns import Level, PodSet, Spread, TopologyRequest, Workload
from shared.core.preemption.victims.choose import PreemptionRules
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, waiting


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


def any_rules(draw: Random, scene: Scene) -> PreemptionRules:
    names = sorted(scene.occupants.tenants.running)
    return PreemptionRules(
        cooldown_until_ms={name: NOW_MS + 1 for name in names if draw.random() < 0.1},
        promised=[name for name in names if draw.random() < 0.1],
        loss_left_gpu_ms={"a": draw.choice((0, 1_000_000, 1 << 50))},
    )
