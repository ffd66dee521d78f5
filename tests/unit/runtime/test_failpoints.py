"""Failpoints: what may be written, and that nothing happens unasked."""

from __future__ import annotations

import time

import pytest

from shared.ports.errors import Transient
from shared.runtime.failpoints import Failpoint, Failpoints


def test_each_part_names_a_point_its_probability_and_what_happens():
    failpoints = Failpoints.parse("a.b:0.5:kill,c:1:sleep=0.25,d:0:raise", seed=1)

    assert {
        "a.b": Failpoint(0.5, "kill"),
        "c": Failpoint(1.0, "sleep=0.25"),
        "d": Failpoint(0.0, "raise"),
    } == failpoints.points


@pytest.mark.parametrize("text", ["a", "a:1", "a:1:explode", "a:often:kill", "a:1:"])
def test_what_cannot_be_read_is_refused_at_start(text):
    with pytest.raises(ValueError, match=r"a|often"):
        Failpoints.parse(text, seed=1)


async def test_nothing_happens_at_a_point_that_is_not_set():
    await Failpoints.parse("a:1:raise", seed=1).reach("b")
    await Failpoints().reach("a")


async def test_a_point_that_is_set_fails_as_a_broken_connection_does():
    with pytest.raises(Transient, match="a"):
        await Failpoints.parse("a:1:raise", seed=1).reach("a")


async def test_a_point_can_delay():
    started = time.monotonic()

    await Failpoints.parse("a:1:sleep=0.05", seed=1).reach("a")

    assert time.monotonic() - started >= 0.045


async def test_the_same_seed_fails_at_the_same_times():
    async def failures(seed):
        failpoints = Failpoints.parse("a:0.5:raise", seed=seed)
        failed = []
        for number in range(40):
            try:
                await failpoints.reach("a")
            except Transient:
                failed.append(number)
        return failed

    assert await failures(1) == await failures(1)
    assert await failures(1) != await failures(2)
    assert 5 < len(await failures(1)) < 35
