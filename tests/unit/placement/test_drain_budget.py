"""How much rules may still take out of service, also after a restart."""

from services.placement.nodes.drain_budget import DrainBudget
from services.placement.state.fleet import Fleet
from shared.core.health.breaker import HOUR_MS, BreakerLimits
from shared.core.health.device import DeviceHealth, DeviceState
from shared.events.nodes import NodeInventoryReported
from tests.support.placement_driver import a_node

NOW = 1_700_000_000_000
S = DeviceState


def a_budget(nodes=1, percent=10, *, acts=True):
    fleet = Fleet()
    for number in range(nodes):
        fleet.report(NodeInventoryReported(node=a_node(f"n{number}"), generation=1))
    return DrainBudget(fleet, BreakerLimits(percent_max=percent), acts=acts)


def device(gpu, state, since_ms=NOW, **more):
    return DeviceHealth(node="n0", gpu=gpu, state=state, since_ms=since_ms, **more)


NODE = a_node("n0")


def left(budget, now_ms=NOW):
    """How many GPUs may still be taken out, one by one."""
    taken = 0
    while budget.take(NODE, 1, now_ms):
        taken += 1
    return taken


def test_a_small_fleet_may_lose_eight_within_an_hour_and_a_large_one_a_tenth():
    assert left(a_budget()) == 8
    assert left(a_budget(nodes=20)) == 16
    assert left(a_budget(nodes=20, percent=50)) == 80
    assert left(a_budget(acts=False)) == 0


def test_what_was_taken_out_an_hour_ago_does_not_count():
    budget = a_budget()
    assert left(budget) == 8

    assert left(budget, NOW + HOUR_MS - 1) == 0
    assert left(budget, NOW + HOUR_MS) == 8


def test_a_restart_knows_what_was_taken_out_by_its_devices():
    budget = a_budget()
    budget.load(
        [
            device(0, S.DRAINING),
            device(1, S.QUARANTINED, quarantines_ms=(NOW - 2 * HOUR_MS, NOW - HOUR_MS)),
            device(2, S.LOST),
            device(3, S.FAILED, since_ms=NOW - 1),
            device(4, S.SUSPECT),
            device(5, S.PROBATION),
            device(-1, S.SUSPECT),
            DeviceHealth(node="gone", gpu=0, state=S.LOST, since_ms=NOW),
        ]
    )

    assert left(budget) == 5
