"""The binder makes the cluster match the commands, and tells every fact exactly once."""

from tests.unit.binder.world import bind


async def test_a_workload_is_created_bound_and_told_to_run_once(world):
    await world.send(bind(nodes=("n1", "n2")))

    pods = world.pods()
    assert [(name, pod.node, pod.phase) for name, pod in pods.items()] == [
        ("w1-1-0", "n1", "Running"), ("w1-1-1", "n2", "Running"),
    ]  # fmt: skip
    assert world.told() == ["PodsRunning"]
    assert pods["w1-1-0"].shares[0].mask == 255


async def test_bound_is_told_by_itself_only_when_running_takes_time(slow):
    await slow.send(bind())
    before = slow.told()
    await slow.advance(0.25)
    bound = slow.told()
    await slow.advance(0.5)

    assert (before, bound, slow.told()) == ([], ["PodsBound"], ["PodsBound", "PodsRunning"])


async def test_pods_that_ended_are_told_and_then_deleted(world):
    await world.send(bind(nodes=("n1", "n2"), seconds=10))

    await world.advance(10.5)

    assert world.told() == ["PodsRunning", "PodsFinished"]
    assert world.facts[-1].succeeded
    assert world.pods() == {}
    assert world.handler._actuator.gangs.by_key == {}
    assert world.tables.rows["w1", 1]["state"] == "finished"


async def test_a_failed_pod_ends_its_gang_and_the_rest_is_deleted(world):
    await world.send(bind(nodes=("n1", "n2", "n3")))

    world.cluster.pods.fail_pod("w1-1-1", "OOMKilled", 137)
    await world.advance(0.25)

    assert world.told() == ["PodsRunning", "PodsFinished"]
    assert (world.facts[-1].succeeded, world.facts[-1].reason) == (False, "OOMKilled")
    assert not world.facts[-1].lost
    assert 137 == world.facts[-1].exit_code
    assert world.pods() == {}


async def test_a_gang_that_lost_a_node_is_finished_only_when_the_rest_has_stopped(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)

    slow.cluster.pods.node_down("n2")
    slow.cluster.tick()
    await slow.settle()
    while_stopping = (slow.told()[-1], len(slow.pods()))
    await slow.advance(0.5)

    assert while_stopping == ("PodsRunning", 1)
    assert slow.told()[-1] == "PodsFinished"
    assert slow.facts[-1].reason == "DeletionByPodGC"
    assert slow.facts[-1].lost
    assert slow.pods() == {}
