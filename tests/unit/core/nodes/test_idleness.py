"""When work counts as idle, what is said of it, and when it is spared."""

import pytest

from shared.core.model.team_policy import IdlePolicy
from shared.core.nodes.idleness import (
    FRESH_MS,
    GAP_MS_MAX,
    HOLD_MS,
    REMIND_MS,
    Idleness,
    IdlenessLimits,
    Run,
    ToldIdleness,
    Word,
    limits_of,
    observe,
    use_percent,
    whole,
    why_spared,
    word_of,
)

LIMITS = IdlenessLimits(percent_below=5, warn_ms=10_000, release_ms=30_000)
POLICY = IdlePolicy(warn_after_seconds=600, release_after_seconds=3600)


@pytest.mark.parametrize(
    ("policy", "own", "expected"),
    [
        (None, None, None),
        (POLICY, None, (600, 3600)),
        (POLICY, 7200, (600, 3600)),
        (POLICY, 1800, (600, 1800)),
        (POLICY, 900, (450, 900)),
        (IdlePolicy(), None, (1800, 0)),
        (IdlePolicy(), 7200, (1800, 7200)),
        (None, 3600, (1800, 3600)),
    ],
)
def test_the_shorter_of_policy_and_own_time_out_holds(policy, own, expected):
    found = limits_of(policy, own)

    seconds = found and (found.warn_ms // 1000, found.release_ms // 1000)
    assert expected == seconds


def test_use_is_measured_by_what_is_held_of_a_gpu():
    assert 80 == use_percent([(0, 0)], {0: 50}, [4], ())
    assert 4 == use_percent([(0, 255), (1, 0)], {0: 1000, 1: 500}, [3, 2], ())
    assert 0 == use_percent([], {}, [], ())


def test_a_gpu_that_was_not_read_or_not_reported_makes_use_unknown():
    assert use_percent([(0, 255), (1, 255)], {0: 1000, 1: 1000}, [90, 0], [1]) is None
    assert use_percent([(0, 255), (2, 255)], {0: 1000, 2: 1000}, [0, 0], ()) is None


def test_a_mig_instance_is_judged_by_its_own_use():
    told = {(0, 0b0011): 2, (0, 0b1100): 90}

    assert use_percent([(0, 0b0011)], {0: 500}, [60], (), told) == 2
    assert use_percent([(0, 0b1100)], {0: 500}, [60], [0], told) == 90
    assert use_percent([(0, 0b0001)], {0: 500}, [60], [0], told) is None


def test_reports_below_the_limit_make_one_run():
    run = None
    for at_ms, percent in ((0, 1), (10, 4), (20, 2)):
        run = observe(run, at_ms, percent, 5)

    assert run == Run(since_ms=0, until_ms=20, percent=4)


def test_what_is_old_or_unknown_changes_nothing():
    run = Run(since_ms=0, until_ms=20)

    assert run is observe(run, 20, 100, 5)
    assert run is observe(run, 30, None, 5)
    assert observe(None, 30, None, 5) is None


def test_use_for_a_moment_counts_for_a_while():
    used = observe(Run(since_ms=0, until_ms=20), 30, 5, 5)
    assert used == Run(since_ms=30 + HOLD_MS, until_ms=30, percent=5)

    after = observe(used, 40, 1, 5)

    assert after == Run(since_ms=30 + HOLD_MS, until_ms=40, percent=1)


def test_a_gap_begins_anew():
    run = Run(since_ms=0, until_ms=20)

    last_ms = 20 + GAP_MS_MAX
    assert observe(run, last_ms, 0, 5) == Run(since_ms=0, until_ms=last_ms)
    assert observe(run, last_ms + 1, 0, 5) == Run(since_ms=last_ms + 1, until_ms=last_ms + 1)


def test_a_gang_is_idle_as_long_as_all_of_its_nodes_are():
    runs = [Run(since_ms=5, until_ms=90, percent=1), Run(since_ms=20, until_ms=70, percent=3)]

    assert whole(runs) == Idleness(since_ms=20, until_ms=70, percent=3)
    assert whole([*runs, None]) is None


@pytest.mark.parametrize(
    ("until_ms", "told", "expected"),
    [
        (9_999, None, Word.NOTHING),
        (10_000, None, Word.NOTICED),
        (29_999, ToldIdleness(since_ms=0, until_ms=10_000), Word.NOTHING),
        (30_000, ToldIdleness(since_ms=0, until_ms=10_000), Word.REMINDED),
        (30_000 + REMIND_MS - 1, ToldIdleness(since_ms=0, until_ms=30_000), Word.NOTHING),
        (30_000 + REMIND_MS, ToldIdleness(since_ms=0, until_ms=30_000), Word.REMINDED),
        (40_000, ToldIdleness(since_ms=1, until_ms=10_000), Word.ENDED),
    ],
)
def test_what_is_said_follows_the_limits(until_ms, told, expected):
    assert expected is word_of(Idleness(since_ms=0, until_ms=until_ms), LIMITS, told)


def test_work_without_limits_is_told_of_only_to_end_it():
    idle = Idleness(since_ms=0, until_ms=99_999)

    assert Word.NOTHING is word_of(idle, None, None)
    assert Word.ENDED is word_of(idle, None, ToldIdleness(since_ms=0, until_ms=1))


def test_without_a_release_nothing_is_reminded_of():
    limits = IdlenessLimits(percent_below=5, warn_ms=10_000, release_ms=0)
    told = ToldIdleness(since_ms=0, until_ms=10_000)

    assert Word.NOTHING is word_of(Idleness(since_ms=0, until_ms=10**9), limits, told)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ""),
        ({"limits": None}, "never"),
        ({"limits": IdlenessLimits(percent_below=5, warn_ms=1, release_ms=0)}, "never"),
        ({"idle": Idleness(since_ms=1, until_ms=30_000)}, "too-soon"),
        ({"now_ms": 30_001 + FRESH_MS}, "stale"),
        ({"protected": True}, "protected"),
    ],
)
def test_only_what_is_idle_by_fresh_evidence_is_released(changed, expected):
    fields = {
        "idle": Idleness(since_ms=0, until_ms=30_000),
        "limits": LIMITS,
        "protected": False,
        "now_ms": 30_000 + FRESH_MS,
    } | changed

    idle, limits = fields.pop("idle"), fields.pop("limits")
    assert expected == why_spared(idle, limits, **fields)
