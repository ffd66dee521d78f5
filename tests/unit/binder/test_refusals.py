"""What the cluster or the command will not have: refused whole, or tried again."""

from shared.events.pods import BindRefused
from shared.ports.cluster import Pod, PodOperation
from shared.simulator.faults import Faults
from tests.unit.binder.world import bind, evict


async def test_a_command_of_an_old_epoch_is_refused(world):
    await world.send(bind("w1", epoch=5))

    await world.send(bind("w2", epoch=4), evict("w1", epoch=4))
    await world.start()
    await world.send(bind("w3", epoch=4))

    assert set(world.pods()) == {"w1-1-0"}
    assert world.tables.fences == {0: 5}


async def test_a_bind_without_pods_is_a_dead_letter(world):
    await world.send(bind(nodes=()))

    assert [reason for _, reason in world.dead] == ["placement.pods: must not be empty"]


async def test_a_name_taken_by_somebody_else_refuses_the_gang_and_leaves_him_alone(world):
    other = Pod(name="w1-1-1", workload_id="other", attempt=1, rank=0, size=1, epoch=1,
               namespace="red")  # fmt: skip
    await world.cluster.apply(
        [PodOperation(verb="create", namespace="red", name=other.name, pod=other)]
    )

    await world.send(bind(nodes=("n1", "n2")))

    assert world.told() == ["BindRefused"]
    assert world.facts[-1].reason == "NameTaken"
    assert [pod.workload_id for pod in world.pods().values()] == ["other"]


async def test_pods_bound_elsewhere_refuse_the_gang(world):
    row = Pod(name="w1-1-0", workload_id="w1", attempt=1, rank=0, size=1, epoch=1,
               namespace="red")  # fmt: skip
    made = (
        await world.cluster.apply(
            [PodOperation(verb="create", namespace="red", name=row.name, pod=row)]
        )
    )[0].pod
    await world.cluster.apply(
        [PodOperation(verb="bind", namespace="red", name=row.name, uid=made.uid, node="n9")]
    )

    await world.send(bind(nodes=("n1",)))

    assert world.told() == ["BindRefused"]
    assert isinstance(world.facts[-1], BindRefused)
    assert "n9" in world.facts[-1].message
    assert world.pods() == {}


async def test_a_gang_not_bound_in_time_is_refused_whole(world):
    await world.send(bind("w0"))
    world.cluster.dice.faults = Faults(conflict=1.0)
    await world.send(bind(nodes=("n1", "n2")))
    await world.advance(31)
    waiting = world.told()

    world.cluster.dice.faults = Faults()
    await world.advance(1)

    assert waiting in ([], ["BindRefused"])
    assert world.told() == ["BindRefused"]
    assert world.facts[-1].reason == "BindTimeout"
    assert world.facts[-1].unstarted == ()  # never shown: not even made
    assert set(world.pods()) == {"w0-1-0"}


async def test_operations_refused_for_now_are_tried_again(world):
    world.cluster.dice.faults = Faults(conflict=0.3, throttled=0.3, broken=0.3)

    await world.send(bind(nodes=("n1", "n2", "n3")))
    await world.advance(20)

    assert world.told()[-1] == "PodsRunning"
    assert len(world.pods()) == 3
