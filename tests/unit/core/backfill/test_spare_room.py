"""Rooms for wide gangs and for brief work: which nodes are theirs, and who may begin there."""

from __future__ import annotations

import pytest

from shared.core.backfill.backfill import Backfill
from shared.core.backfill.promise import Waiter
from shared.core.backfill.spare_room import (
    BRIEF,
    BRIEF_MS,
    CHOSEN_FOR_MS,
    LATELY_MS,
    NODES_PER_BRIEF,
    PATIENCE_MS,
    WIDE,
    WIDE_MS,
    SpareRoom,
)
from shared.core.backfill.timeline import Timeline
from shared.core.model.decision import Refusal
from shared.core.model.demand import gang_of
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster
from tests.support.placement_driver import FLAVOR, a_node, a_workload

HOUR = 3_600_000


def a_room(hours, gpus=8):
    """Node `n1` is likely to be free in the first of so many hours, and so on."""
    cluster = Cluster()
    room = SpareRoom(cluster)
    for at, hour in enumerate(hours, 1):
        cluster.put_node(a_node(f"n{at}", gpus=gpus))
        if hour:
            room.begin(f"on-n{at}", [f"n{at}"], (0, hour * HOUR))
    return room


def nodes_of(room, pin):
    return {name for name, one in room.nodes.items() if one == pin}


@pytest.mark.parametrize(
    ("hours", "widest", "expected"),
    [
        ((0, 10, 20, 30), 16, {"n3", "n4"}),  # what is free first stays open
        ((0, 10, 20, 90), 16, {"n2", "n3"}),  # what is free too late is of no use
        ((0, 50, 60, 90), 16, {"n1", "n2"}),  # if not enough are in time, the first
        ((0, 10, 20, 30), 32, {"n3", "n4"}),  # never more than half
        ((0, 10, 20, 30), 9, {"n3", "n4"}),
        ((0, 10, 20, 30), 8, {"n4"}),
    ],
)
def test_the_wide_room_is_what_will_be_free_last_in_time(hours, widest, expected):
    room = a_room(hours)
    room.note_width(FLAVOR, 8, 0)
    room.note_width(FLAVOR, widest, 0)

    room.choose(0, (), ())

    assert expected == nodes_of(room, WIDE)


def test_without_gangs_there_is_no_wide_room_and_few_nodes_have_no_brief_one():
    room = a_room((0, 0, 0, 0))

    room.choose(0, (), ())

    assert {} == room.nodes


def test_nodes_promised_to_long_work_are_not_for_the_wide_room():
    room = a_room((0, 10, 20, 30))
    room.note_width(FLAVOR, 16, 0)

    room.choose(0, ("n4",), ("n4",))

    assert {"n2", "n3"} == nodes_of(room, WIDE)


def test_the_brief_room_stays_where_it_is_but_leaves_a_promised_node():
    room = a_room([0] * NODES_PER_BRIEF, gpus=1)
    room.begin("brief", ["n1"], (0, HOUR))
    room.finish("brief", ["n1"])
    room.choose(0, (), ())
    (first,) = nodes_of(room, BRIEF)
    room.begin("next", [first], (0, HOUR))

    room.choose(CHOSEN_FOR_MS, (), ())
    assert {first} == nodes_of(room, BRIEF)

    room.choose(2 * CHOSEN_FOR_MS, (first,), ())
    (second,) = nodes_of(room, BRIEF)
    assert first != second


@pytest.mark.parametrize(
    ("lengths_ms", "age_ms", "kept"),
    [
        ((), 0, False),
        ((BRIEF_MS, None), 0, False),  # longer, or without an end
        ((BRIEF_MS - 1,), LATELY_MS - 1, True),
        ((BRIEF_MS - 1,), LATELY_MS, False),
        ((BRIEF_MS - 1, None), 0, True),
    ],
)
def test_there_is_a_brief_room_only_where_brief_work_began_of_late(lengths_ms, age_ms, kept):
    room = a_room([0] * (NODES_PER_BRIEF + 1), gpus=1)
    for number, length_ms in enumerate(lengths_ms):
        room.begin(f"w{number}", ["n1", "gone"], (0, length_ms))

    room.choose(age_ms, (), ())

    assert kept == bool(nodes_of(room, BRIEF))


def test_who_asks_too_soon_is_told_when_to_ask_again():
    room = a_room((0, 0))
    room.note_width(FLAVOR, 8, 0)
    room.choose(0, (), ())
    before = dict(room.nodes)
    room.begin("long", before, (0, 2 * WIDE_MS))

    room.choose(CHOSEN_FOR_MS - 1, (), ())
    assert (before, CHOSEN_FOR_MS) == (room.nodes, room.due_ms)

    room.choose(CHOSEN_FOR_MS, (), ())
    assert before.keys().isdisjoint(room.nodes)
    assert room.due_ms is None


@pytest.mark.parametrize(
    ("gpus", "length_ms", "waited_ms", "expected"),
    [
        (1, BRIEF_MS - 1, 0, (WIDE, BRIEF)),
        (1, BRIEF_MS, 0, (WIDE,)),
        (1, WIDE_MS - 1, 0, (WIDE,)),
        (1, WIDE_MS, 0, ()),
        (1, WIDE_MS, PATIENCE_MS + 1, (WIDE,)),
        (1, None, 0, (WIDE,)),
        (16, WIDE_MS, 0, ()),
        (17, WIDE_MS, 0, (WIDE,)),  # only two nodes are outside
        (33, WIDE_MS, 0, (WIDE, BRIEF)),
    ],
)
def test_who_may_begin_in_which_room(gpus, length_ms, waited_ms, expected):
    room = a_room((0, 0, 0, 0))
    room.note_width(FLAVOR, 16, 0)
    room.choose(0, (), ())

    assert expected == room.open_to((FLAVOR,), gpus, length_ms, waited_ms)


def test_long_work_is_kept_out_of_the_room_also_while_nobody_waits():
    room = a_room((0, 0))
    room.note_width(FLAVOR, 8, 0)
    cluster = room._cluster
    backfill = Backfill(cluster, Timeline(), room)
    workload = a_workload("long", gpus=8, pod_count=1)

    def ask(pins):
        return place(
            cluster,
            PlacementRequest(
                workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED}, pins=pins
            ),
        )

    backfill.plan((), 0)
    (inside,) = room.nodes
    other = ask(())
    assert inside not in {pod.node for pod in other.pods}

    refused = ask(())
    assert isinstance(refused, Refusal)
    assert [] == backfill.keep_room(CHOSEN_FOR_MS)
    assert {inside: WIDE} == room.nodes
    assert isinstance(ask(()), Refusal)

    assert [inside] == backfill.keep_room(LATELY_MS)
    assert inside in {pod.node for pod in ask(()).pods}


def test_the_room_is_as_wide_as_the_widest_gang_of_late():
    room = a_room((0, 0, 0, 0), gpus=1)
    for at_ms, gpus in ((0, 2), (CHOSEN_FOR_MS, 1), (2 * CHOSEN_FOR_MS, 1)):
        room.note_width(FLAVOR, gpus, at_ms)
    widths = {}

    for now_ms in (LATELY_MS - 1, LATELY_MS + CHOSEN_FOR_MS, 2 * LATELY_MS):
        room.keep(now_ms)
        widths[now_ms] = len(nodes_of(room, WIDE))

    assert [2, 1, 0] == list(widths.values())


def test_while_nobody_waits_nobody_is_to_be_told_when_to_choose_again():
    room = a_room((0, 0))
    room.note_width(FLAVOR, 8, 0)
    room.choose(0, (), ())
    room.choose(1, (), ())
    assert CHOSEN_FOR_MS == room.due_ms

    assert not room.keep(2)

    assert room.due_ms is None


def test_a_promise_to_long_work_is_on_nodes_outside_the_room():
    room = a_room((0, 1, 2, 3))
    room.note_width(FLAVOR, 16, 0)
    timeline = Timeline()
    for hour in (1, 2, 3):
        timeline.begin(f"on-n{hour + 1}", [f"n{hour + 1}"], (0, hour * HOUR))
    backfill = Backfill(room._cluster, timeline, room)
    gang = gang_of(a_workload("gang", gpus=8, pod_count=2))

    waiter = Waiter(
        workload_id="gang", gang=gang, flavors=(FLAVOR,), length_ms=2 * WIDE_MS, rooms=()
    )
    backfill.plan((waiter,), 0)

    assert {"n1", "n2"} == set(backfill.promises["gang"].nodes)


def test_where_long_work_will_begin_the_wide_room_is_no_more():
    room = a_room((0, 0, 2, 3))
    room.note_width(FLAVOR, 16, 0)
    timeline = Timeline()
    for at in (1, 2, 3, 4):
        timeline.begin(f"on-n{at}", [f"n{at}"], (0, at * HOUR))
    backfill = Backfill(room._cluster, timeline, room)
    gang = gang_of(a_workload("gang", gpus=8, pod_count=2))
    waiter = Waiter(
        workload_id="gang", gang=gang, flavors=(FLAVOR,), length_ms=2 * WIDE_MS, rooms=()
    )
    backfill.plan((waiter,), 0)
    assert {"n1", "n2"} == set(backfill.promises["gang"].nodes)
    for at, hours in ((1, 10), (2, 20)):
        room.begin(f"likely-on-n{at}", [f"n{at}"], (0, hours * HOUR))

    backfill.plan((waiter,), CHOSEN_FOR_MS)

    assert {"n3", "n4"} == nodes_of(room, WIDE), "although n1 and n2 are likely to be free last"


def test_a_node_without_gpus_is_in_no_room():
    room = a_room((0, 1))
    room._cluster.put_node(a_node("cpu", gpus=0))
    room.begin("on-cpu", ["cpu"], (0, 2 * HOUR))
    room.note_width(FLAVOR, 8, 0)

    room.choose(0, (), ())

    assert {"n2": WIDE} == room.nodes
