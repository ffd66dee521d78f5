"""Whatever is lost, refused or killed: the cluster comes to what the commands say, told once."""

import asyncio
from random import Random

import pytest

from shared.events.pods import BindRefused, PodsFinished, PodsGone
from shared.simulator.faults import Faults
from tests.unit.binder.world import World, bind, evict, without_backoff

LAST = (PodsFinished, PodsGone, BindRefused)
SEEDS = 40
STEPS = 60
ACTIONS = ("bind", "bind", "evict", "kill", "fail_pod", "lose_node", "faults", "wait", "watch")


class Story:
    """A random life of one binder; `evicted` and `sent` are what it was told."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self.world = World(start_ms=self.dice.choice([0, 400]), stop_ms=300, seed=seed)
        self.sent = []
        self.evicted = set()
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
        await self.command(bind(name, nodes=nodes, seconds=self.dice.choice([None, None, 1, 3])))

    async def evict(self):
        if self.sent:
            name = self.dice.choice(self.sent)
            self.evicted.add(name)
            await self.command(evict(name, grace=self.dice.choice([0, 30])))

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
        kinds = [type(one) for one in facts]
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
