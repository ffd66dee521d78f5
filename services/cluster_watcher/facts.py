"""What is told of nodes, and how it comes to the loop as a message of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.events.envelope import Event, Received, event_id
from shared.events.nodes import GpuHealthReported, NodeInventoryReported, NodeRemoved
from shared.events.registry import NAME_BY_TYPE

SERVICE: Final = "cluster_watcher"
OBSERVATION: Final = "observation"
WHOLE_NODE: Final = -1

Fact = NodeInventoryReported | GpuHealthReported | NodeRemoved


def health_of_gpus(
    node: str, before: Mapping[int, str], now: Mapping[int, str], generation: int, cell: int
) -> list[Fact]:
    """Of the GPUs that fell ill, got well or are ill for another reason, beside the inventory."""
    return [
        GpuHealthReported(
            node=node,
            gpu=index,
            healthy=index not in now,
            generation=generation,
            reason=now.get(index, ""),
            cell=cell,
        )
        for index in sorted(before.keys() | now.keys())
        if before.get(index) != now.get(index)
    ]


def as_message(fact: Fact, now_ms: int, cell: int) -> Received:
    """A local message; a generation of a node is told once of each kind, and of each GPU."""
    node = fact.node.name if isinstance(fact, NodeInventoryReported) else fact.node
    kind = type(fact).__name__
    kind += f"/{fact.gpu}" if isinstance(fact, GpuHealthReported) else ""
    event = Event(
        id=event_id(fact.generation, f"{node}/{kind}/{fact.generation}", SERVICE, 0),
        type=NAME_BY_TYPE[type(fact)],
        source=SERVICE,
        subject=node,
        time_ms=now_ms,
        key=node,
        payload=fact,
    )
    return Received(event=event, topic=OBSERVATION, partition=cell, offset=-1)
