"""Pods of a fenced node are taken away by force, if they are ours, stopping and on that node."""

from shared.ports.cluster import NODE_READY, PodResult
from tests.unit.binder.world import bind, evict


def noting(world):
    """The (verb, name, status, reason) of everything that is asked of the cluster from now on."""
    asked: list[tuple[str, str, int, str]] = []
    apply = world.cluster.apply

    async def apply_and_note(operations):
        results = await apply(operations)
        asked.extend(
            (one.verb, one.name, result.status, result.reason)
            for one, result in zip(operations, results, strict=True)
        )
        return results

    world.cluster.apply = apply_and_note
    return asked


async def stuck(world, *silent, nodes=("n1", "n2")):
    """An evicted gang whose pods on `silent` nodes nobody says to have stopped."""
    await world.send(bind(nodes=nodes))
    await world.advance(1)
    for node in silent:
        world.cluster.pods.node_silent(node)
    await world.send(evict(grace=1))
    await world.advance(60)
    assert world.told()[-1] == "PodsRunning"


def nodes_of(world):
    return [pod.node for pod in world.pods().values()]


async def test_what_is_stuck_there_goes_and_the_eviction_is_answered(slow):
    await stuck(slow, "n2")

    await slow.send(evict(grace=1, fenced=("n2",)))

    assert (slow.told()[-1], slow.pods()) == ("PodsGone", {})
    assert not slow.facts[-1].succeeded


async def test_pods_on_other_silent_nodes_stay_until_theirs_is_fenced_too(slow):
    await stuck(slow, "n1", "n2")

    await slow.send(evict(grace=1, fenced=("n2",)))
    await slow.advance(60)
    waiting = (slow.told()[-1], nodes_of(slow))
    await slow.send(evict(grace=1, fenced=("n1",)))

    assert waiting == ("PodsRunning", ["n1"])
    assert slow.told()[-1] == "PodsGone"


async def test_it_is_first_deleted_as_any_other_pod(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)
    slow.cluster.pods.node_silent("n2")
    asked = noting(slow)

    await slow.send(evict(grace=1, fenced=("n2",)))
    await slow.advance(2)

    verbs = [verb for verb, name, _, _ in asked if name == "w1-1-1"]
    assert verbs == ["delete", "force_delete"]
    assert slow.told()[-1] == "PodsGone"


async def test_a_killed_binder_knows_the_fence_again(slow):
    await stuck(slow, "n2")

    await slow.send(evict(grace=1, fenced=("n2",)), kill="after commit")
    before = nodes_of(slow)
    await slow.start()
    await slow.advance(1)

    assert before == ["n2"]
    assert slow.told()[-1] == "PodsGone"


async def test_a_fence_in_the_same_batch_as_the_binding_is_kept(slow):
    slow.cluster.pods.node_silent("n2")

    await slow.send(bind(nodes=("n1", "n2")), evict(grace=1, fenced=("n2",)), kill="after commit")
    await slow.start()

    assert slow.tables.rows["w1", 1]["fenced_nodes"] == ("n2",)
    assert slow.told()[-1] == "PodsGone"


async def test_a_kubelet_that_is_back_says_itself_when_its_pods_have_stopped(slow):
    await stuck(slow, "n2")
    asked = noting(slow)
    slow.cluster.pods.node_up("n2", slow.clock.ms)

    await slow.send(evict(grace=1, fenced=("n2",)))
    refused = ("force_delete", "w1-1-1", 409, NODE_READY) in asked
    early = slow.told()[-1]
    await slow.advance(2)

    assert (refused, early) == (True, "PodsRunning")
    assert slow.told()[-1] == "PodsGone"


async def test_lost_answers_and_a_busy_server_delay_it_only(slow):
    await stuck(slow, "n2")
    faults, nothing = slow.cluster.dice.faults, slow.cluster.dice.faults
    slow.cluster.dice.faults = type(faults)(throttled=0.5, reply_lost=0.5)

    await slow.send(evict(grace=1, fenced=("n2",)))
    await slow.advance(40)
    slow.cluster.dice.faults = nothing
    await slow.advance(40)

    assert slow.told()[-1] == "PodsGone"


async def test_what_was_accepted_and_has_not_happened_is_asked_for_again_after_a_while(slow):
    await stuck(slow, "n2")
    asked, apply = [], slow.cluster.apply

    async def accept(operations):
        forced = [one for one in operations if one.verb == "force_delete"]
        asked.extend(forced)
        return [PodResult(status=200)] * len(forced) if forced else await apply(operations)

    slow.cluster.apply = accept
    await slow.send(evict(grace=1, fenced=("n2",)))
    await slow.advance(25)
    at_first = len(asked)
    await slow.advance(25)

    assert (at_first, len(asked)) == (1, 2)
