"""What the PodGroup of a gang is told."""

import pytest

from shared.core.model.reason import Reason
from shared.core.native import GroupObject
from shared.events import quotas, workloads
from shared.ports.native import GroupChanged, GroupNotice
from tests.support.native_world import a_pod, changed, listed, refused

KEY = "red/coscheduling/g"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("services.native.noticing.PAUSE_SECONDS", 0)


def of_group(name, **fields):
    return a_pod(name, labels={"scheduling.x-k8s.io/pod-group": "g"}, **fields)


def pod_group(**fields):
    return GroupChanged(key=KEY, told=GroupObject(size=2, over=True, **{"uid": "g1", **fields}))


async def told(world):
    """What the group was told since the last call, and what its pods were."""
    await world.told()
    written, world.notices.written = world.notices.written, []
    groups = [one for one in written if isinstance(one, GroupNotice)]
    return groups, [one for one in written if not isinstance(one, GroupNotice)]


async def test_a_group_is_told_what_its_pods_are_told_before_them(world):
    world.hear(pod_group(), listed(of_group("a")))

    await world.told()
    first = world.notices.written[0]
    (group,), (pod,) = await told(world)
    assert first is group
    assert (group.reason, group.message) == (pod.reason, pod.message)
    assert ("red", "g", "g1", "coscheduling") == (
        group.namespace, group.name, group.uid, group.source,
    )  # fmt: skip
    assert (False, True) == (group.scheduled, group.turns)


@pytest.mark.parametrize(
    ("reason", "kind", "capacity"),
    [
        (Reason.WAITING_FOR_QUOTA, quotas.QuotaRefused, False),
        (Reason.GANG_SHORT, workloads.PlacementRefused, True),
    ],
)
async def test_a_group_calls_for_nodes_as_its_pods_do(world, reason, kind, capacity):
    (one,) = world.hear(pod_group(scheduled=False), listed(of_group("a"), of_group("b")))

    world.fact(refused(one.workload_id, reason, kind))
    world.due()

    (group,), pods = await told(world)
    assert [(reason.value, capacity)] * 2 == [(pod.reason, pod.capacity) for pod in pods]
    assert (reason.value, capacity) == (group.reason, group.capacity)
    assert not group.turns, "it said so before"


async def test_a_group_whose_pods_are_bound_is_told_so_once_and_then_nothing(world):
    (one,) = world.hear(pod_group(scheduled=False), listed(of_group("a"), of_group("b")))
    world.hear(changed(of_group("a", claimed=True, node="n")))
    assert [] == (await told(world))[0], "one of two"

    world.hear(changed(of_group("b", claimed=True, node="n")))
    (group,), _ = await told(world)
    made_anew = (changed(of_group(name, uid=f"new-{name}")) for name in "ab")
    world.hear(pod_group(scheduled=True), *made_anew)
    world.fact(refused(one.workload_id, Reason.NO_CAPACITY))
    world.due()

    assert ("Scheduled", "all 2 pods have their nodes") == (group.reason, group.message)
    assert (True, True) == (group.scheduled, group.turns)
    groups, pods = await told(world)
    assert [] == groups, "what is true is final"
    assert 2 == len(pods)


async def test_pods_beyond_the_size_are_no_news_of_the_group(world):
    bound = [of_group(name, claimed=True, node="n") for name in "ab"]
    world.hear(pod_group(), listed(of_group("a"), of_group("b")))

    world.hear(*map(changed, bound), changed(of_group("c")))

    groups, pods = await told(world)
    assert ["Scheduled"] == [one.reason for one in groups]
    assert ["BeyondGroupSize"] == [one.reason for one in pods]


async def test_an_object_that_makes_the_pods_is_told_nothing(world):
    world.hear(pod_group(uid=""), listed(of_group("a")))

    groups, pods = await told(world)
    assert [] == groups
    assert 1 == len(pods)


async def test_a_listing_does_not_forget_what_a_group_was_told(world):
    world.hear(pod_group(), listed(of_group("a")))
    await told(world)

    world.hear(listed(of_group("a")), pod_group(scheduled=False))

    assert ([], []) == await told(world)
