"""Groups of which an object beside the pods tells the size."""

from shared.core.model.decision import FieldError
from shared.core.model.value import replace
from shared.core.native import GroupObject
from shared.ports.native import GroupChanged
from tests.support.native_world import GONE_MS, a_pod, changed, gone, listed

OF_GROUP = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}


def pod_group(size=2, **fields):
    return GroupChanged(key="red/coscheduling/g", told=GroupObject(size=size, over=True, **fields))


async def test_a_pod_group_tells_the_size_and_its_end_follows_its_pods(world):
    pods = [a_pod(name, **OF_GROUP) for name in ("a", "b")]
    assert [] == world.hear(pod_group(), listed(pods[0]))
    assert [("a", "WaitingForPods")] == await world.told()

    (one,) = world.hear(changed(pods[1]))
    assert 2 == one.spec.pod_sets[0].count
    world.hear(*map(gone, pods))
    world.at_ms += GONE_MS

    assert [one.workload_id] == [told.workload_id for told in world.due()]


async def test_pods_beyond_the_size_of_a_group_are_told(world):
    pods = [a_pod(name, **OF_GROUP) for name in ("a", "b", "c")]
    assert 1 == len(world.hear(pod_group(), listed(*pods)))

    world.hear(changed(replace(pods[0], claimed=True)), changed(replace(pods[1], claimed=True)))

    assert [("c", "BeyondGroupSize")] == await world.told()


async def test_a_pod_that_follows_one_of_a_group_is_not_beyond_it(world):
    pods = [a_pod(name, **OF_GROUP) for name in ("a", "b")]
    assert 1 == len(world.hear(pod_group(), listed(*pods)))

    world.hear(
        changed(replace(pods[0], claimed=True)),
        changed(replace(pods[1], claimed=True, deleting=True)),
        changed(a_pod("c", **OF_GROUP)),
    )

    assert [] == await world.told()


async def test_an_object_that_does_not_exist_is_told_after_a_while(world):
    assert [] == world.hear(listed(a_pod("a", created_ms=world.at_ms, **OF_GROUP)))
    assert [] == await world.told()
    world.at_ms += 20_000

    world.due()
    assert [("a", "WaitingForPods")] == await world.told()

    assert 1 == len(world.hear(pod_group(1)))


async def test_what_an_object_says_and_is_not_honoured_is_told(world):
    wrong = FieldError(field="spec.subGroups", value="", rule="is not honoured", remedy="")

    assert [] == world.hear(pod_group(refused=wrong), listed(a_pod("a", **OF_GROUP)))

    assert [("a", "PodNotHonoured")] == await world.told()
