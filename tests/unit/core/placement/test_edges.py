"""Edges of the placement core that random clusters seldom reach: bounds, and what has gone."""

from __future__ import annotations

import dataclasses

import pytest

from shared.core.backfill.timeline import NEVER, Timeline, expected_end
from shared.core.cluster import node_links
from shared.core.cluster.node_links import LinkTable
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import gang_of
from shared.core.model.nouns import (
    Level,
    Placement,
    Slice,
)
from shared.core.model.team_policy import AtLimit
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.core.placement.room import room_index
from shared.core.queueing.nomination.flavor_choice import FlavorChoice, FlavorKind
from shared.core.queueing.nomination.nomination_cycle import TURN_MAX
from shared.core.quota.budget import Restriction
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from shared.core.scoring import equivalence_classes
from tests.support.placing import (
    cluster,
    mig,
    node,
    placed,
    pods,
    refused,
    request,
    whole,
    workload,
)
from tests.unit.admission.builders import a_node, rules
from tests.unit.quota.builders import Desk, a_pending, a_queue


def test_a_pin_of_a_node_that_is_gone_holds_when_it_comes_back() -> None:
    """Work still lies on it, so it is remembered."""
    fleet = cluster(node("n", gpus=2))
    placed(fleet, workload(pods(whole(1))))
    fleet.remove_node("n")

    fleet.pin("n", 2)
    fleet.put_node(node("n", gpus=2))

    assert isinstance(place(fleet, request(workload(pods(whole(1))))), Refusal)
    asked = request(workload(pods(whole(1))))
    assert isinstance(place(fleet, dataclasses.replace(asked, pins=(2,))), Placement)


def test_the_links_of_a_machine_are_worked_out_again_when_too_much_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_links, "KNOWN_MAX", 2)
    table = LinkTable("1", (0, 0, 1, 1))

    first = [table.best(0b1111, count) for count in (1, 2, 3)]

    assert len(table._best) == 1
    assert first == [table.best(0b1111, count) for count in (1, 2, 3)]


def test_the_order_of_domains_is_forgotten_when_there_were_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = cluster(*(node(f"n{at}", rack=f"r{at}", zone="z") for at in range(4)))
    learned = fleet.packing("a100")
    while not learned.mix.version:
        held = placed(fleet, one := workload(pods(whole(1))))
        fleet.release(one.team, held.pods, one.spec.pod_sets)
    monkeypatch.setattr(equivalence_classes, "DOMAINS_MAX", 0)

    fleet.put_node(node("more", rack="r1", zone="z"))
    placed(fleet, workload(pods(whole(1))))

    assert learned.index._ordered == {}


def test_many_instances_go_to_the_node_that_has_positions_for_all() -> None:
    """Both GPUs of the first node are looked at, and refused once for both."""
    fleet = cluster(
        node("small", gpus=2, mig=(0, 1)),
        node("large", gpus=3, mig=(0, 1, 2)),
    )

    found = placed(fleet, workload(pods(mig("7g.80gb", 3))))

    assert [pod.node for pod in found.pods] == ["large"]


def test_of_two_flavors_without_room_for_a_slice_the_first_is_told() -> None:
    fleet = cluster(
        *(node(f"{flavor}{at}", gpus=4, flavor=flavor, rack=f"{flavor}{at}", zone="z")
          for flavor in ("a100", "h100") for at in range(3))
    )  # fmt: skip
    sliced = workload(replace(pods(whole(2), 6), slices=(Slice(pods=3, level=Level.RACK),)))

    refusal = refused(fleet, sliced, "a100", "h100")

    assert refusal.reason is Reason.TOPOLOGY
    assert refusal.message == refused(fleet, sliced, "a100").message


def test_of_two_sets_of_pods_the_one_without_room_for_its_slices_is_told() -> None:
    fleet = cluster(*(node(f"n{at}", gpus=4, rack=f"r{at}", zone="z") for at in range(3)))
    fits = replace(pods(whole(2), 2, name="fits"), slices=(Slice(pods=2, level=Level.RACK),))
    not_so = replace(pods(whole(2), 3, name="not-so"), slices=(Slice(pods=3, level=Level.RACK),))

    refusal = refused(fleet, workload(fits, not_so))

    assert refusal.reason is Reason.TOPOLOGY
    assert "3 pods" in refusal.message


def test_room_for_slices_follows_the_nodes_of_a_domain_one_by_one() -> None:
    fleet = cluster(*(node(f"n{at}", gpus=2, rack="r", zone="z") for at in range(2)))
    asked = replace(pods(whole(1), 2), slices=(Slice(pods=2, level=Level.RACK),))
    (demand,) = gang_of(workload(asked)).demands
    kinds = tuple(fleet.node_classes.values())

    def room() -> int:
        index = room_index(fleet, kinds, demand, "red", distinct=False)
        return index.room(next(iter(fleet.fabric.domains.values())))

    rooms = []
    for _ in range(4):
        rooms.append(room())
        placed(fleet, workload(pods(whole(1))))
    rooms.append(room())

    assert rooms == [4, 2, 2, 0, 0]


def test_what_never_ends_is_free_never_and_what_is_not_used_is_free_now() -> None:
    timeline = Timeline()
    timeline.begin("w", ["n"], (0, None))

    assert expected_end((0, None), 7) == NEVER
    assert timeline.free_at("n", 7) == NEVER
    assert timeline.free_at("m", 7) == 7
    assert list(timeline.walk(["n", "m"], 7, {})) == [(7, "m")]
    assert list(timeline.walk(["n", "m"], 7, {"m": 9})) == [(9, "m")]
    assert list(timeline.walk(["n", "m"], 7, {"m": NEVER})) == []


def test_the_end_of_one_who_was_busy_comes_before_what_is_free_later() -> None:
    timeline = Timeline()
    timeline.begin("w", ["late"], (0, 100))

    order = list(timeline.walk(["late", "busy"], 7, {"busy": 50}))

    assert order == [(50, "busy"), (100, "late")]


def test_a_budget_concerns_the_queues_of_its_team_alone() -> None:
    desk = Desk(a_queue("q", team="red"), a_queue("r", team="blue"))
    desk.queue(a_pending("w", queue="q"), a_pending("v", queue="r"))
    spent = Refusal(reason=Reason.BUDGET_SPENT, message="spent", next_step="wait")

    desk.core.restrict("red", Restriction(AtLimit.STOP, spent))

    assert desk.settle() == ["-w", "?w:BudgetSpent"]


def test_a_budget_takes_back_only_what_differs_by_it() -> None:
    desk = Desk(a_queue("q", flavors={"spot": 8}, team="red"))
    desk.core.apply_flavor("spot", FlavorKind(("H100",), spot=True))
    desk.queue(a_pending("w", choice=FlavorChoice(interruptible=True)))
    spent = Refusal(reason=Reason.BUDGET_SPENT, message="spent", next_step="wait")

    desk.core.restrict("red", Restriction(AtLimit.SPOT, spent))
    assert desk.settle() == []

    desk.core.restrict("red", Restriction(AtLimit.NOMINAL, spent))
    assert desk.settle() == ["-w", "+w"]


def test_a_budget_takes_nothing_back_from_who_could_borrow_nothing_before() -> None:
    desk = Desk(a_queue("q", team="red"))
    desk.queue(a_pending("w", choice=FlavorChoice(evictable=False)))
    spent = Refusal(reason=Reason.BUDGET_SPENT, message="spent", next_step="wait")

    desk.core.restrict("red", Restriction(AtLimit.NOMINAL, spent))

    assert desk.settle() == []


def test_a_thousand_queues_that_open_at_once_do_not_open_more_than_the_window() -> None:
    names = [f"q{number}" for number in range(TURN_MAX + 1)]
    desk = Desk(*(a_queue(name, held=True) for name in names), open_max=TURN_MAX, open_each=0)
    desk.queue(*(a_pending(f"w-{name}", queue=name) for name in names))

    for name in names:
        desk.core.apply(a_queue(name, version=2))
    desk.core.settle()

    assert desk.core.open == TURN_MAX


def test_admission_keeps_what_is_in_force_when_quota_refuses_a_document() -> None:
    made = rules(nodes=[a_node()])
    before = dict(made.queues)
    limits = {"h100": FlavorLimits(nominal=(-1, 0, 0))}

    made.apply_quota(QuotaDocument(name="new", kind="queue", version=1, flavors=limits))

    assert made.queues == before
