"""Which size of an elastic gang is placed, and how few sizes are tried for it."""

from __future__ import annotations

from random import Random

import pytest

from shared.core.cluster.statement import Statement
from shared.core.model.demand import Gang, gang_of
from shared.core.model.nouns import Level, PodSet, TopologyRequest, Workload
from shared.core.model.units import UNLIMITED, Resources
from shared.core.model.value import replace
from shared.core.placement.gang import elastic
from shared.core.placement.gang.attempt import attempt
from shared.core.placement.gang.elastic import attempt_most, shrunk, smallest, spare_units
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, pods, racks, whole, workload

UNBOUNDED = Resources(gpu_milli=UNLIMITED, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)


def _set(name: str, count: int, least: int, gpus: int = 1) -> PodSet:
    return replace(pods(whole(gpus), count, cpu_milli=1000), name=name, min_count=least)


def _one_by_one(gang: Gang, units: int) -> list[int]:
    """The rule itself: each unit from the set with the most to spare then, the first of equals."""
    counts = [demand.count for demand in gang.demands]
    for _ in range(units):
        spare = [
            (count - demand.min_count) // demand.unit
            for count, demand in zip(counts, gang.demands, strict=True)
        ]
        most = spare.index(max(spare))
        counts[most] -= gang.demands[most].unit
    return counts


def _any_sets(draw: Random) -> tuple[PodSet, ...]:
    sizes = [(draw.randint(1, 60), draw.randint(1, 60)) for _ in range(draw.randint(1, 4))]
    return tuple(_set(f"s{at}", max(pair), min(pair)) for at, pair in enumerate(sizes))


@pytest.mark.parametrize("seed", range(20))
def test_units_are_taken_where_most_is_to_spare(seed: int) -> None:
    gang = gang_of(workload(*_any_sets(Random(seed))))

    for units in range(spare_units(gang) + 1):
        smaller = shrunk(gang, units)
        wanted = _one_by_one(gang, units)
        assert wanted == [demand.count for demand in smaller.demands]
        assert sum(wanted) == smaller.pods
    assert [each.min_count for each in gang.demands] == [
        each.count for each in smallest(gang).demands
    ]


def _any_workload(draw: Random) -> Workload:
    many = draw.randint(60, 150)
    sets = [_set("main", many, draw.randint(1, 40), draw.choice((1, 1, 2)))]
    if draw.random() < 0.5:
        sets.append(_set("other", draw.randint(1, 90), 1, draw.choice((1, 2))))
    within = draw.choice((None, None, Level.BLOCK, Level.ZONE))
    return workload(*sets, topology=TopologyRequest(required=within))


@pytest.mark.parametrize("seed", range(40))
def test_no_larger_size_fits(seed: int) -> None:
    draw = Random(seed)
    fleet = cluster(*racks(*(draw.randint(1, 4) for _ in range(4)), gpus=draw.randint(3, 8)))
    gang = gang_of(_any_workload(draw))
    headroom = replace(UNBOUNDED, gpu_milli=1000 * draw.choice((30, 100, 1000)))

    statement = attempt_most(fleet, gang, "a100", headroom)

    placed = None if statement is None else len(statement.pods)
    if statement is not None:
        statement.rollback()
    assert _largest(fleet, gang, headroom) == placed
    assert fleet.gpu_milli_used() == 0


def _largest(fleet: Cluster, gang: Gang, headroom: Resources) -> int | None:
    """Pods of the first size that fits, all tried one after the other."""
    for units in range(1, spare_units(gang) + 1):
        statement = attempt(fleet, shrunk(gang, units), "a100", headroom)
        if statement is not None:
            statement.rollback()
            return shrunk(gang, units).pods
    return None


def _noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes that are tried from now on, in pods."""
    tried = []

    def noted(fleet: Cluster, gang: Gang, flavor: str, headroom: Resources) -> Statement | None:
        tried.append(gang.pods)
        return attempt(fleet, gang, flavor, headroom)

    monkeypatch.setattr(elastic, "attempt", noted)
    return tried


def test_what_is_counted_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 pods, of which 120 find room: the least, and what counting says."""
    tried = _noted(monkeypatch)
    fleet = cluster(*racks(5, 5, 5))
    gang = gang_of(workload(_set("main", 1000, 4)))

    statement = attempt_most(fleet, gang, "a100", UNBOUNDED)

    assert statement is not None
    assert [4, 120] == tried
    assert len(statement.pods) == 120
    assert fleet.gpu_milli_used() == 120_000


def test_the_least_is_placed_where_counting_leaves_no_other_size() -> None:
    statement = attempt_most(
        cluster(*racks(5, 5, 5)), gang_of(workload(_set("main", 1000, 120))), "a100", UNBOUNDED
    )

    assert statement is not None
    assert len(statement.pods) == 120


def test_where_counting_is_not_the_answer_it_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's GPU is not in the count of the others."""
    tried = _noted(monkeypatch)
    gang = gang_of(workload(_set("main", 1000, 4), _set("chief", 1, 1)))

    statement = attempt_most(cluster(*racks(5, 5, 5)), gang, "a100", UNBOUNDED)

    assert statement is not None
    assert [5, 121, 119, 120] == tried
    assert len(statement.pods) == 120
