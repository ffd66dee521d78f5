"""What the binder relies on, of every cluster: the fake in memory and the process behind HTTP."""

import asyncio

import pytest

from shared.core.nodes.pod_failures import FailureCause, cause_of_failure, never_starts
from shared.ports.cluster import INVALID, NODE_READY, NOT_DELETING
from shared.ports.errors import ResourceVersionExpired
from tests.contract.cluster_worlds import (
    WORLDS,
    a_pod,
    bind,
    bound,
    create,
    delete,
    force_delete,
    operation,
    pin,
    running,
    watched,
)

KEPT = ("example.org/job-tracking",)


@pytest.fixture(params=WORLDS)
async def world(request, tmp_path):
    async with request.param(tmp_path / "state") as world:
        yield world


def gone(pod):
    return pod is None


def ended(pod):
    return pod.ended


# ── create ───────────────────────────────────────────────────────────────────


async def test_a_created_pod_is_answered_and_listed_with_what_tells_whose_it_is(world):
    wanted = a_pod(rank=2, size=3)

    result = await world.one(create(wanted))
    pods, version = await world.cluster.list_pods()

    (listed,) = pods
    assert result.status == 201
    assert (listed.uid, listed.phase, listed.node) == (result.pod.uid, "Pending", "")
    assert version >= result.pod.resource_version > 0
    for pod in (listed, result.pod):
        assert pod.uid
        for field in ("name", "namespace", "workload_id", "attempt", "rank", "size", "epoch",
                      "team", "shares"):  # fmt: skip
            assert getattr(pod, field) == getattr(wanted, field), field


async def test_creating_a_name_again_answers_409_with_the_pod_that_has_it(world):
    first = await world.one(create(a_pod()))

    again = await world.one(create(a_pod(workload_id="other")))

    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert (again.pod.uid, again.pod.workload_id) == (first.pod.uid, "w1")


async def test_a_name_is_taken_in_its_own_namespace_only(world):
    red, blue = world.namespaces
    first = await world.one(create(a_pod(namespace=red)))

    second = await world.one(create(a_pod(namespace=blue)))
    await world.one(delete(first.pod))
    await world.until("w1-1-0", lambda pod: pod.namespace == blue)

    assert second.status == 201
    assert second.pod.uid != first.pod.uid


async def test_a_name_that_is_none_is_422_with_field_and_rule(world):
    result = await world.one(create(a_pod("Not_A_Name")))

    (error,) = result.errors
    assert (result.status, result.pod) == (422, None)
    assert (error.field, error.value) == ("metadata.name", "Not_A_Name")
    assert "RFC 1123" in error.rule
    assert await world.pods() == {}


async def test_a_full_namespace_is_403_in_words_that_name_the_quota_until_there_is_room(world):
    red, blue = world.namespaces
    await world.limit(red, 1)
    first = await world.one(create(a_pod("w1-1-0", namespace=red)))

    full = await world.one(create(a_pod("w2-1-0", namespace=red)))
    elsewhere = await world.one(create(a_pod("w3-1-0", namespace=blue)))
    await world.one(delete(first.pod))
    await world.until("w1-1-0", gone)
    later = await world.one(create(a_pod("w2-1-0", namespace=red)))

    assert (full.status, full.pod, elsewhere.status, later.status) == (403, None, 201, 201)
    assert "exceeded quota: " in full.message
    assert "limited: " in full.message


# ── pin, bind ────────────────────────────────────────────────────────────────


async def test_a_pinned_pod_has_its_devices_before_and_after_it_is_bound(world):
    pod = (await world.one(create(a_pod()))).pod

    pinned = await world.one(pin(pod, "GPU-3", "GPU-5"))
    again = await world.one(pin(pod, "GPU-3", "GPU-5"))
    await world.one(bind(pod))

    assert (pinned.status, again.status) == (200, 200)
    assert (await world.pods())[pod.name].devices == ("GPU-3", "GPU-5")


async def test_a_pod_that_has_other_devices_or_a_node_is_not_pinned(world):
    pinned = (await world.one(create(a_pod("w1-1-0")))).pod
    await world.one(pin(pinned, "GPU-3"))
    on_a_node = await bound(world, "w2-1-0")

    results = await world.cluster.apply([pin(pinned, "GPU-4"), pin(on_a_node, "GPU-4")])

    assert [result.status for result in results] == [409, 409]
    assert (await world.pods())["w1-1-0"].devices == ("GPU-3",)
    assert (await world.pods())["w2-1-0"].devices == ()


async def test_binding_twice_answers_409_with_the_node_it_has(world):
    pod = await bound(world)

    again = await world.one(bind(pod, node=world.nodes[1]))

    assert (again.status, again.pod.node) == (409, world.nodes[0])


async def test_pin_bind_and_delete_want_the_uid_they_name(world):
    pod = (await world.one(create(a_pod()))).pod
    wrong = a_pod(uid="00000000-0000-4000-8000-000000000000")
    nobody = a_pod("none-1-0", uid=pod.uid)

    results = await world.cluster.apply(
        [pin(wrong, "GPU-3"), bind(wrong), delete(wrong), bind(nobody), delete(nobody)]
    )

    assert [result.status for result in results] == [409, 409, 409, 404, 404]
    assert [(one.uid, one.node) for one in (await world.pods()).values()] == [(pod.uid, "")]


async def test_results_come_in_the_order_of_the_operations(world):
    names = [f"w{number}-1-0" for number in range(20)]

    results = await world.cluster.apply([create(a_pod(name)) for name in names])

    assert [result.pod.name for result in results] == names


# ── what the kubelet makes of it ─────────────────────────────────────────────


async def test_a_bound_pod_runs_is_ready_ends_and_can_be_deleted(world):
    pod = await bound(world, duration_seconds=2)

    up = await world.until(pod.name, lambda one: one.phase == "Running")
    over = await world.until(pod.name, ended)
    result = await world.one(delete(pod))
    await world.until(pod.name, gone)

    assert (up.ready, over.ready) == (True, False)
    assert (over.phase, result.status) == ("Succeeded", 200)


async def test_a_pod_that_the_kubelet_refuses_fails_with_a_reason_that_says_so(world):
    await world.kubelet("refuses")

    pod = await bound(world)
    failed = await world.until(pod.name, ended)

    assert failed.phase == "Failed"
    assert cause_of_failure(failed.reason) is FailureCause.KUBELET_REFUSED
    assert failed.message


async def test_a_pod_whose_image_cannot_be_pulled_waits_and_says_why(world):
    await world.kubelet("cannot-pull")

    pod = await bound(world)
    waiting = await world.until(pod.name, lambda one: one.waiting == "ImagePullBackOff")

    assert (waiting.phase, waiting.ready) == ("Pending", False)
    assert waiting.message
    assert not never_starts(waiting.waiting)


async def test_a_container_that_names_what_is_missing_waits_for_a_reason_that_never_heals(world):
    await world.kubelet("cannot-create")

    pod = await bound(world)
    waiting = await world.until(pod.name, lambda one: one.waiting != "")

    assert waiting.phase == "Pending"
    assert never_starts(waiting.waiting)
    assert "not found" in waiting.message


# ── delete ───────────────────────────────────────────────────────────────────


async def test_a_pod_that_is_not_bound_is_gone_with_the_answer_whatever_its_grace(world):
    pod = (await world.one(create(a_pod()))).pod

    result = await world.one(delete(pod, grace=30))

    assert result.status == 200
    assert await world.pods() == {}


async def test_a_deleted_running_pod_stays_while_it_stops(world):
    pod = await running(world)

    await world.one(delete(pod, grace=30))
    stopping = (await world.pods())[pod.name]
    await world.until(pod.name, gone)

    assert (stopping.deleting, stopping.ended) == (True, False)


async def test_a_bound_pod_that_does_not_run_yet_stays_until_its_kubelet_says_so(world):
    await world.node(world.nodes[0], "silent")
    pod = await bound(world)

    await world.one(delete(pod))
    stopping = (await world.pods())[pod.name]
    await world.node(world.nodes[0], "up")
    await world.until(pod.name, gone)

    assert (stopping.phase, stopping.deleting) == ("Pending", True)


async def test_grace_0_is_refused_as_it_would_free_what_may_still_run(world):
    pod = await running(world)

    result = await world.one(delete(pod, grace=0))

    assert (result.status, result.errors[0].field) == (INVALID, "grace_seconds")
    assert "at least 1" in result.errors[0].rule
    assert not (await world.pods())[pod.name].deleting


async def test_a_pod_that_has_ended_gives_its_devices_back_though_a_finalizer_keeps_it(world):
    pod = await bound(world, duration_seconds=1, finalizers=KEPT)
    await world.until(pod.name, ended)

    result = await world.one(delete(pod))
    kept = (await world.pods())[pod.name]
    await world.let_go(pod.name)
    await world.until(pod.name, gone)

    assert result.status == 200
    assert (kept.deleting, kept.ended, kept.phase) == (True, True, "Succeeded")


async def test_a_pod_that_is_stopped_and_kept_is_seen_to_have_ended(world):
    pod = await running(world, finalizers=KEPT)

    await world.one(delete(pod))
    kept = await world.until(pod.name, ended)
    await world.let_go(pod.name)
    await world.until(pod.name, gone)

    assert (kept.phase, kept.deleting) == ("Failed", True)


async def test_pods_of_a_node_that_is_not_heard_of_are_deleted_only_when_it_is_fenced(world):
    pod = await running(world)
    await world.node(world.nodes[0], "silent")

    await world.one(delete(pod))
    await world.pass_time(5)
    waiting = (await world.pods())[pod.name]
    await world.node(world.nodes[0], "fence")
    await world.until(pod.name, gone)

    assert (waiting.deleting, waiting.ended) == (True, False)


async def test_a_force_delete_takes_what_is_stopping_off_a_node_that_is_not_heard_of(world):
    here, elsewhere = world.nodes
    pod = await running(world)
    await world.node(here, "silent")
    await world.one(delete(pod))
    await world.until(pod.name, lambda one: one.deleting)

    wrong = await world.one(force_delete(pod, elsewhere))
    kept = (await world.pods()).get(pod.name)
    done = await world.one(force_delete(pod, here))
    left = (await world.pods()).get(pod.name)
    again = await world.one(force_delete(pod, here))

    assert (wrong.status, wrong.reason, wrong.pod.node) == (409, NOT_DELETING, here)
    assert kept is not None
    assert (done.status, left, again.status) == (200, None, 404)


async def test_a_force_delete_of_what_runs_on_is_refused(world):
    pod = await running(world)
    await world.node(world.nodes[0], "silent")

    result = await world.one(force_delete(pod, world.nodes[0]))

    assert (result.status, result.reason, result.pod.uid) == (409, NOT_DELETING, pod.uid)
    assert not (await world.pods())[pod.name].deleting


async def test_a_force_delete_on_a_node_that_is_heard_of_is_refused(world):
    pod = await running(world, finalizers=KEPT)
    await world.one(delete(pod))
    await world.until(pod.name, lambda one: one.deleting)

    result = await world.one(force_delete(pod, world.nodes[0]))
    kept = (await world.pods()).get(pod.name)
    await world.let_go(pod.name)
    await world.until(pod.name, gone)

    assert (result.status, result.reason) == (409, NODE_READY)
    assert kept is not None


@pytest.mark.parametrize(("field", "given"), [("uid", {"uid": ""}), ("node", {"node": ""})])
async def test_a_force_delete_names_the_very_pod_and_its_node(world, field, given):
    pod = await running(world)
    await world.one(delete(pod))

    result = await world.one(operation("force_delete", pod, **({"node": "n"} | given)))
    other = await world.one(force_delete(pod, world.nodes[0], uid="another"))

    assert (result.status, result.errors[0].field) == (INVALID, field)
    assert other.status in (404, 409)


async def test_pods_of_a_node_that_is_heard_of_again_stop_as_they_were_told(world):
    pod = await running(world)
    await world.node(world.nodes[0], "silent")
    await world.one(delete(pod))

    await world.node(world.nodes[0], "up")

    await world.until(pod.name, gone)


# ── watch ────────────────────────────────────────────────────────────────────


async def test_a_watch_tells_everything_after_its_version_and_nothing_before(world):
    await world.one(create(a_pod("early-1-0")))
    _, version = await world.cluster.list_pods()
    pod = await running(world)
    await world.one(delete(pod))
    await world.until(pod.name, gone)

    events = []
    async with asyncio.timeout(5):
        async for batch in world.cluster.watch(version):
            events += batch
            if events[-1].type == "DELETED":
                break

    versions = [event.pod.resource_version for event in events]
    assert {event.pod.name for event in events} == {pod.name}
    assert versions == sorted(set(versions))
    assert versions[0] > version
    kinds = [event.type for event in events]
    assert kinds == ["ADDED", *["MODIFIED"] * (len(kinds) - 2), "DELETED"]
    assert [event.pod.phase for event in events if event.pod.node][:1] == ["Pending"]
    assert "Running" in [event.pod.phase for event in events]


async def test_a_watch_that_is_waiting_is_told_of_what_comes(world):
    _, version = await world.cluster.list_pods()
    waiting = asyncio.create_task(watched(world, version, 1))
    await asyncio.sleep(0)

    await world.one(create(a_pod()))

    assert {event.pod.name for event in await waiting} == {"w1-1-0"}


async def test_a_version_that_is_no_longer_kept_says_to_list_again(world):
    await world.one(create(a_pod()))
    _, version = await world.cluster.list_pods()
    await world.forget_events()

    with pytest.raises(ResourceVersionExpired):
        await watched(world, version, 1)


async def test_of_a_version_of_the_future_a_watch_is_silent(world):
    _, version = await world.cluster.list_pods()
    waiting = asyncio.create_task(watched(world, version + 1_000_000, 1))

    await world.one(create(a_pod()))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    waiting.cancel()

    assert not done


# ── pods of others ───────────────────────────────────────────────────────────

GROUP = "red/group/g"


def adopt(world, rank, size, **fields):
    pod = a_pod(rank=rank, size=size, group=GROUP, shares=(), node=world.nodes[0], **fields)
    return operation("adopt", pod, pod=pod)


async def adopted(world, operation):
    """The answer, once the others' pods are seen."""
    result = await world.one(operation)
    for _ in range(100):
        if result.status != 404:
            return result
        await world.pass_time(0.1)
        result = await world.one(operation)
    raise AssertionError(f"they are not seen: {result}")


async def test_pods_of_others_are_adopted_when_their_group_is_whole(world):
    await world.others_make(GROUP, "b", size=2)
    await world.pass_time()

    early = await world.one(adopt(world, 0, 2))
    assert (early.status, early.reason) == (404, "WaitingForPods")
    assert await world.pods() == {}, "what is not adopted is none of ours"

    await world.others_make(GROUP, "a", size=2)
    first = await adopted(world, adopt(world, 0, 2))
    assert (first.status, first.pod.name, first.pod.group) == (201, "a", GROUP)
    pods = await world.pods()
    assert {"a": ("w1", 1, 0, 2)} == {
        name: (pod.workload_id, pod.attempt, pod.rank, pod.size) for name, pod in pods.items()
    }


async def test_an_adopted_pod_is_bound_and_deleted_as_any_other(world):
    await world.others_make(GROUP, "a", size=1)
    pod = (await adopted(world, adopt(world, 0, 1))).pod

    result = await world.one(bind(pod, world.nodes[0]))
    there = await world.until("a", lambda found: found is not None and found.node)
    away = await world.one(operation("delete", pod, grace_seconds=1, disruption=True))

    assert (result.status, away.status) == (201, 200)
    assert (there.node, there.group) == (world.nodes[0], GROUP)
    await world.until("a", gone)


async def test_a_released_pod_is_others_again_and_may_be_adopted_anew(world):
    await world.others_make(GROUP, "a", size=1)
    pod = (await adopted(world, adopt(world, 0, 1))).pod

    assert 200 == (await world.one(operation("release", pod))).status
    await world.until("a", gone)
    again = await adopted(world, adopt(world, 0, 1, attempt=2))

    assert (again.pod.uid, again.pod.attempt) == (pod.uid, 2)
    wrong = await world.one(operation("release", pod, uid="00000000-0000-4000-8000-000000000000"))
    assert 409 == wrong.status
