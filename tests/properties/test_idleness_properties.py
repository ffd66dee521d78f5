"""Idleness over random reports of several nodes, against a count of what was seen."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from shared.core.nodes.idleness import (
    GAP_MS_MAX,
    HOLD_MS,
    IdlenessLimits,
    Run,
    ToldIdleness,
    Word,
    observe,
    whole,
    word_of,
)

BELOW = 5
LIMITS = IdlenessLimits(percent_below=BELOW, warn_ms=200_000, release_ms=500_000)
NODES = 3
STEPS_MS = (1, 10_000, 59_000, 61_000, GAP_MS_MAX, GAP_MS_MAX + 1)
report = st.tuples(
    st.integers(0, NODES - 1),
    st.sampled_from(STEPS_MS),
    st.sampled_from([0, 0, 0, 0, 1, 4, 5, 90, None]),
)
histories = st.lists(report, max_size=80)


def nothing_seen() -> list[Run | None]:
    """No node has reported yet."""
    return [None] * NODES


def times(history):
    """(node, time, use) of each report."""
    at_ms, found = 0, []
    for node, step_ms, percent in history:
        at_ms += step_ms
        found.append((node, at_ms, percent))
    return found


def seen_idle(reports, node, since_ms, until_ms):
    """Whether reports of a node cover a time without use and without a gap."""
    own = [(at, use) for one, at, use in reports if one == node and use is not None]
    inside = [at for at, use in own if since_ms <= at <= until_ms]
    used = [at for at, use in own if use >= BELOW and since_ms - HOLD_MS < at <= until_ms]
    around = sorted(at for at, use in own if at <= until_ms)
    before = [at for at in around if at <= since_ms]
    steps = [*before[-1:], *(at for at in around if at > since_ms)]
    gaps = [b - a for a, b in pairwise(steps)]
    return bool(inside) and not used and all(gap <= GAP_MS_MAX for gap in gaps) and bool(before)


@given(histories)
def test_nothing_is_told_that_was_not_seen_of_every_node(history):
    runs = nothing_seen()
    told = None
    reports = times(history)
    for number, (node, at_ms, percent) in enumerate(reports):
        runs[node] = observe(runs[node], at_ms, percent, BELOW)
        idle = whole(runs)
        if idle is None:
            continue
        word = word_of(idle, LIMITS, told)
        if word in (Word.NOTICED, Word.REMINDED):
            past = reports[: number + 1]
            assert idle.idle_ms >= (LIMITS.warn_ms if word is Word.NOTICED else LIMITS.release_ms)
            for one in range(NODES):
                assert seen_idle(past, one, idle.since_ms, idle.until_ms)
            told = ToldIdleness(since_ms=idle.since_ms, until_ms=idle.until_ms)
        elif word is Word.ENDED:
            assert told is not None
            told = None


@given(histories, st.data())
def test_a_report_less_never_makes_work_idle_for_longer(history, data):
    reports = times(history)
    if not reports:
        return
    lost = data.draw(st.integers(0, len(reports) - 1))
    if reports[lost][2] is not None and reports[lost][2] >= BELOW:
        return

    def idle_ms(some):
        runs = nothing_seen()
        for node, at_ms, percent in some:
            runs[node] = observe(runs[node], at_ms, percent, BELOW)
        idle = whole(runs)
        return 0 if idle is None else max(idle.idle_ms, 0)

    assert idle_ms(reports[:lost] + reports[lost + 1 :]) <= idle_ms(reports)


@given(histories, st.sampled_from(STEPS_MS))
def test_use_of_one_gpu_ends_the_idleness_of_all(history, step_ms):
    runs = nothing_seen()
    at_ms = 0
    for node, at_ms, percent in times(history):
        runs[node] = observe(runs[node], at_ms, percent, BELOW)
    runs = [observe(run, at_ms + step_ms, 0, BELOW) for run in runs]
    runs[1] = observe(runs[1], at_ms + step_ms + 1, BELOW, BELOW)

    idle = whole(runs)

    assert idle is not None
    assert idle.idle_ms < 0
    assert Word.NOTHING is word_of(idle, LIMITS, None)
    told = ToldIdleness(since_ms=idle.since_ms - 1, until_ms=idle.since_ms)
    assert Word.ENDED is word_of(idle, LIMITS, told)
