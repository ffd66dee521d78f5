"""Which sizes the owner of a gang may ask for."""

import pytest

from shared.core.model.nouns import (
    GpuRequest,
    Level,
    PodRole,
    PodSet,
    Slice,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.placement.resize import growth_rest_seconds, sized, sizes_of

LEADER = PodSet(name="leader", role=PodRole.LEADER)


def a_gang(*pod_sets):
    spec = WorkloadSpec(name="n", kind=WorkloadKind.TRAINING, pod_sets=pod_sets)
    return Workload(id="w", team="t", queue="q", cell=0, priority=0, spec=spec, submitted_at_ms=0)


def workers(count, min_count=None, name="worker", slices=()):
    gpu = GpuRequest(count=1)
    return PodSet(name=name, count=count, min_count=min_count, gpu=gpu, slices=slices)


@pytest.mark.parametrize(
    ("pod_sets", "expected"),
    [
        ([workers(4, 2)], (4, 3, 2)),
        ([LEADER, workers(4, 2)], (5, 4, 3)),
        ([workers(8, 4, slices=(Slice(level=Level.RACK, pods=2),))], (8, 6, 4)),
        ([workers(4)], (4,)),
        ([workers(4, 4)], (4,)),
        ([workers(4, 2, "a"), workers(4, 2, "b")], (8,)),
    ],
)
def test_one_elastic_pod_set_gives_the_sizes(pod_sets, expected):
    assert expected == sizes_of(a_gang(*pod_sets))


def test_a_size_is_that_of_the_elastic_set():
    gang = a_gang(LEADER, workers(4, 2))

    smaller = sized(gang, 3)

    assert [1, 2] == [one.count for one in smaller.spec.pod_sets]
    assert 3 == smaller.pods
    assert gang is sized(gang, 5)
    assert gang.pods == 5


@pytest.mark.parametrize(
    "gang", [a_gang(workers(4)), a_gang(workers(4, 2, "a"), workers(4, 2, "b"))]
)
def test_a_gang_that_is_not_elastic_in_one_way_stays_as_it_is(gang):
    assert gang is sized(gang, 2)


@pytest.mark.parametrize(
    ("kind", "restart_seconds", "rests"),
    [
        (WorkloadKind.TRAINING, 0, 60),
        (WorkloadKind.TRAINING, 90, 1_800),
        (WorkloadKind.TRAINING, 86_400, 3_600),
        (WorkloadKind.INFERENCE, 90, 0),
    ],
)
def test_training_rests_after_it_grew_by_what_meeting_anew_costs_it(kind, restart_seconds, rests):
    spec = WorkloadSpec(name="n", kind=kind, restart_seconds=restart_seconds)

    assert rests == growth_rest_seconds(spec)
