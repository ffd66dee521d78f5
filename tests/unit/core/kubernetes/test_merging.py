"""What an agent sees joins what the API server names: by UUID, links by the node's own indexes."""

from __future__ import annotations

import pytest

from shared.core.kubernetes.merging import UNLINKED, joined, links_of, problem_with_slices
from shared.core.kubernetes.observed import Observation, ObservedGpu
from shared.core.model.nouns import Gpu


def observation(*uuids: str, links: str = "") -> Observation:
    gpus = tuple(ObservedGpu(index=at, uuid=uuid, numa=at) for at, uuid in enumerate(uuids))
    return Observation(gpus=gpus, links=links)


def gpus(*uuids: str, indexes: tuple[int, ...] = (0, 1, 2)) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, uuid=uuid, memory_mib=1)
        for index, uuid in zip(indexes, uuids, strict=False)
    )


def test_fewer_gpus_than_the_slices_have_are_refused():
    problem = problem_with_slices(observation("a"), gpus("a", "b"))

    assert "gpus: 1 GPU, and the ResourceSlices of the node have 2" == problem
    assert "" == problem_with_slices(observation("b", "a"), gpus("a", "b"))


@pytest.mark.parametrize(
    ("seen", "indexes", "expected"),
    [
        (("a", "b", "c"), (0, 1, 2), "xyz"),
        (("c", "b", "a"), (0, 1, 2), "zyx"),
        (("a", "c", "b"), (0, 1, 2), "yxz"),
        (("a", "b", "c"), (0, 2, 3), UNLINKED + "xy" + UNLINKED * 2 + "z"),
    ],
)
def test_links_are_told_between_the_indexes_that_the_node_has(seen, indexes, expected):
    """The agent tells pairs (0, 1), (0, 2), (1, 2) in its own order."""
    found = links_of(gpus("a", "b", "c", indexes=indexes), observation(*seen, links="xyz"))

    assert expected == found


def test_one_character_stands_for_all_links_whatever_the_order():
    assert "N" == links_of(gpus("a", "b"), observation("b", "a", links="N"))


def test_both_must_call_a_gpu_healthy():
    sick = observation("a", "b")
    ours = (*gpus("a"), Gpu(index=1, uuid="b", memory_mib=1, healthy=False))

    assert [True, False] == [one.healthy for one in joined(ours, sick)]
