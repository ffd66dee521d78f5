"""What a kubelet tells of a pod's GPUs is a permutation within the node, or it is disputed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.kubernetes.takeover import APART, Device, Disputed, TakeoverResult, take_over

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def node(*uuids: str, certain: bool = True) -> list[Device]:
    return [
        Device(index=index, uuid=uuid, certain=certain and bool(uuid))
        for index, uuid in enumerate(uuids)
    ]


FOUR = node("u0", "u1", "u2", "u3")


def disputed(found: TakeoverResult | Disputed) -> tuple[tuple[int, ...], str]:
    assert isinstance(found, Disputed)
    return found.gpus, found.message


def test_where_the_ledger_is_right_nothing_moves_whatever_the_order():
    found = take_over(FOUR, {0: A, 1: A}, (), A, ("u1", "u0"))

    assert TakeoverResult(moves={}, learned={}) == found


def test_a_pod_gets_the_free_gpus_that_it_has():
    found = take_over(FOUR, {0: A, 1: A}, (), A, ("u1", "u3"))

    assert TakeoverResult(moves={A: {0: 3}}, learned={}) == found


def test_who_was_charged_them_gets_those_that_the_pod_does_not_have():
    found = take_over(FOUR, {0: A, 1: A, 2: B, 3: C}, (), A, ("u2", "u3"))

    assert TakeoverResult(moves={A: {0: 2, 1: 3}, B: {2: 0}, C: {3: 1}}, learned={}) == found


def test_whose_kubelet_has_told_is_not_moved_and_the_gpu_is_disputed():
    found = take_over(FOUR, {0: A, 1: B}, {1}, A, ("u1",))

    text = "its kubelet gave it GPU 1 (u1), which is somebody else's"
    assert ((1,), text) == disputed(found)


def test_a_gpu_that_is_cut_or_shared_is_nobody_s_to_exchange():
    gpus, text = disputed(take_over(FOUR, {0: A, 1: A, 2: APART, 3: APART}, (), A, ("u2", "u3")))

    assert ((2, 3), True) == (
        gpus,
        text.endswith("GPU 2 (u2) and GPU 3 (u3), which are somebody else's"),
    )


@pytest.mark.parametrize("told", [("u0",), ("u0", "u0"), ("u0", "u1", "u2"), ()])
def test_another_number_of_gpus_cannot_be_explained(told: tuple[str, ...]):
    gpus, text = disputed(take_over(FOUR, {0: A, 1: A}, (), A, told))

    assert (0, 1) == gpus
    assert text.endswith("by its kubelet and 2 by the ledger")


def test_a_gpu_that_the_inventory_does_not_have_is_disputed():
    found = take_over(FOUR, {0: A, 1: A}, (), A, ("u1", "new"))

    assert ((0,), "its kubelet gave it new, which the node does not have") == disputed(found)


def test_gpus_without_a_name_get_that_of_the_first_who_has_them():
    found = take_over(node("", "", ""), {0: B, 1: A}, (), A, ("u7",))

    assert TakeoverResult(moves={}, learned={1: "u7"}) == found


def test_a_name_of_whom_nothing_was_told_is_exchanged_and_nobody_moves():
    devices = node("u0", "", "u2", certain=False)

    of_free = take_over(devices, {0: A}, (), A, ("u2",))
    of_other = take_over(devices, {0: A, 2: B}, (), A, ("u2",))
    of_told = take_over(devices, {0: A, 2: B}, {2}, A, ("u2",))
    nameless = take_over(devices, {1: A}, (), A, ("u2",))

    assert TakeoverResult(moves={}, learned={0: "u2", 2: "u0"}) == of_free == of_other
    assert (2,) == disputed(of_told)[0]
    assert TakeoverResult(moves={}, learned={1: "u2", 2: ""}) == nameless


def test_beside_named_gpus_a_nameless_one_gets_the_new_name():
    devices = [*node("u0", "u1"), Device(index=2)]

    found = take_over(devices, {0: A, 2: A}, (), A, ("u1", "u9"))

    assert TakeoverResult(moves={A: {0: 1}}, learned={2: "u9"}) == found


def test_what_only_a_kubelet_named_gives_way_and_what_the_inventory_says_does_not():
    exchanged = take_over(node("u0", "u1", certain=False), {0: A, 1: B}, {1}, A, ("new",))
    certain = take_over(node("u0", "u1"), {0: A, 1: B}, {1}, A, ("new",))

    assert TakeoverResult(moves={}, learned={0: "new"}) == exchanged
    assert (0,) == disputed(certain)[0]


@given(st.data())
def test_reports_of_all_pods_in_any_order_end_in_what_the_kubelet_chose(data: st.DataObject):
    """Whatever the ledger chose, of named or nameless GPUs, and whoever is told of first."""
    size = data.draw(st.integers(1, 8))
    names = [f"u{index}" for index in range(size)]
    counts = data.draw(st.lists(st.integers(1, 3), max_size=4).filter(lambda x: sum(x) <= size))
    pods = [(f"w{number}", 0) for number in range(len(counts))]
    owners = [pod for pod, number in zip(pods, counts, strict=True) for _ in range(number)]
    places = data.draw(st.permutations(range(size)))
    truth = data.draw(st.permutations(names))
    held = dict(zip(places, owners, strict=False))
    really = {
        pod: tuple(uuid for uuid, owner in zip(truth, owners, strict=False) if owner == pod)
        for pod in pods
    }
    certain = data.draw(st.booleans())
    uuids = dict(enumerate(names if certain else [""] * size))
    confirmed: set[int] = set()
    for pod in data.draw(st.permutations(pods)):
        devices = [
            Device(index=index, uuid=uuid, certain=certain) for index, uuid in uuids.items()
        ]
        found = take_over(devices, held, confirmed, pod, really[pod])
        assert isinstance(found, TakeoverResult), found
        uuids |= found.learned
        new = {found.moves.get(key, {}).get(index, index): key for index, key in held.items()}
        assert len(new) == len(held)
        held = new
        confirmed |= {index for index, key in held.items() if key == pod}
    for pod in pods:
        has = sorted(uuids[index] for index, key in held.items() if key == pod)
        assert sorted(really[pod]) == has
