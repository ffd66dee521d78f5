"""Attempts of which nothing was heard for a while are asked about, together and not too often."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from services.placement.state.heard import LastHeard
from services.placement.workloads import silence
from shared.core.model.lifecycle import State
from shared.events.pods import AskAttempts, EvictPods, PodsFinished, PodsResized
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.world import PATHS, a_gang_below_its_size, gone, running

SECONDS = 60


def silent(*names: str) -> Driver:
    """These were just placed."""
    driver = Driver(silent_seconds=SECONDS)
    driver.send(reported(a_node()), a_quota())
    driver.send(*(nominated(a_workload(name)) for name in names))
    return driver


def asked(facts: Sequence[object]) -> list[tuple[str, State]]:
    """Who is asked about, as what."""
    questions = [one for one in facts if isinstance(one, AskAttempts)]
    return [(one.workload_id, one.state) for each in questions for one in each.attempts]


def test_what_was_not_heard_of_for_a_minute_is_asked_about_once_a_minute():
    driver = silent("w1", "w2")
    driver.wait(SECONDS - 10)
    driver.send(running)

    assert [] == driver.wait(9)
    assert [("w2", State.PLACED)] == asked(driver.wait(1))
    assert [("w1", State.RUNNING)] == asked(driver.wait(SECONDS - 10))
    assert [] == driver.wait(silence.PAUSE_MS / 1000)
    assert [("w2", State.PLACED)] == asked(driver.wait(5))


def test_many_are_asked_about_together_with_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(silence, "ASKED_MAX", 2)
    monkeypatch.setattr(silence, "COMMANDS_MAX", 2)
    driver = silent("w1", "w2", "w3", "w4", "w5")

    first = driver.wait(SECONDS)
    assert [2, 2] == [len(one.attempts) for one in first]
    assert [] == driver.due()
    assert [("w5", State.PLACED)] == asked(driver.wait(silence.PAUSE_MS / 1000))


@pytest.mark.parametrize("state", [State.EVICTING, State.CANCELLING])
def test_what_is_to_stop_is_told_so_again_until_it_has(state: State):
    driver = silent("w1")
    for step in PATHS[state][1:]:
        driver.send(step)

    facts = driver.wait(SECONDS)

    assert [("w1", state)] == asked(facts)
    assert ["w1"] == [one.workload_id for one in facts if isinstance(one, EvictPods)]
    driver.send(gone)
    assert [] == driver.wait(SECONDS)


def test_after_a_start_the_longest_silence_comes_first():
    heard = LastHeard()
    heard.restore({"new": 2_000, "old": 1_000})

    assert 1_000 == heard.oldest_ms
    assert ["old"] == heard.silent_since(1_500, 10)


def test_a_resize_without_an_answer_is_asked_about_with_what_was_wanted():
    driver = a_gang_below_its_size(silent_seconds=SECONDS)
    driver.send(pod_fact(PodsFinished, "full", succeeded=True))

    (question,) = [one for one in driver.wait(SECONDS) if isinstance(one, AskAttempts)]
    (one,) = question.attempts

    assert ("w1", 1, 8) == (one.workload_id, one.resize, one.resize_pods)
    driver.send(pod_fact(PodsResized, "w1", number=1, pods=8))
    assert [0] == [
        one.resize
        for each in driver.wait(SECONDS)
        if isinstance(each, AskAttempts)
        for one in each.attempts
    ]
