"""Made days on which nothing is wrong: no trend may be found on any of them, by seed.

Each run looks at 100 days for each trend, seeds 0 to 99. A thousand (about two minutes):

    MUSTER_TREND_DAYS=1000 .venv/bin/python -m pytest tests/properties/test_healthy_days.py

A healthy day has idle hours and work of all kinds, one after the other: memory that stays, fills a
cache or is emptied in turn; a room that is 3 C warmer in the afternoon, neighbours that warm the
air by up to 2 C, and temperature that follows power with a lag; PCIe links with up to 60 replays
an hour, and drivers that begin anew; gangs of 2 to 32 GPUs with boards up to 4 % slower than
others, pipelines whose stages are idle in turn, and heat that throttles a whole rack.
"""

from __future__ import annotations

import math
import os
from random import Random

import numpy as np
import pytest

from shared.core.health import heat, leak
from shared.core.health.heat import HeatPoint, degrees_above, judged_heat
from shared.core.health.leak import MemoryPoint, leak_of
from shared.core.health.replays import ReplayPoint, judged_replays
from shared.core.health.straggler import POINTS, judged_gang
from shared.core.health.trends import POINT_MS, UNTOLD, TrendEvidence

DAYS = int(os.environ.get("MUSTER_TREND_DAYS", "100"))
POINTS_OF_DAY = 288
SEEDS = pytest.mark.parametrize("tens", range(math.ceil(DAYS / 10)))


def seeds(tens: int) -> range:
    """Ten of them, so that a failure says where."""
    return range(10 * tens, min(10 * tens + 10, DAYS))


def memory_of_a_day(seed: int) -> list[list[MemoryPoint]]:
    """Jobs one after the other, each behind its first half hour.

    Memory stays, fills a cache and stays, or fills and is emptied in turn, with noise.
    """
    random, at, jobs = Random(seed), 0, []
    while at < POINTS_OF_DAY:
        length, base = random.randint(6, 120), random.uniform(2_000, 60_000)
        cache, period = random.uniform(500, 8_000), random.randint(4, 24)
        form, noise = random.choice(("flat", "cache", "saw")), random.choice((5, 50, 300))
        percent, points = random.uniform(5, 95), []
        for step in range(length):
            part = {"flat": 0.0, "cache": min(1.0, step / period), "saw": step % period / period}
            memory = base + cache * part[form] + random.gauss(0, noise)
            use = min(100.0, max(0.0, percent + random.gauss(0, 2)))
            at_ms = (at + step) * POINT_MS
            points.append(MemoryPoint(at_ms=at_ms, memory_mib=memory, percent=use))
        jobs.append(points)
        at += length
    return jobs


@SEEDS
def test_on_healthy_days_nothing_leaks(tens):
    for seed in seeds(tens):
        for job in memory_of_a_day(seed):
            for end in range(leak.POINTS_MIN, len(job) + 1, 6):
                assert leak_of(job[:end]) is None, f"seed {seed}, point {end}"


def heat_of_days(seed: int, days: int) -> list[tuple[float, float]]:
    """(Celsius, watts) of each point."""
    random = Random(seed)
    room, resistance = random.uniform(26, 36), random.uniform(0.04, 0.07)
    points: list[tuple[float, float]] = []
    celsius, power, left, neighbours = room, 70.0, 0, 0.0
    for at in range(days * POINTS_OF_DAY):
        if not left:
            left, power = random.randint(2, 150), random.choice((70, 250, 420, 580, 660))
            neighbours = random.uniform(0, 2)
        left -= 1
        watts = max(50.0, random.gauss(power, 0.02 * power))
        air = room + 3 * math.sin(2 * math.pi * at / POINTS_OF_DAY) + neighbours
        steady = air + resistance * watts
        celsius += 0.8 * (steady - celsius) + random.gauss(0, 0.4)
        points.append((celsius, watts))
    return points


@SEEDS
def test_on_healthy_days_nothing_is_hot(tens):
    compared = 0
    for seed in seeds(tens):
        points = heat_of_days(seed, 8)
        past = np.array(points[: 7 * POINTS_OF_DAY : heat.PAST_MS // POINT_MS]).round()
        celsius, watts = past.astype(np.int16).T
        today = points[7 * POINTS_OF_DAY :]
        shown = [
            HeatPoint(
                at_ms=at * POINT_MS,
                celsius=degrees,
                watts=power,
                above=degrees_above(degrees, power, celsius, watts),
            )
            for at, (degrees, power) in enumerate(today)
        ]
        judged = [
            judged_heat(shown[end - heat.RECENT_POINTS : end])
            for end in range(heat.RECENT_POINTS, POINTS_OF_DAY + 1)
        ]
        evidence = [one.evidence for one in judged]
        assert TrendEvidence.FOUND not in evidence, f"seed {seed}"
        compared += evidence.count(TrendEvidence.ABSENT)
    assert compared > 0.6 * len(seeds(tens)) * (POINTS_OF_DAY - heat.RECENT_POINTS)


@SEEDS
def test_on_healthy_days_no_link_repeats_much(tens):
    for seed in seeds(tens):
        random = Random(seed)
        an_hour, count, points = random.choice((0, 0, 2, 20, 60)), random.randint(0, 90_000), []
        for at in range(POINTS_OF_DAY):
            if random.random() < 0.005:
                count = 0  # the driver was loaded anew
            count += sum(random.random() < an_hour / 12 / 20 for _ in range(20))
            points.append(ReplayPoint(at_ms=at * POINT_MS, count=count))
            judged = judged_replays(points[-13:])
            assert judged.evidence is not TrendEvidence.FOUND, f"seed {seed}, point {at}"


def gang_of_a_day(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clock in MHz, use in per cent, throttled part; shape (members, points) each."""
    random = np.random.default_rng(seed)
    members = int(random.integers(2, 33))
    shape = (members, POINTS_OF_DAY)
    board = random.uniform(0.96, 1.0, (members, 1))
    day = random.uniform(0.9, 1.0, POINTS_OF_DAY)
    sm_mhz = 1_980 * board * day + random.normal(0, 12, shape)
    percent = np.full(shape, 99.0)
    if random.random() < 0.5:  # a pipeline: stages are idle in turn, and lower their clocks
        idle = random.random(shape) < 0.3
        percent[idle], sm_mhz[idle] = random.uniform(0, 60), 1_300
    throttled = np.where(random.random(shape) < 0.05, 0.4, 0.0)
    if random.random() < 0.3:  # a hot hour of the whole rack
        hour = slice(start := int(random.integers(0, 270)), start + 12)
        throttled[:, hour], sm_mhz[:, hour] = 1, sm_mhz[:, hour] * 0.7
    gone = random.random(shape) < 0.01
    percent[gone], sm_mhz[gone], throttled[gone] = UNTOLD, UNTOLD, 0
    return sm_mhz, percent, throttled


@SEEDS
def test_on_healthy_days_nothing_straggles(tens):
    for seed in seeds(tens):
        sm_mhz, percent, throttled = gang_of_a_day(seed)
        for at in range(POINTS_OF_DAY - POINTS + 1):
            span = slice(at, at + POINTS)
            judged = judged_gang(
                0, sm_mhz=sm_mhz[:, span], percent=percent[:, span], throttled=throttled[:, span]
            )
            found = [one.evidence for one in judged]
            assert TrendEvidence.FOUND not in found, f"seed {seed}, point {at}"
