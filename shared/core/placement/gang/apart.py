"""Pods that would rather be apart, where there are not nodes enough for one each.

As many different nodes as can be: of the places that hold the gang, the one where most nodes have
room for a pod of it; and there every node gets one before any gets a second. After that as well,
so that a node that fails takes few along, up to a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.topology import levels_to_try
from shared.core.model.nouns import Level, Spread
from shared.core.placement.gang.places import PLACES_MAX, Trial, index_of, needed, places
from shared.core.placement.room import Place, RoomIndex

ROUNDS_MAX: Final = 8
"""Pods that a node gets of a gang one by one; what is left then is packed."""


def taken(held: Callable[[], Iterable[NodeState]]) -> Iterator[set[NodeState] | None]:
    """Nodes that have a pod of those held when asked, then those that have two, and so on.

    The last answer is None: no node is passed over for the pods that it has.
    """
    for most in range(1, ROUNDS_MAX + 1):
        yield {node for node, pods in Counter(held()).items() if pods >= most}
    yield None


def most_apart(trial: Trial) -> list[Place | None]:
    """Places that may hold the gang, those first in which it would lie on most nodes.

    None is the whole fleet: a level that is only preferred is left before two share a node.
    Exact for pods of one shape; of several, that with most nodes to choose from speaks for all.
    """
    gang = trial.layout.gang
    found: dict[Place | None, int] = {}
    for level in levels_to_try(gang.topology.required):
        for place, nodes in _at_level(trial, level):
            found.setdefault(place, min(nodes, gang.pods))
    if gang.topology.required is None:
        found[None] = min(max(index.total for index in _nodes_with_room(trial)), gang.pods)
    # Equals stay in order: the tighter level, then as places are tried anyway.
    return sorted(found, key=lambda place: -found[place])[:PLACES_MAX]


def _at_level(trial: Trial, level: Level) -> Iterator[tuple[Place, int]]:
    """Places of `level` that come in question, with their nodes that have room for any pod."""
    found = dict.fromkeys(places(trial, level))
    needs, nodes = needed(trial, level), _nodes_with_room(trial)
    for index in nodes:
        found |= dict.fromkeys(place for _, _, place in index.roomiest(level, PLACES_MAX))
    for place in found:
        if all(index.room(place) >= pods for index, pods in needs):
            yield place, max(index.room(place) for index in nodes)


def _nodes_with_room(trial: Trial) -> list[RoomIndex]:
    """By pod set; each node counts once."""
    apart = replace(trial, spread=Spread.REQUIRED)
    return [
        index_of(apart, replace(demand, slices=()), node_classes)
        for demand, node_classes in zip(trial.layout.gang.demands, trial.node_classes, strict=True)
    ]
