"""Where a fault may be made: on simulated nodes, and on real ones that are labelled for it.

A node is simulated when the simulated fleet has it. Every other node that has been reported has
a real agent; its label comes with its inventory.
"""

from __future__ import annotations

from dataclasses import dataclass

from operations.chaos.faults import ON_NODES, SIGNS, Strike
from operations.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node, as far as making faults on it is concerned."""

    name: str
    gpus: int
    flavor: str = ""
    ready: bool = True
    simulated: bool = True
    allowed: bool = True
    """Whether a real node carries the label; a simulated one needs none."""
    cell: int = 0
    uuids: tuple[str, ...] = ()
    """Of its GPUs by index, where they are known: of real nodes."""


def checked(strike: Strike, place: Place | None) -> Place:
    """The place of a fault that may be made there.

    Raises:
        Failure: it may not; one sentence with the next step.
    """
    if place is None:
        raise Failure(f"no node {strike.node}")
    if not place.allowed:
        raise Failure(
            f"{strike.node} is a real node: faults are made there only while it carries the label"
            f" muster.dev/chaos=allowed; `kubectl label node {strike.node}"
            " muster.dev/chaos=allowed` allows it"
        )
    if not place.simulated and strike.fault not in SIGNS:
        signs = ", ".join(fault.value for fault in SIGNS)
        raise Failure(
            f"{strike.node} is a real node, and {strike.fault.value} needs a simulated one; what"
            f" its driver would tell can be told: {signs}"
        )
    if strike.fault not in ON_NODES and strike.gpu >= place.gpus:
        raise Failure(f"{strike.node} has no GPU {strike.gpu}")
    return place
