"""What a real cluster does that a record of pods would not: lost answers, graces, finalizers."""

import asyncio
import dataclasses

from msgspec.structs import replace

from services.binder import orphans
from services.binder.stored_pods import read, written
from shared.core.model.nouns import PodSet
from shared.ports.cluster import Pod, PodOperation, PodTemplate
from shared.simulator.faults import LOST
from shared.simulator.pods import DONE
from tests.unit.binder.world import bind, evict

KEPT = ("example.org/job-tracking",)


def lose_answers(world, lost, *, times=1):
    """The cluster does everything; the answers of the first operations about `lost` never come."""
    left = [times]
    apply = world.cluster.apply

    async def losing(operations):
        results = await apply(operations)
        for index, operation in enumerate(operations):
            if operation.name == lost and left[0] > 0:
                left[0] -= 1
                results[index] = LOST
        return results

    world.cluster.apply = losing


def keep_by_finalizers(world):
    """Some controller puts a finalizer on every pod that is created."""
    apply = world.cluster.apply

    async def keeping(operations):
        return await apply(
            [
                replace(one, pod=replace(one.pod, finalizers=KEPT)) if one.pod else one
                for one in operations
            ]
        )

    world.cluster.apply = keeping


async def test_a_lost_answer_holds_up_its_own_gang_and_no_other(world):
    list_pods, may_list = world.cluster.list_pods, asyncio.Event()

    async def late_list():
        await may_list.wait()
        return await list_pods()

    world.cluster.list_pods = late_list
    lose_answers(world, "w1-1-1")

    await world.send(bind("w1", nodes=("n1", "n2")), bind("w2", nodes=("n1",)))
    await world.advance(0.5)
    at_once = (world.told("w1"), world.told("w2"))
    may_list.set()
    await asyncio.sleep(0.001)
    await world.settle()

    assert at_once == ([], ["PodsBound"])
    assert world.told("w1") == ["PodsRunning"]
    assert len(world.pods()) == 3


async def test_no_pod_is_deleted_with_a_grace_that_forces_it(world):
    graces: list[int] = []
    apply = world.cluster.apply

    async def noting(operations):
        graces.extend(one.grace_seconds for one in operations if one.verb == "delete")
        return await apply(operations)

    world.cluster.apply = noting
    stray = Pod(name="w9-1-0", workload_id="w9", attempt=1, rank=0, size=1, epoch=1)
    made = (await apply([PodOperation(verb="create", name=stray.name, pod=stray)]))[0].pod
    await apply([PodOperation(verb="bind", name=stray.name, uid=made.uid, node="n1")])
    await world.send(bind("w1"), bind("w2"))
    world.cluster.pods.fail_pod("w2-1-0", "Error")

    await world.send(evict("w1", grace=0))
    await world.advance(orphans.GRACE_MS / 1000 + 1)

    assert world.pods() == {}
    assert len(graces) >= 3
    assert min(graces) >= 1


async def test_a_deletion_that_was_accepted_and_forgotten_is_asked_for_again_without_a_list(world):
    await world.send(bind())
    apply = world.cluster.apply
    asked: list[str] = []

    async def forgetting(operations):
        asked.extend(one.verb for one in operations)
        return [DONE for _ in operations]

    world.cluster.apply = forgetting
    lists = world.handler._actuator.watcher.round
    await world.send(evict(grace=5))
    await world.advance(20)
    early = list(asked)
    world.cluster.apply = apply
    await world.advance(20)

    assert (early, world.told()[-1]) == (["delete"], "PodsGone")
    assert world.handler._actuator.watcher.round == lists
    assert world.pods() == {}


async def test_an_evicted_attempt_is_gone_when_its_pods_have_ended_though_others_keep_them(slow):
    keep_by_finalizers(slow)
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)

    await slow.send(evict())
    while_stopping = slow.told()[-1]
    await slow.advance(0.5)

    assert while_stopping == "PodsRunning"
    assert slow.told()[-1] == "PodsGone"
    assert {pod.phase for pod in slow.pods().values()} == {"Failed"}
    assert not slow.facts[-1].succeeded


async def test_what_ended_and_is_kept_by_others_is_asked_to_go_once_and_then_left_alone(slow):
    keep_by_finalizers(slow)
    await slow.send(bind(seconds=1))
    await slow.advance(2)
    asked, apply = [], slow.cluster.apply

    async def noting(operations):
        asked.extend(operations)
        return await apply(operations)

    slow.cluster.apply = noting
    await slow.advance(3 * orphans.GRACE_MS / 1000)
    await slow.start()
    await slow.advance(3 * orphans.GRACE_MS / 1000)
    slow.cluster.pods.let_go("w1-1-0")

    assert slow.told()[-1] == "PodsFinished"
    assert asked == []
    assert slow.pods() == {}


async def test_pods_that_end_because_they_are_stopped_have_not_succeeded(slow):
    await slow.send(bind(seconds=2))
    await slow.advance(1)
    slow.cluster.pods._timing = dataclasses.replace(slow.cluster.pods._timing, stop_delay_ms=5_000)

    await slow.send(evict(grace=30))
    await slow.advance(6)

    assert slow.told()[-1] == "PodsGone"
    assert not slow.facts[-1].succeeded


async def test_pods_of_a_silent_node_are_gone_only_once_it_is_fenced(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)
    slow.cluster.pods.node_silent("n2")

    await slow.send(evict())
    await slow.advance(60)
    waiting = (slow.told()[-1], [pod.node for pod in slow.pods().values()])
    await slow.fence("n2")

    assert waiting == ("PodsRunning", ["n2"])
    assert slow.told()[-1] == "PodsGone"


async def test_pods_are_made_from_the_whole_template_in_the_namespace_of_the_command(world):
    made: list[Pod] = []
    apply = world.cluster.apply

    async def noting(operations):
        made.extend(one.pod for one in operations if one.verb == "create")
        return await apply(operations)

    world.cluster.apply = noting
    pod_set = PodSet(
        image="a/b:1", command=("python",), arguments=("train.py",), secrets=("token",),
        environment={"A": "1"}, volumes=("data:/data:ro",), shm_mib=64, tolerations=("spot",),
        kubernetes_priority_class="batch",
    )  # fmt: skip
    command = replace(
        bind(nodes=("n1", "n2")), pod_sets=(pod_set,), namespace="red-prod",
        service_account="trainer", labels={"run": "7"}, grace_seconds=0,
    )  # fmt: skip

    await world.send(command, kill="after commit")
    await world.start()

    template = PodTemplate(
        pod_set=pod_set, service_account="trainer", grace_seconds=1, labels={"run": "7"}
    )
    assert [(pod.namespace, pod.template) for pod in made] == [("red-prod", template)] * 2
    assert world.told() == ["PodsRunning"]


async def test_pods_are_found_again_in_the_namespace_that_they_are_in(world):
    await world.send(replace(bind("w1"), namespace="red-prod"), bind("w2"))
    places = {pod.workload_id: pod.namespace for pod in world.pods().values()}
    await world.start()

    await world.send(evict("w1"), evict("w2"))

    assert places == {"w1": "red-prod", "w2": "red"}
    assert (world.told("w1")[-1], world.told("w2")[-1]) == ("PodsGone", "PodsGone")
    assert world.pods() == {}


def test_a_row_keeps_what_many_pods_are_made_from_once():
    worker = PodTemplate(pod_set=PodSet(name="worker", environment={"TEXT": "x" * 10_000}))
    leader = PodTemplate(pod_set=PodSet(name="leader", command=("lead",)), grace_seconds=60)
    pods = tuple(
        Pod(name=f"w1-1-{rank}", workload_id="w1", attempt=1, rank=rank, size=100, epoch=1,
            node=f"n{rank}", template=worker if rank else leader)
        for rank in range(100)
    )  # fmt: skip

    text = written(pods)

    assert read(text) == pods
    assert len(text) < 30_000


async def test_that_images_are_pulled_and_when_they_are_there_is_told_once(slow):
    slow.cluster.pods._timing = dataclasses.replace(slow.cluster.pods._timing, pull_ms=20_000)
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(5)
    early = slow.told()
    await slow.start()
    await slow.advance(20)

    assert early == ["PodsBound", "PodsPulling"]
    assert slow.told()[-1] == "PodsRunning"
    assert set(slow.told()) == {"PodsBound", "PodsPulling", "PodsRunning"}


async def test_the_end_of_a_pull_is_told_while_the_pod_does_not_run_yet(slow):
    slow.cluster.pods._timing = dataclasses.replace(slow.cluster.pods._timing, pull_ms=60_000)
    await slow.send(bind())
    await slow.advance(5)
    pulling = slow.pods()["w1-1-0"]
    record = slow.cluster.pods._by_key["red", "w1-1-0"]

    slow.cluster.pods._change(record, "MODIFIED", pulling=False)
    slow.cluster.tick()
    await slow.settle()

    assert pulling.pulling
    assert slow.told() == ["PodsBound", "PodsPulling", "PodsPulled"]


async def test_a_new_process_tells_at_once_that_pods_are_bound_and_images_pulled(slow):
    slow.cluster.pods._timing = dataclasses.replace(slow.cluster.pods._timing, pull_ms=20_000)
    await slow.send(bind())
    await slow.stop()
    slow.clock.ms += 1_000
    slow.cluster.tick()

    await slow.start()

    assert slow.told() == ["PodsBound", "PodsPulling"]
