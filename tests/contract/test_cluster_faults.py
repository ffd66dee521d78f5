"""What may go wrong between the binder and a cluster, where a test can make it go wrong."""

import pytest

from shared.ports.cluster import UNKNOWN
from shared.ports.errors import Transient
from shared.simulator.faults import Faults
from tests.contract.cluster_worlds import SIMULATED, a_pod, create, watched


@pytest.fixture(params=SIMULATED)
async def world(request, tmp_path):
    async with request.param(tmp_path / "state") as world:
        yield world


async def test_an_operation_whose_answer_was_lost_is_unknown_though_it_happened(world):
    world.dice.faults = Faults(reply_lost=1.0)

    result = await world.one(create(a_pod()))

    assert (result.status, result.pod) == (UNKNOWN, None)
    assert list(await world.pods()) == ["w1-1-0"]


async def test_only_the_operations_whose_answers_were_lost_are_unknown(world):
    world.dice.faults = Faults(reply_lost=0.2)

    results = await world.cluster.apply([create(a_pod(f"w{n}-1-0")) for n in range(100)])
    statuses = [result.status for result in results]

    assert 5 <= statuses.count(UNKNOWN) <= 40
    assert statuses.count(201) == 100 - statuses.count(UNKNOWN)
    assert len(await world.pods()) == 100


@pytest.mark.parametrize(
    ("fault", "status"), [("conflict", 409), ("throttled", 429), ("broken", 500)]
)
async def test_a_refused_operation_did_not_happen(world, fault, status):
    world.dice.faults = Faults(**{fault: 1.0})

    result = await world.one(create(a_pod()))

    assert (result.status, result.pod) == (status, None)
    assert await world.pods() == {}


async def test_a_dropped_watch_raises_transient(world):
    world.dice.faults = Faults(watch_dropped=1.0)
    await world.one(create(a_pod()))

    with pytest.raises(Transient):
        await watched(world, 0, 2)
