"""What is left of nodes that became freer, by four numbers."""

from __future__ import annotations

import pytest

from services.placement.cycle.freed_room import FEW, FreedRoom
from shared.core.model.nouns import GpuRequest
from tests.support import placing
from tests.support.placement_driver import FLAVOR, a_node, a_workload

SHARE = GpuRequest(milli=500, memory_mib=1_024)


@pytest.fixture
def cluster():
    """A node with 4 GPUs, and one with CPU alone."""
    return placing.cluster(a_node("n1", gpus=4, cpu_milli=8_000), a_node("n2", gpus=0))


@pytest.fixture
def freed(cluster):
    """Both nodes have become freer."""
    room = FreedRoom(cluster)
    room.add(("n1", "n2", "gone"))
    return room


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"gpus": 4}, ["n1"]),
        ({"gpus": 5}, []),
        ({"gpus": 1, "cpu_milli": 8_001}, []),
        ({"gpus": 1, "memory_mib": 1 << 30}, []),
        ({"gpu": SHARE}, ["n1"]),
        ({"gpu": GpuRequest()}, ["n1", "n2"]),
        ({"gpu": GpuRequest(mig_profile="1g.10gb", mig_count=1)}, ["n1", "n2"]),
    ],
)
def test_nodes_that_may_hold_one_pod(freed, asked, expected):
    assert expected == freed.nodes_for(freed.room_of(a_workload(**asked), (FLAVOR,)))
    assert [] == freed.nodes_for(freed.room_of(a_workload(**asked), ("other",)))


def test_what_was_placed_there_is_gone_until_more_comes_free(cluster, freed):
    two, one = (freed.room_of(a_workload(gpus=gpus), (FLAVOR,)) for gpus in (2, 1))
    assert ["n1"] == freed.nodes_for(two) == freed.nodes_for(one)

    placing.placed(cluster, a_workload("w1", gpus=3), FLAVOR)
    freed.taken(FLAVOR, {"n1", "n9"})
    freed.taken("other", {"n1"})

    assert [] == freed.nodes_for(two)
    assert ["n1"] == freed.nodes_for(one)
    cluster.put_node(a_node("n3"))
    freed.add(("n3",))
    assert ["n3"] == freed.nodes_for(two)


def test_any_number_of_nodes():
    names = [f"n{number}" for number in range(2 * FEW + 1)]
    room = FreedRoom(placing.cluster(*(a_node(name) for name in names)))
    room.add(names)

    assert names == room.nodes_for(room.room_of(a_workload(gpus=8), (FLAVOR,)))
    room.forget()
    assert [] == room.nodes_for(room.room_of(a_workload(gpus=8), (FLAVOR,)))
