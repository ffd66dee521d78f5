"""What is owed comes back, and nobody waits for ever: reclaim and turns over whole histories."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.model.ordering import order_key
from shared.core.preemption.victims.choose import EvictionPlan
from shared.core.queueing.waiting import WaitingIndex
from shared.core.quota.fair_share import Rank, rank
from shared.core.quota.queue_policy import QueuePolicy
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from shared.core.quota.usage_history import UsageHistory
from tests.support import placing
from tests.support.evicting import Scene, waiting

seeds = st.integers(0, 2**40)
GPU = (1_000, 0, 0)
RUN_MS_MAX = 10_000
HALF_LIFE_MS = 60_000


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_reclaim_gives_a_queue_all_that_it_owns(seed: int) -> None:
    """Borrowers hold everything; pod after pod the owner takes back its nominal, and no more."""
    draw = Random(seed)
    scene = Scene(*(placing.node(f"n{at}", gpus=4) for at in range(draw.randint(1, 3))))
    total = 4 * len(scene.cluster.nodes)
    nominal = draw.randint(1, total)
    others = ("b", "c")
    scene.cohort("org", parent="all")
    by_right = QueuePolicy(min_runtime_seconds=0, fair_share=False)
    scene.queue("a", nominal=nominal, parent=draw.choice(("all", "org")), policy=by_right)
    scene.queue("b", nominal=total - nominal)
    scene.queue("c", nominal=0, parent=draw.choice(("all", "org")))
    for at in range(total):
        work = waiting(f"w{at:02}", 1, queue=draw.choice(others), priority=draw.randrange(3))
        scene.try_to_put(work, ran_ms=draw.randrange(10_000, 1_000_000))
    owner = scene.tree.node("a")

    for at in range(nominal):
        work = waiting(f"p{at:02}", 1, queue="a", priority=0)
        if scene.place(work) is None:
            plan = scene.choose(work)
            assert isinstance(plan, EvictionPlan), (at, plan)
            for victim in plan.victims:
                scene.leave(victim.workload_id)
            assert scene.place(work) is not None

    assert owner.charged("a100")[0] == nominal * 1_000


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_the_head_of_every_queue_starts_within_a_bounded_time(seed: int) -> None:
    """All queues have endless work of one priority; who waits holds less and less.

    What a queue holds ends within the longest run time. From then on the others go before it
    only while they hold nothing either and have used less, and each that goes has used more.
    """
    draw = Random(seed)
    queues = [f"q{at}" for at in range(draw.randint(2, 6))]
    gpus = draw.randint(1, 4)
    world = Endless(draw, queues, gpus)
    bound_ms = (2 + 2 * len(queues) // gpus) * RUN_MS_MAX

    for _ in range(200):
        world.place()
        world.end_next()
        waits = {name: world.now_ms - world.since_ms[name] for name in queues}
        assert max(waits.values()) <= bound_ms, waits


class Endless:
    """Queues of one cohort that lends `gpus`; in each the next workload comes when one starts."""

    def __init__(self, draw: Random, queues: list[str], gpus: int) -> None:
        self.draw, self.tree, self.used = draw, QuotaTree(), UsageHistory(HALF_LIFE_MS)
        self.index, self.now_ms, self.count = WaitingIndex(self._rank), 0, 0
        self.running: list[tuple[int, str]] = []
        self.since_ms: dict[str, int] = {}
        self._apply("org", "cohort", gpus * 1_000)
        for name in queues:
            self._apply(name, "queue", 0, parent="org", weight=draw.choice((1, 1, 2, 3)))
            self._queue(name)

    def _rank(self, identifier: str) -> Rank:
        queue = identifier.split("-")[1]
        return rank(self.tree.node(queue), ("h100",), GPU, self.used.at(queue, self.now_ms))

    def _apply(self, name: str, kind: str, milli: int, parent: str = "", weight: int = 1) -> None:
        limits = {"h100": FlavorLimits(nominal=(milli, 0, 0))}
        document = QuotaDocument(
            name=name, kind=kind, version=1, parent=parent, weight=weight, flavors=limits
        )
        assert self.tree.apply(document)[1] == ""

    def _queue(self, name: str) -> None:
        self.count += 1
        identifier = f"w{self.count:08}-{name}"
        self.since_ms[name] = self.now_ms
        self.index.add(identifier, name, order_key(0, self.now_ms, identifier))

    def place(self) -> None:
        """Whoever is first, as long as there is room."""
        while (identifier := self.index.pop()) is not None:
            name = identifier.split("-")[1]
            node = self.tree.node(name)
            if self.tree.blocked_by(node, "h100", GPU) is not None:
                self.index.make_inadmissible(
                    identifier, name, order_key(0, self.since_ms[name], identifier)
                )
                continue
            self.tree.charge(name, "h100", GPU)
            self.used.change(name, self.now_ms, GPU[0])
            self.running.append((self.now_ms + self.draw.randint(1, RUN_MS_MAX), name))
            self._queue(name)

    def end_next(self) -> None:
        """Time goes on until something ends."""
        self.running.sort()
        self.now_ms, name = self.running.pop(0)
        self.tree.charge(name, "h100", GPU, -1)
        self.used.change(name, self.now_ms, -GPU[0])
        self.index.rewind()
        self.index.requeue(lambda identifier: True)
