"""Whatever is lost, refused or killed: the cluster comes to what the commands say, told once."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from shared.events.pods import (
    BindRefused,
    PodsFinished,
    PodsGone,
    PodsResized,
    PodsRunning,
    ResizeRefused,
)
from shared.ports.cluster import Pod, PodOperation
from shared.ports.errors import Transient
from shared.simulator.faults import Faults
from tests.unit.binder.world import World, bind, evict, resize, without_backoff

RESIZED = (PodsResized, ResizeRefused)
LAST = (PodsFinished, PodsGone, BindRefused)
SEEDS = 40
STEPS = 60
ACTIONS = (
    "bind", "bind", "evict", "resize", "resize", "kill", "fail_pod", "lose_node", "faults", "wait",
    "watch", "squat",
)  # fmt: skip


class Story:
    """A random life of one binder; `evicted` and `sent` are what it was told."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self.world = World(start_ms=self.dice.choice([0, 400]), stop_ms=300, seed=seed)
        self.sent = []
        self.evicted = set()
        self.nodes = {}
        self.seconds = {}
        self.bound_uids = {}

    async def play(self):
        await self.world.start()
        for _ in range(STEPS):
            await getattr(self, self.dice.choice(ACTIONS))()
            self.note_bound()
        self.world.cluster.dice.faults = Faults()
        for node in ("n0", "n1", "n2", "n3"):
            self.world.cluster.pods.node_up(node, self.world.clock.ms)
        await self.world.start()
        await self.world.advance(45)
        await self.world.relist()
        await self.world.advance(20)
        await self.world.stop()

    def killed(self):
        return self.dice.choice(["", "", "before commit", "after commit"])

    async def command(self, payload):
        """Redelivered after a kill before the commit, as Kafka does."""
        kill = self.killed()
        await self.world.send(payload, kill=kill)
        if kill:
            await self.world.start()
        if kill == "before commit":
            await self.world.send(payload)

    async def bind(self):
        name = f"w{len(self.sent)}"
        nodes = [f"n{self.dice.randrange(4)}" for _ in range(self.dice.choice([1, 1, 2, 4]))]
        self.sent.append(name)
        self.nodes[name] = [nodes]
        self.seconds[name] = self.dice.choice([None, None, 1, 3])
        await self.command(bind(name, nodes=nodes, seconds=self.seconds[name]))

    async def evict(self):
        if self.sent:
            name = self.dice.choice(self.sent)
            self.evicted.add(name)
            await self.command(evict(name, grace=self.dice.choice([0, 30])))

    async def resize(self):
        """As placement does: of a gang that runs, and once the last resize was answered."""
        running = [one for one in self.sent if self.size(one) is not None]
        if not running:
            return
        name = self.dice.choice(running)
        nodes = self.nodes[name][self.asked_of(name)[1]]
        size = self.dice.choice([one for one in range(1, 7) if one != len(nodes)])
        more = [f"n{self.dice.randrange(4)}" for _ in range(size - len(nodes))]
        self.nodes[name].append([*nodes, *more][:size])
        number = len(self.nodes[name]) - 1
        await self.command(resize(self.nodes[name][-1], number, name, seconds=self.seconds[name]))

    async def squat(self):
        """Somebody else takes a name that a gang would need to grow; the binder clears it away."""
        sizes = {one: size for one in self.sent if (size := self.size(one)) is not None}
        if sizes:
            name = self.dice.choice(list(sizes))
            pod = f"{name}-1-{sizes[name]}"
            other = Pod(
                name=pod, namespace="red", workload_id="other", attempt=1, rank=0, size=1, epoch=1
            )
            with suppress(Transient):
                await self.world.cluster.apply(
                    [PodOperation(verb="create", namespace="red", name=pod, pod=other)]
                )

    def asked_of(self, name):
        """(number asked for last, number of the size that holds)."""
        answers = [one for one in self.world.facts
                   if one.workload_id == name and type(one) in RESIZED]  # fmt: skip
        holds = [one.number for one in answers if type(one) is PodsResized]
        return len(answers), max(holds, default=0)

    def size(self, name):
        """Pods of a gang that runs and has no resize open; None for any other."""
        kinds = {type(one) for one in self.world.facts if one.workload_id == name}
        if PodsRunning not in kinds or kinds & {*LAST} or name in self.evicted:
            return None
        answered, holds = self.asked_of(name)
        return len(self.nodes[name][holds]) if answered == len(self.nodes[name]) - 1 else None

    async def kill(self):
        await self.world.start()

    async def fail_pod(self):
        names = sorted(self.world.pods())
        if names:
            self.world.cluster.pods.fail_pod(self.dice.choice(names), "Error")
            self.world.cluster.tick()

    async def lose_node(self):
        node = f"n{self.dice.randrange(4)}"
        self.world.cluster.pods.node_down(node)
        self.world.cluster.tick()
        await self.world.settle()
        self.world.cluster.pods.node_up(node, self.world.clock.ms)

    async def faults(self):
        self.world.cluster.dice.faults = self.dice.choice(
            [Faults(), Faults(reply_lost=0.3), Faults(conflict=0.2, throttled=0.2, broken=0.2),
             Faults(watch_dropped=0.5), Faults(reply_lost=0.2, watch_dropped=0.2, broken=0.3)]
        )  # fmt: skip

    async def wait(self):
        await self.world.advance(self.dice.choice([0.1, 0.5, 2]))
        await asyncio.sleep(0.001)

    async def watch(self):
        self.world.cluster.drop_watches()
        await asyncio.sleep(0.001)

    def note_bound(self):
        for pod in self.world.pods().values():
            if pod.node:
                self.bound_uids.setdefault(pod.name, set()).add(pod.uid)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_story_ends_well(seed, monkeypatch):
    without_backoff(monkeypatch)
    story = Story(seed)

    await story.play()

    world = story.world
    active = {key for key, row in world.tables.rows.items() if row["active"]}
    alive = {(pod.workload_id, pod.attempt) for pod in world.pods().values()}
    assert alive == active, "pods exist exactly for the attempts that are not over"
    for name in story.sent:
        facts = [one for one in world.facts if one.workload_id == name]
        kinds = [type(one) for one in facts if type(one) not in RESIZED]
        numbers = [one.number for one in facts if type(one) in RESIZED]
        assert numbers == list(range(1, len(numbers) + 1)), f"{name}: resizes {numbers}"
        ends = [kind for kind in kinds if kind in LAST]
        assert len(kinds) == len(set(kinds)), f"{name} was told {kinds}"
        assert ends in ([], [PodsFinished], [PodsGone], [BindRefused], [PodsFinished, PodsGone],
                        [BindRefused, PodsGone])  # fmt: skip
        assert (name, 1) in world.tables.rows
        assert (not ends) == ((name, 1) in active)
        assert name not in story.evicted or ends
    for key in active:
        row = world.tables.rows[key]
        ours = [pod for pod in world.pods().values() if (pod.workload_id, pod.attempt) == key]
        assert [pod.phase for pod in ours] == ["Running"] * row["size"]
        assert row["state"] == "running"
        assert row["size"] == story.size(key[0]), "every resize was answered"
        nodes = story.nodes[key[0]][story.asked_of(key[0])[1]]
        assert [pod.node for pod in sorted(ours, key=lambda pod: pod.rank)] == nodes
