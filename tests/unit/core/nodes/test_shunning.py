"""Who speaks against a node on which nothing starts, when that is enough, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.decision import Reason, Refusal
from shared.core.model.nouns import Placement
from shared.core.model.taints import SHUNNED
from shared.core.nodes.shunning import (
    REMEMBERED_MAX,
    ShunPolicy,
    Suspicion,
    Witness,
    accused,
    confirmed,
    guilty,
    nodes_max,
    seconds_of,
    shunned,
)
from shared.core.placement.place import place
from tests.support.placing import cluster, node, pods, request, whole, workload

POLICY = ShunPolicy(seconds=60, seconds_max=600)


def told(*witnesses: str, one: Suspicion | None = None) -> Suspicion:
    """Witnesses as `workload/voice`, one after the other."""
    found = one or Suspicion(node="n")
    for each in witnesses:
        name, _, voice = each.partition("/")
        found = accused(found, Witness(workload_id=name, voice=voice))
    return found


def test_one_workload_shuns_no_node_however_often_it_did_not_start_there():
    assert not guilty(told("w1/red", "w1/red", "w1/red"))


def test_a_sweep_with_a_broken_image_speaks_as_one():
    assert not guilty(told(*(f"w{number}/red broken:1" for number in range(30))))


def test_only_the_last_witnesses_are_kept():
    known = told(*(f"w{number}/red" for number in range(REMEMBERED_MAX + 1)))

    assert ["w1", "w16"] == [one.workload_id for one in (known.witnesses[0], known.witnesses[-1])]


def test_two_teams_or_two_images_are_two_witnesses():
    assert guilty(told("w1/red a", "w2/blue a"))
    assert guilty(told("w1/red a", "w2/red b"))


def test_who_started_elsewhere_speaks_for_itself():
    alike = told("w1/red", "w2/red")

    assert guilty(confirmed(alike, "w1"))
    assert guilty(confirmed(confirmed(alike, "w1"), "w2"))
    assert not guilty(confirmed(alike, "w3"))


def test_once_shunned_one_new_witness_is_enough_and_an_old_one_is_not():
    known = shunned(told("w1/red", "w2/blue"), POLICY, 1_000)

    assert (1, 61_000, ()) == (known.rounds, known.until_ms, known.witnesses)
    assert not guilty(known)
    assert not guilty(told("w3/red", one=known))
    assert guilty(told("w3/green", one=known))
    assert guilty(confirmed(told("w3/red", one=known), "w3"))


def test_the_time_doubles_up_to_a_longest():
    assert [60, 120, 240, 480, 600, 600] == [seconds_of(one, POLICY) for one in range(6)]
    assert 600 == seconds_of(10_000, POLICY)


@pytest.mark.parametrize(
    ("nodes", "percent", "most"), [(1, 25, 0), (2, 25, 1), (7, 25, 1), (100, 25, 25), (4, 100, 3)]
)
def test_a_part_of_a_flavor_is_shunned_at_most_and_never_all(nodes: int, percent: int, most: int):
    assert most == nodes_max(nodes, ShunPolicy(percent_max=percent))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.booleans()), max_size=80))
def test_what_is_remembered_is_bounded(story: list[tuple[int, int, bool]]):
    known = Suspicion(node="n")
    for name, voice, closes in story:
        known = told(f"w{name}/v{voice}", one=known)
        known = shunned(known, POLICY, 0) if closes and guilty(known) else known

    assert len(known.witnesses) <= REMEMBERED_MAX
    assert len(known.heard) <= REMEMBERED_MAX
    assert len({one.workload_id for one in known.witnesses}) == len(known.witnesses)


# ── how the search sees it, and what is told of it ──


def test_a_shunned_node_takes_nothing_and_a_free_one_does():
    fleet = cluster(node("a", taints=(SHUNNED,)), node("b"))

    answer = place(fleet, request(workload(pods(whole(1)))))

    assert isinstance(answer, Placement)
    assert "b" == answer.pods[0].node


def test_who_waits_for_shunned_nodes_alone_is_told_how_many_they_are():
    fleet = cluster(node("a", taints=(SHUNNED,)), node("b", taints=(SHUNNED,)))

    answer = place(fleet, request(workload(pods(whole(1)))))

    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.NODES_UNHEALTHY
    assert "2 in quarantine, as nothing started there lately or no" in answer.message
    assert "muster nodes" in answer.next_step
    assert 2 == answer.evidence["nodes_excluded_shunned"]


@pytest.mark.parametrize(("count", "gpus"), [(1, 9), (4, 8)])
def test_who_finds_too_little_room_is_told_of_shunned_nodes_beside(count: int, gpus: int):
    fleet = cluster(node("a", taints=(SHUNNED,)), node("b"), node("c"))

    answer = place(fleet, request(workload(pods(whole(gpus), count))))

    assert isinstance(answer, Refusal)
    assert answer.reason in (Reason.NO_CAPACITY, Reason.GANG_SHORT)
    assert answer.message.endswith(
        "1 node more is in quarantine, as nothing started there lately or no agent is heard."
    )
    assert 1 == answer.evidence["nodes_excluded_shunned"]
