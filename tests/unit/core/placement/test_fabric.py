"""The tree of the fabric: the domains around a node, and the indexes of rooms that follow it."""

from __future__ import annotations

import pytest

from shared.core.cluster.node_state import Domain
from shared.core.cluster.topology import chain, levels_to_try, span_of
from shared.core.model.decision import Refusal
from shared.core.model.nouns import Level, Placement, Spread, TopologyRequest
from shared.core.placement.place import place
from shared.core.placement.room import INDEXES_MAX, RoomIndex
from tests.support.placing import cluster, node, placed, pods, racks, request, whole, workload

IN_RACK = TopologyRequest(required=Level.RACK)


def test_the_chain_of_a_node_runs_from_the_tightest_label_to_the_widest() -> None:
    fleet = cluster(node("n", zone="z", block="b", rack="r", nvlink_domain="v"))

    domains = list(chain(fleet.nodes["n"]))

    assert [(domain.level, domain.name) for domain in domains] == [
        (Level.NVLINK_DOMAIN, "v"),
        (Level.RACK, "r"),
        (Level.BLOCK, "b"),
        (Level.ZONE, "z"),
    ]
    assert [each.name for each in domains[-1].nodes()] == ["n"]


def test_equal_rack_names_in_two_zones_are_two_racks() -> None:
    fleet = cluster(node("a", rack="r", zone="z1"), node("b", rack="r", zone="z2"))

    assert span_of(fleet.nodes.values()) is None
    assert len([key for key in fleet.fabric.domains if key[0] is Level.RACK]) == 2


def test_a_domain_ends_with_its_last_node() -> None:
    fleet = cluster(node("a", rack="r", zone="z"), node("b", zone="z"))

    fleet.put_node(node("a", zone="z"))
    assert [level for level, _ in fleet.fabric.domains] == [Level.ZONE]

    fleet.remove_node("a")
    fleet.remove_node("b")
    assert not fleet.fabric.domains


def test_a_node_that_moved_is_in_its_new_rack_only() -> None:
    fleet = cluster(node("a", rack="r1"), node("b", rack="r1"))

    fleet.put_node(node("a", rack="r2"))

    racks_now = {
        domain.name: [each.name for each in domain.nodes()]
        for domain in fleet.fabric.domains.values()
    }
    assert racks_now == {"r1": ["b"], "r2": ["a"]}


def test_domains_of_equal_rank_are_told_apart_by_their_path() -> None:
    assert Domain(Level.RACK, ("a",), None, 1) < Domain(Level.RACK, ("b",), None, 1)


def test_levels_are_tried_up_to_the_required_one() -> None:
    assert levels_to_try(Level.RACK) == (Level.NODE, Level.NVLINK_DOMAIN, Level.RACK)
    assert levels_to_try(None)[-1] is Level.ZONE


def test_the_shapes_followed_are_bounded() -> None:
    fleet = cluster(*racks(2))
    for cpu_milli in range(1, INDEXES_MAX + 10):
        pair = pods(count=2, cpu_milli=cpu_milli)
        placed(fleet, workload(pair, topology=IN_RACK, spread=Spread.REQUIRED))

    assert len(fleet.rooms) == INDEXES_MAX


def test_a_very_long_history_starts_the_indexes_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.core.cluster.state.CHANGES_MAX", 20)
    fleet = cluster(*racks(4, 4))
    for _ in range(30):
        asked = workload(pods(whole(8), 2), topology=IN_RACK)
        answer = place(fleet, request(asked))
        assert isinstance(answer, Placement)
        fleet.release("red", answer.pods, asked.spec.pod_sets)

    assert len(fleet.changes) <= 20


def test_an_index_that_lags_behind_the_forgotten_changes_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.core.cluster.state.CHANGES_MAX", 8)
    fleet = cluster(*(node(f"n{at:02}", rack=f"r{at // 2}") for at in range(40)))
    gang = workload(pods(whole(4), 4), topology=TopologyRequest(required=Level.RACK))
    assert isinstance(place(fleet, request(gang)), Placement)

    for at in range(20):
        fleet.put_node(node(f"n{at:02}", rack=f"r{at // 2}", cordoned=True))
        answer = place(fleet, request(gang)) if at % 7 == 0 else None
        assert not isinstance(answer, Refusal)

    assert len(fleet.changes) <= 8
    for index in fleet.rooms.values():
        assert isinstance(index, RoomIndex)
        index.follow(fleet)
        anew = RoomIndex(index._node_classes, index._demand, index._team, distinct=index._distinct)
        anew.follow(fleet)
        assert (index._room, index._by_level, index.total) == (
            anew._room,
            anew._by_level,
            anew.total,
        )
