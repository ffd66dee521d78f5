"""Which nodes have image and weights already: of equal places a pod takes one that need not pull.

Agents report a bounded list of references for each node. What was found best stays the measure:
only places of the same score are looked at, a wholly free node is not broken for an image, and at
most `LOOKED_MAX` holders are asked, so the cost does not grow with the fleet. Without reports it
is one look-up. Weights, which are larger, go before the image. Source: kube-scheduler's plugin
ImageLocality, here below packing, not beside it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from shared.core.cluster.node_state import NodeState

LOOKED_MAX: Final = 64


class ImageIndex:
    """The nodes of one flavor by the images that they have, in order of rank."""

    def __init__(self) -> None:
        self._nodes: dict[str, list[tuple[int, str, NodeState]]] = {}

    def has_any(self, artifacts: Iterable[str]) -> bool:
        """Whether any node has any of them."""
        return any(one in self._nodes for one in artifacts)

    def put(self, node: NodeState, images: tuple[str, ...]) -> None:
        """`node` has these images. O(nodes with the image) for each."""
        for image in dict.fromkeys(images):
            insort(self._nodes.setdefault(image, []), (node.rank, node.name, node))

    def take(self, node: NodeState, images: tuple[str, ...]) -> None:
        """Undo `put` with the same arguments."""
        for image in dict.fromkeys(images):
            nodes = self._nodes[image]
            del nodes[bisect_left(nodes, (node.rank, node.name))]
            if not nodes:
                del self._nodes[image]

    def holders(self, image: str) -> Iterator[NodeState]:
        """The first nodes that have it, in order of rank."""
        return (node for _, _, node in islice(self._nodes.get(image, ()), LOOKED_MAX))


def missing(node: NodeState, artifacts: tuple[str, ...]) -> tuple[bool, ...]:
    """Of each whether it would have to be pulled: the least is the best."""
    here = node.inventory.images if node.inventory is not None else ()
    return tuple(one not in here for one in artifacts)
