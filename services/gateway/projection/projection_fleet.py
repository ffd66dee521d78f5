"""Nodes, their cordons and the health of their devices as rows; the newest report stands."""

from __future__ import annotations

from typing import Final

import msgspec

from services.gateway.projection.projection_rows import ProjectionBatch
from shared.events import nodes
from shared.events.envelope import Event

_json: Final = msgspec.json.Encoder()


def node(batch: ProjectionBatch, event: Event, fact: nodes.NodeInventoryReported) -> None:
    """A node as its agent reported it."""
    node = fact.node
    known = batch.nodes.get(node.name)
    if known is None or known[2] < fact.generation:
        batch.nodes[node.name] = (
            node.name,
            fact.cell,
            fact.generation,
            node.flavor,
            node.pool,
            len(node.gpus),
            _json.encode(node).decode(),
            False,
            event.time_ms,
        )


def node_removed(batch: ProjectionBatch, event: Event, fact: nodes.NodeRemoved) -> None:
    """A node is gone."""
    known = batch.nodes.get(fact.node)
    if known is None:
        row = (fact.node, fact.cell, fact.generation, "", "", 0, "", True, event.time_ms)
        batch.nodes[fact.node] = row
    elif known[2] <= fact.generation:
        batch.nodes[fact.node] = (*known[:2], fact.generation, *known[3:7], True, event.time_ms)


def health(batch: ProjectionBatch, event: Event, fact: nodes.GpuHealthReported) -> None:
    """A device became unhealthy, or healthy again."""
    place = (fact.node, fact.gpu)
    known = batch.health.get(place)
    if known is None or known[2] <= fact.generation:
        batch.health[place] = (
            fact.node,
            fact.gpu,
            fact.generation,
            fact.healthy,
            fact.reason,
            event.time_ms,
        )


def cordoned(batch: ProjectionBatch, event: Event, fact: nodes.NodeCordoned) -> None:
    """Nothing is started on a node any more."""
    batch.cordons[fact.node] = (
        fact.node,
        fact.reason,
        fact.message,
        fact.gone_at_ms,
        event.time_ms,
    )


def uncordoned(batch: ProjectionBatch, event: Event, fact: nodes.NodeUncordoned) -> None:
    """A node takes work again."""
    batch.cordons[fact.node] = (fact.node, "", "", 0, event.time_ms)


def shunned(batch: ProjectionBatch, event: Event, fact: nodes.NodeShunned) -> None:
    """Nothing is started on a node for a while."""
    batch.shuns[fact.node] = (fact.node, fact.until_ms, fact.message, event.time_ms)


def unshunned(batch: ProjectionBatch, event: Event, fact: nodes.NodeUnshunned) -> None:
    """A node may be tried again."""
    batch.shuns[fact.node] = (fact.node, 0, "", event.time_ms)


def disputed(batch: ProjectionBatch, event: Event, fact: nodes.NodeDevicesDisputed) -> None:
    """What a kubelet told of GPUs cannot be: they take no new work."""
    gpus = _json.encode(fact.disputed or fact.gpus).decode()
    batch.disputes[fact.node] = (fact.node, gpus, fact.message, event.time_ms)


def device(batch: ProjectionBatch, event: Event, fact: nodes.DeviceHealthChanged) -> None:
    """A device took another step of the ladder; what was only told changes nothing."""
    if fact.done:
        batch.devices[fact.node, fact.gpu] = (
            fact.node,
            fact.gpu,
            fact.after.value,
            fact.rule,
            fact.message,
            fact.until_ms,
            event.time_ms,
        )


def trend_found(batch: ProjectionBatch, event: Event, fact: nodes.TrendFound) -> None:
    """A device slowly changes for the worse."""
    batch.trends[fact.node, fact.gpu, fact.trend] = (
        fact.node,
        fact.gpu,
        fact.trend.value,
        True,
        fact.value,
        fact.limit,
        fact.since_ms,
        fact.message,
        event.time_ms,
    )


def trend_ended(batch: ProjectionBatch, event: Event, fact: nodes.TrendEnded) -> None:
    """It does so no more."""
    batch.trends[fact.node, fact.gpu, fact.trend] = (
        fact.node,
        fact.gpu,
        fact.trend.value,
        False,
        0.0,
        0.0,
        fact.since_ms,
        "",
        event.time_ms,
    )


def settled(batch: ProjectionBatch, event: Event, fact: nodes.NodeDevicesSettled) -> None:
    """They take work again."""
    batch.disputes[fact.node] = (fact.node, "[]", "", event.time_ms)
