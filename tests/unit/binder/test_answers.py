"""Attempts that placement asks about: what it does not know is told again, and nothing else."""

import pytest

from shared.core.model.lifecycle import State
from shared.core.nodes.pod_failures import FailureCause
from shared.events.pods import (
    AskAttempts,
    AskedAttempt,
    BindRefused,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsRunning,
)
from tests.unit.binder.world import bind, evict


def asked(state=State.RUNNING, attempt=1, epoch=1):
    one = AskedAttempt(workload_id="w1", attempt=attempt, state=state)
    return AskAttempts(epoch=epoch, attempts=(one,))


async def answers(world, question):
    before = len(world.facts)
    await world.send(question)
    return world.facts[before:]


@pytest.mark.parametrize(
    ("known", "told"),
    [(State.PLACED, [PodsRunning]), (State.BOUND, [PodsRunning]), (State.RUNNING, [])],
)
async def test_of_what_runs_only_news_is_told(world, known, told):
    await world.send(bind())

    assert told == [type(one) for one in await answers(world, asked(known))]


async def test_that_pods_are_bound_is_told_again(slow):
    await slow.send(bind())
    await slow.advance(0.25)
    assert ["PodsBound"] == slow.told()

    assert [PodsBound] == [type(one) for one in await answers(slow, asked(State.PLACED))]
    assert [] == await answers(slow, asked(State.BOUND))


async def test_an_end_is_told_again_after_a_restart_and_as_often_as_it_is_asked_for(world):
    await world.send(bind(seconds=1))
    await world.advance(1.25)
    await world.start()

    for _ in range(2):
        (again,) = await answers(world, asked())
        assert (PodsFinished, True) == (type(again), again.succeeded)


async def test_an_end_that_is_told_in_the_same_unit_is_no_unknown_attempt(world):
    await world.send(bind())
    end = PodsFinished(workload_id="w1", attempt=1, at_ms=world.clock.ms, succeeded=True)
    await world.unit([world.message(end), world.message(asked())])

    assert ["PodsRunning", "PodsFinished", "PodsFinished"] == world.told()


@pytest.mark.parametrize(
    ("state", "reason", "fact", "cause"),
    [
        ("finished", "OOMKilled", PodsFinished, FailureCause.WORK),
        ("finished", "PodLost", PodsFinished, FailureCause.TAKEN_AWAY),
        ("finished", "OutOfcpu", PodsFinished, FailureCause.KUBELET_REFUSED),
        ("finished", "InvalidImageName", PodsFinished, FailureCause.NEVER_STARTS),
        ("refused", "BindTimeout", BindRefused, None),
    ],
)
async def test_a_failure_is_told_again_by_the_reason_that_its_row_has(
    world, state, reason, fact, cause
):
    await world.send(bind(seconds=1))
    await world.advance(1.25)
    world.tables.rows["w1", 1] |= {"state": state, "reason": reason, "succeeded": False}

    (again,) = await answers(world, asked())

    assert (fact, reason) == (type(again), again.pod_reason)
    assert cause in (None, getattr(again, "cause", None))
    if cause is not None:
        lost = cause in (FailureCause.TAKEN_AWAY, FailureCause.KUBELET_REFUSED)
        assert (False, lost) == (again.succeeded, again.lost)


async def test_of_what_is_being_stopped_only_the_end_is_told(slow):
    await slow.send(bind())
    await slow.advance(1)
    await slow.send(evict())
    assert [] == await answers(slow, asked(State.EVICTING))
    await slow.advance(2)

    assert [PodsGone] == [type(one) for one in await answers(slow, asked(State.EVICTING))]


async def test_an_attempt_that_was_never_heard_of_is_gone_and_a_late_command_binds_nothing(world):
    assert [PodsGone] == [type(one) for one in await answers(world, asked(State.PLACED))]
    await world.send(bind())

    assert [PodsGone] == [type(one) for one in await answers(world, asked(State.PLACED))]
    assert {} == world.pods()


async def test_a_question_of_a_placement_that_lost_its_lease_is_passed_over(world):
    await world.send(bind(epoch=2))

    assert [] == await answers(world, asked(State.PLACED, epoch=1))
