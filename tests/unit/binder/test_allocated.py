"""Which GPUs kubelets chose is told once the attempt runs, and again by a binder that starts."""

from shared.events.pods import PodDevicesTold
from tests.unit.binder.world import bind, evict


async def choose(world, name, *uuids):
    """The kubelet of a pod says what it gave it."""
    record = world.cluster.pods._by_key["red", name]
    world.cluster.pods._change(record, "MODIFIED", allocated=uuids)
    world.cluster.tick()
    await world.settle()


def devices(world):
    """What was told of devices, by fact."""
    return [
        [(one.rank, *one.devices) for one in fact.pods]
        for fact in world.facts
        if isinstance(fact, PodDevicesTold)
    ]


async def test_it_is_told_after_the_attempt_runs_and_once(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.settle()
    await choose(slow, "w1-1-1", "GPU-a", "GPU-b")
    early = devices(slow)
    await slow.advance(1)
    await slow.relist()
    await choose(slow, "w1-1-0", "GPU-c")
    await choose(slow, "w1-1-0", "GPU-c")

    assert early == []
    assert devices(slow) == [[(1, "GPU-a", "GPU-b")], [(0, "GPU-c")]]
    assert slow.told() == ["PodsBound", "PodsRunning", "PodDevicesTold", "PodDevicesTold"]


async def test_a_binder_that_starts_tells_it_again(slow):
    await slow.send(bind())
    await slow.advance(1)
    await choose(slow, "w1-1-0", "GPU-a")

    await slow.start()
    await slow.advance(1)

    assert devices(slow) == [[(0, "GPU-a")]] * 2


async def test_of_a_pod_that_has_ended_it_is_told_that_it_has_none(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)
    await choose(slow, "w1-1-0", "GPU-a")
    await choose(slow, "w1-1-1", "GPU-b")
    record = slow.cluster.pods._by_key["red", "w1-1-1"]

    slow.cluster.pods._end(record, "Succeeded", "")
    slow.cluster.tick()
    await slow.settle()

    assert devices(slow)[-1] == [(1,)]
    assert slow.told()[-1] == "PodDevicesTold"


async def test_of_an_attempt_that_is_stopped_nothing_is_told(slow):
    await slow.send(bind())
    await slow.advance(1)
    await slow.send(evict(grace=30))

    await choose(slow, "w1-1-0", "GPU-a")

    assert devices(slow) == []
