"""The kernels decide what the core decides, whatever happened before; and undo is the identity."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.kernel_story import Story, any_fleet, wide_fleet, wide_gang

seeds = st.integers(0, 2**40)


@settings(max_examples=30, deadline=None)
@given(seeds)
@example(1)
def test_core_reference_and_kernels_decide_alike(seed: int) -> None:
    draw = Random(seed)
    story = Story(any_fleet(draw, draw.randint(1, 30)), draw)

    for _ in range(40):
        story.step()


@pytest.mark.parametrize(("seed", "nodes", "steps"), [(1, 24, 400), (2, 60, 400), (3, 8, 400)])
def test_they_decide_alike_for_long(seed: int, nodes: int, steps: int) -> None:
    draw = Random(seed)
    story = Story(any_fleet(draw, nodes), draw)

    for _ in range(steps):
        story.step()

    assert story.placed > steps // 4


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_they_decide_alike_across_racks_and_blocks(seed: int) -> None:
    draw = Random(seed)
    story = Story(wide_fleet(draw), draw, wide_gang)

    for _ in range(30):
        story.step()


@settings(max_examples=20, deadline=None)
@given(seeds)
@example(1)
def test_back_ends_that_take_over_a_full_cluster_decide_as_it_would(seed: int) -> None:
    draw = Random(seed)
    story = Story(any_fleet(draw, draw.randint(1, 30)), draw)
    for _ in range(40):
        story.step()
    story.begin()

    for _ in range(15):
        story.step()


@settings(max_examples=30, deadline=None)
@given(seeds)
@example(1)
def test_what_is_rolled_back_never_was(seed: int) -> None:
    draw = Random(seed)
    story = Story(any_fleet(draw, draw.randint(1, 30)), draw)
    for _ in range(20):
        story.step()
    live = list(story.live)
    before = [[array.copy() for array in fleet.state[:2]] for fleet in story.fleets]
    marks = [back_end.mark() for back_end in story.back_ends]
    for _ in range(15):
        story.step()

    for back_end, mark in zip(story.back_ends, marks, strict=True):
        back_end.roll_back(mark)
        back_end.keep()
    story.go_back_to(live)

    for fleet, arrays in zip(story.fleets, before, strict=True):
        assert all(map(np.array_equal, fleet.state[:2], arrays))
    for _ in range(15):
        story.step()
