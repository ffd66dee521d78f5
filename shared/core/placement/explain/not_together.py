"""Each pod set finds room, but not beside the others: which one is short, by how much, and where.

Sets of one shape count as one. The sets are filled in order (draft.py) into each flavor that has
room for every set alone; if the gang fits there, into the domains that come nearest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from shared.core.cluster.topology import levels_to_try
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Level
from shared.core.model.wording import listing, pod_needs
from shared.core.placement.explain.draft import Drafts
from shared.core.placement.explain.miss import name_of
from shared.core.placement.gang import is_in
from shared.core.placement.room import Place

FILLS_MAX: Final = 6
"""Domains that are filled on paper, times pod sets."""
FLAVORS_MAX: Final = 3
"""Flavors told of when no one has room for all sets."""

Fit = Sequence[int]
"""By pod set, for how many pods there is room."""


def joined(gang: Gang) -> Gang:
    """The gang with sets of one shape as one: they find room as one does."""
    sets: dict[Hashable, PodDemand] = {}
    for demand in gang.demands:
        first = sets.get(demand.shape)
        sets[demand.shape] = demand if first is None else _both(first, demand)
    return replace(gang, demands=tuple(sets.values()))


def _both(one: PodDemand, other: PodDemand) -> PodDemand:
    name = f"{one.pod_set}+{other.pod_set}"
    return replace(one, pod_set=name, count=one.count + other.count)


def no_one_flavor(gang: Gang, rooms: Mapping[str, Fit]) -> Refusal:
    """No flavor has room for every set alone; `rooms` are those of each flavor."""
    nearest = sorted(rooms, key=lambda flavor: (-sum(rooms[flavor]), flavor))[:FLAVORS_MAX]
    parts = [f"{flavor} has room for {_fits(gang, rooms[flavor])}" for flavor in nearest]
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Needs {sets_of(gang)} in one flavor, but no one has them all: "
        f"{'; '.join(parts)}.",
        next_step="Wait for room, or ask for pod sets that nodes of one flavor can hold.",
        evidence={"pods_needed": gang.pods, "pods_fit": sum(rooms[nearest[0]])},
    )


def short_beside_others(drafts: Drafts, flavors: Sequence[str]) -> Refusal | None:
    """Why no flavor holds the gang wherever its pods lie; None if one does, or it is not known."""
    gang = drafts.gang
    best: tuple[str, Fit] | None = None
    for flavor in flavors:
        fit = None if drafts.ample(flavor) else drafts.fill(flavor, None)
        if fit is None or sum(fit) == gang.pods:
            return None
        if best is None or sum(fit) > sum(best[1]):
            best = flavor, fit
    assert best is not None, "each set finds room in some flavor"
    short, missing = _short(gang, best[1])
    apart = ", each pod on a node of its own" if drafts.distinct else ""
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Needs {sets_of(gang)}{apart}; flavor {best[0]}, filled in this order, has room "
        f"for {_fits(gang, best[1])}.",
        next_step=f"Wait for room for {missing} more of {short}, or ask for fewer or smaller "
        "pods.",
        evidence=_evidence(gang, best[1], "pods_fit"),
    )


def short_in_domain(drafts: Drafts, flavors: Sequence[str], required: Level) -> Refusal | None:
    """Why no domain of the level holds the gang, by the best looked at; None if one should."""
    gang = drafts.gang
    by_flavor = [[(each, place) for place in _places(drafts, each, required)] for each in flavors]
    in_turns = [each for turn in zip_longest(*by_flavor) for each in turn if each is not None]
    places = in_turns[: max(FILLS_MAX // len(gang.demands), 1)]
    fits = [(drafts.fill(flavor, place), place) for flavor, place in places]
    known = [(fit, place) for fit, place in fits if fit is not None]
    if any(sum(fit) == gang.pods for fit, _ in known):
        return None
    if not known:
        return _only_alone(drafts, places, required)
    fit, place = max(known, key=lambda each: sum(each[0]))
    others = sum(
        drafts.index(each, gang.demands[0]).count_at_least(required, 1) for each in flavors
    )
    of = "" if others <= len(known) else f" of {len(known)} looked at"
    return Refusal(
        reason=Reason.TOPOLOGY,
        message=f"Needs {sets_of(gang)} in one {required.value}; the best{of}, "
        f"{name_of(place)}, filled in this order, has room for {_fits(gang, fit)}.",
        next_step="Wait for room there, allow a wider level of the fabric, or only prefer it.",
        evidence=_evidence(gang, fit, "best_domain_pods_fit"),
    )


def _only_alone(
    drafts: Drafts, places: Sequence[tuple[str, Place]], required: Level
) -> Refusal | None:
    """For gangs that are too large to be counted pod by pod, or in slices."""
    gang = drafts.gang
    if not places:
        return None
    flavor, place = places[0]
    alone = [drafts.index(flavor, demand).room(place) for demand in gang.demands]
    parts = [
        f"{room} of {demand.pod_set}" for room, demand in zip(alone, gang.demands, strict=True)
    ]
    return Refusal(
        reason=Reason.TOPOLOGY,
        message=f"Needs {sets_of(gang)} in one {required.value}; {name_of(place)} has room for "
        f"{' or '.join(parts)} alone, but not for all together.",
        next_step="Wait for room there, allow a wider level of the fabric, or only prefer it.",
        evidence={"pods_needed": gang.pods},
    )


def _places(drafts: Drafts, flavor: str, required: Level) -> list[Place]:
    """Places that come near, none within another: the fullest that have room for a whole set."""
    found: list[Place] = []
    for level in reversed(levels_to_try(required)):
        for place in _near(drafts, flavor, level):
            if not any(is_in(place, other) for other in found):
                found.append(place)
    return found


def _near(drafts: Drafts, flavor: str, level: Level) -> Iterator[Place]:
    for demand in drafts.gang.demands:
        index = drafts.index(flavor, demand)
        largest = index.largest(level)
        if largest is not None:
            yield largest[2]
        for _, _, place in index.at_least(level, demand.count, 1):
            yield place


def _short(gang: Gang, fit: Fit) -> tuple[str, int]:
    """The first set that is short, and of how many pods."""
    return next(
        (demand.pod_set, demand.count - room)
        for demand, room in zip(gang.demands, fit, strict=True)
        if room < demand.count
    )


def sets_of(gang: Gang) -> str:
    """Such as `2 x 8 free GPUs (worker) and 1 x 4 free GPUs (loader)`."""
    return listing(
        [f"{each.count} x {pod_needs(each, gang)} ({each.pod_set})" for each in gang.demands]
    )


def _fits(gang: Gang, fit: Fit) -> str:
    """Such as `2 of 2 worker and 0 of 1 loader`."""
    return listing(
        [
            f"{room} of {demand.count} {demand.pod_set}"
            for demand, room in zip(gang.demands, fit, strict=True)
        ]
    )


def _evidence(gang: Gang, fit: Fit, fits: str) -> dict[str, int]:
    return {"pods_needed": gang.pods, fits: sum(fit), "pods_short_of_set": _short(gang, fit)[1]}
