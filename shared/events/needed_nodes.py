"""What monitoring tells autoscalers: how many more nodes of each flavor are needed."""

from __future__ import annotations

from shared.events.workloads import Wire


class FlavorNeed(Wire, frozen=True, kw_only=True):
    """Nodes of one flavor that are needed beside those that are there."""

    flavor: str
    nodes: int = 0
    """For work that waits for room and that quota lets run."""
    warm_nodes: int = 0
    """Besides, to have as many empty ones as the buffer of the flavor wants."""
    pods: int = 0
    """Pods that would lie on `nodes`: of a gang those that it still lacks."""


class NodesNeeded(Wire, frozen=True, kw_only=True):
    """How many more nodes are needed; told when it changes, and replaces what was told before.

    What will be free before a new node could be there is taken as free. A flavor that is not named
    needs none (docs/adr/0108).
    """

    flavors: tuple[FlavorNeed, ...]
    """Each once, by name."""
    at_ms: int
    """As of when, Unix milliseconds."""
    cell: int = 0
