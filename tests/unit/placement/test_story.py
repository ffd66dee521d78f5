"""Random histories: after every batch the memory agrees with itself, and twins with each other.

`Driver.take` checks after each batch: charged = placed = used, versions without a gap, allowed
transitions only, nothing after the end, no event id twice.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from shared.core.model.amounts import amount, fits
from shared.core.model.decision import Refusal
from shared.core.model.lifecycle import State
from shared.core.placement.place import PlacementRequest, place
from shared.core.quota.tree import NOTHING
from shared.events.plans import EvictionPlanAccepted, ReservationExpired
from shared.events.workloads import WorkloadPlaced
from tests.support.placement_driver import Driver
from tests.support.placement_story import Story

BATCHES = 25


def tell(random, batches=BATCHES, *, calm=False, twin=None):
    """A driver after a whole story; a twin is given the same batches."""
    story, driver = Story(random, calm=calm), Driver()
    for _ in range(batches):
        payloads = story.batch(driver)
        seconds = story.seconds()
        for one in (driver, twin) if twin else (driver,):
            one.send(*payloads)
            _quota_was_kept(one)
            _who_rests_finds_no_room(one)
            one.wait(seconds)
            _quota_was_kept(one)
            _who_rests_finds_no_room(one)
    return driver


def _quota_was_kept(driver):
    """What was placed in the last batch fits all limits on its path, as far as they count it."""
    tree = driver.handler.state.usage.tree
    for emit in driver.outcome.emits:
        if isinstance(emit.payload, WorkloadPlaced):
            flavor, charge = emit.payload.placement.flavor, emit.payload.placement.charge
            for name in tree.charge(emit.payload.queue, flavor, amount(charge), -1):
                tree.charge(emit.payload.queue, flavor, amount(charge))
                node = tree.node(name)
                assert fits(_asked(charge, node.charged(flavor)), NOTHING, _ceiling(node, flavor))
                tree.charge(emit.payload.queue, flavor, amount(charge), -1)
            tree.charge(emit.payload.queue, flavor, amount(charge))


def _who_rests_finds_no_room(driver):
    """Whatever became free has woken everybody whom it helps."""
    state, cycle = driver.handler.state, driver.handler.cell.cycle
    for record, _ in cycle.refused():
        if state.reservations.of(record.workload.id) is not None:
            continue  # of a strict queue: it waits for its own room, and the others behind it
        headroom = state.headroom.of(record)
        yields = state.queue_order.yields_to(record, state.promises.standing)
        request = PlacementRequest(
            workload=record.sized,
            flavors=tuple(headroom),
            headroom=headroom,
            pins=state.promises.pins_for(record, state.unit.now_ms, yields),
        )
        assert isinstance(place(state.cluster, request), Refusal), record.workload.id


def _asked(charge, charged):
    """What is charged, where it was asked for: others may have more than a quota that fell."""
    gpu, cpu, memory = (
        taken if asked else 0 for asked, taken in zip(amount(charge), charged, strict=True)
    )
    return gpu, cpu, memory


def _ceiling(node, flavor):
    return node.limits_in(flavor).ceiling


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.booleans())
def test_no_history_breaks_what_must_always_hold(random, calm):
    tell(random, calm=calm)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_two_handlers_fed_the_same_say_the_same_byte_by_byte(random):
    twin = Driver()

    driver = tell(random, twin=twin)

    assert [_bytes(unit) for unit in driver.units] == [_bytes(unit) for unit in twin.units]


def _bytes(unit):
    rows = [(row.seq, row.event_id, row.headers, row.value) for row in unit.outbox]
    writes = [(write.sql, write.arguments, write.expect) for write in unit.writes]
    return rows, writes, [astuple(row) for row in unit.audits]


def test_the_stories_reach_every_state():
    reached = set()
    for seed in range(12):
        reached |= {after for _, after in tell(Random(seed), 60).rows}
        if len(reached) >= len(State) - 2:
            break

    assert {State.RECEIVED, State.REJECTED} == set(State) - reached


def test_the_stories_carry_out_plans_and_give_some_of_them_up():
    told: set[type] = set()
    reserved: set[str] = set()
    started: set[str] = set()
    moving: set[str] = set()
    moved: set[str] = set()
    for seed in range(200):
        if started and moved and ReservationExpired in told:
            break
        driver, story = Driver(), Story(Random(seed), calm=True)
        for _ in range(60):
            payloads = [*driver.send(*story.batch(driver)), *driver.wait(story.seconds())]
            told |= {type(one) for one in payloads}
            expired = {one.workload_id for one in payloads if isinstance(one, ReservationExpired)}
            placed = {one.workload_id for one in payloads if isinstance(one, WorkloadPlaced)}
            started |= reserved & placed - expired
            moved |= moving & placed - expired
            state = driver.handler.state
            found = [one for name in state.records.alive if (one := state.reservations.of(name))]
            reserved = {one.workload_id for one in found}
            moving = {one.workload_id for one in found if one.moves}

    assert {EvictionPlanAccepted, ReservationExpired} <= told
    assert started
    assert moved
