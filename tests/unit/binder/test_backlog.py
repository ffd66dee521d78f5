"""More attempts than the cluster binds at once: none fails because it waits for its turn."""

import pytest

from services.binder import actuator, gangs
from services.binder.gang import BIND_DEADLINE_MS, BoundGang
from tests.unit.binder.world import bind, evict

ATTEMPTS = 12


@pytest.fixture
async def busy(world, monkeypatch):
    """A request carries two operations and takes a third of the time an attempt has."""
    monkeypatch.setattr(actuator, "OPERATIONS_PER_REQUEST", 2)
    apply = world.cluster.apply
    world.requests = []

    async def slowly(operations):
        results = await apply(operations)
        world.clock.ms += BIND_DEADLINE_MS // 3
        world.requests.append([(one.verb, one.name) for one in operations])
        return results

    monkeypatch.setattr(world.cluster, "apply", slowly)
    return world


def names(world, verb):
    return [name for request in world.requests for one, name in request if one == verb]


async def test_the_time_to_bind_counts_from_the_first_request(busy):
    await busy.send(*(bind(f"w{number}") for number in range(ATTEMPTS)))
    await busy.advance(1)

    assert {type(fact).__name__ for fact in busy.facts} == {"PodsRunning"}
    assert len(names(busy, "create")) == len(busy.facts) == ATTEMPTS
    assert names(busy, "delete") == []


async def test_what_was_created_is_bound_before_more_is_created(busy):
    await busy.send(*(bind(f"w{number}") for number in range(4)))

    created = [["create"] * 2, ["bind"] * 2] * 2
    assert [[verb for verb, _ in request] for request in busy.requests] == created


async def test_an_eviction_does_not_wait_behind_the_backlog(busy):
    await busy.send(bind("w0"))
    busy.requests.clear()

    attempts = [bind(f"w{number}") for number in range(1, ATTEMPTS)]
    await busy.send(*attempts, evict("w0"))

    assert ("delete", "w0-1-0") in busy.requests[0]


async def test_a_backlog_found_by_a_new_process_has_its_time_from_its_own_requests(busy):
    await busy.unit(
        [busy.message(bind(f"w{number}")) for number in range(ATTEMPTS)], kill="after commit"
    )
    await busy.start()
    await busy.advance(1)

    assert {type(fact).__name__ for fact in busy.facts} == {"PodsRunning"}
    assert len(busy.facts) == ATTEMPTS


def test_looks_are_bounded(monkeypatch):
    monkeypatch.setattr(gangs, "LOOKS_MAX", 3)
    looks = gangs.Gangs(())
    for gang in _gangs(5):
        looks.look_at(gang)

    assert [len(looks.take()) for _ in range(3)] == [3, 2, 0]


def _gangs(count):
    return [BoundGang(workload_id=f"w{number}", attempt=1, size=1) for number in range(count)]
