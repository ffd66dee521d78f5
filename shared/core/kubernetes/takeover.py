"""Which GPUs of a node its pods really have, where the kubelet chose them (docs/adr/0074).

The ledger charged indexes before the kubelet chose. Where the inventory says which GPU an index
is, what the kubelet tells is a permutation within the node: the pod is charged the GPUs that it
has, and the pods that were charged those get the ones that the pod was charged and does not have.
Where it does not say so, an index is only a place in a count: then the GPUs get their names by the
pods that have them, and no pod moves. What a kubelet has confirmed is neither moved nor renamed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from shared.core.model.value import Value
from shared.core.model.wording import count, listing

Key = tuple[str, int]
"""A pod: its workload and rank."""
APART: Final[Key] = ("", -1)
"""Holder of a GPU that is cut or shared: no pod can be moved from there."""


class Device(Value, frozen=True, kw_only=True):
    """A GPU of the node. `certain`: its inventory names the UUID, no pod's kubelet did."""

    index: int
    uuid: str = ""
    certain: bool = False


class TakeoverResult(Value, frozen=True, kw_only=True):
    """What the report comes to."""

    moves: dict[Key, dict[int, int]]
    """By pod: which index it holds in place of which; empty where the ledger is right."""
    learned: dict[int, str]
    """New names by index; "" where a name turned out to be another's."""


class Disputed(Value, frozen=True, kw_only=True):
    """Nothing explains it: these GPUs take no new work."""

    gpus: tuple[int, ...]
    message: str


def take_over(
    devices: Sequence[Device],
    held: Mapping[int, Key],
    confirmed: Collection[int],
    pod: Key,
    told: Sequence[str],
) -> TakeoverResult | Disputed:
    """What follows from `told`, the UUIDs of `pod`, which holds whole GPUs. O(GPUs of the node).

    `held` has a key for each GPU that is held; `confirmed` are those of which a kubelet told that
    their holder has them.
    """
    mine = sorted(index for index, key in held.items() if key == pod)
    if len(set(told)) != len(mine):
        gpus = count(len(set(told)), "GPU")
        return Disputed(
            gpus=tuple(mine), message=f"it has {gpus} by its kubelet and {len(mine)} by the ledger"
        )
    by_uuid = {one.uuid: one for one in devices if one.uuid}
    elsewhere = [by_uuid[uuid] for uuid in told if uuid in by_uuid]
    elsewhere = [one for one in elsewhere if one.index not in mine]
    taken = [one for one in elsewhere if one.index in held and _stays(one, held, confirmed)]
    if taken:
        return _somebody_elses(taken)
    has = {by_uuid[uuid].index for uuid in told if uuid in by_uuid}
    there = {one.index: one for one in devices}
    places = [there.get(i, Device(index=i, certain=True)) for i in mine if i not in has]
    moves = [one for one in elsewhere if one.certain]
    names = [
        uuid for uuid in told if uuid not in by_uuid or _is_only_told(by_uuid[uuid], elsewhere)
    ]
    return _exchanged(devices, held, pod, (places, moves, names))


def _is_only_told(device: Device, elsewhere: Sequence[Device]) -> bool:
    """Whether it is one of others' by no more than what a kubelet told."""
    return device in elsewhere and not device.certain


def _stays(device: Device, held: Mapping[int, Key], confirmed: Collection[int]) -> bool:
    return device.index in confirmed or held[device.index] == APART


def _somebody_elses(taken: Sequence[Device]) -> Disputed:
    names = listing([f"GPU {one.index} ({one.uuid})" for one in taken])
    verb = "is" if len(taken) == 1 else "are"
    return Disputed(
        gpus=tuple(one.index for one in taken),
        message=f"its kubelet gave it {names}, which {verb} somebody else's",
    )


def _exchanged(
    devices: Sequence[Device],
    held: Mapping[int, Key],
    pod: Key,
    what: tuple[Sequence[Device], Sequence[Device], Sequence[str]],
) -> TakeoverResult | Disputed:
    """`what`: the pod's GPUs that it does not have, those that it moves to, names that it brings.

    Names go to places where the present one is not certain.
    """
    places, targets, names = what
    renamed = [one for one in places if not one.certain][: len(names)]
    if len(renamed) < len(names):
        text = f"its kubelet gave it {listing(names)}, which the node does not have"
        return Disputed(gpus=tuple(one.index for one in places), message=text)
    before = {one.uuid: one.index for one in devices if one.uuid}
    learned: dict[int, str] = {}
    for place, name in zip(renamed, names, strict=True):
        learned[place.index] = name
        if name in before:
            learned[before[name]] = place.uuid
    surplus = [one.index for one in places if one not in renamed]
    moves: dict[Key, dict[int, int]] = {}
    for index, target in zip(surplus, targets, strict=True):
        moves.setdefault(pod, {})[index] = target.index
        if target.index in held:
            moves.setdefault(held[target.index], {})[target.index] = index
    return TakeoverResult(moves=moves, learned=learned)
