"""Facts of agents about nodes, and what operators want of them."""

from __future__ import annotations

from typing import Final

from services.placement.cell import Action, Cell
from services.placement.workloads import transitions
from shared.core.model.reason import Reason
from shared.events import nodes
from shared.events.envelope import Received


def inventory(cell: Cell, message: Received, fact: nodes.NodeInventoryReported) -> None:
    """All of a node, as its agent found it."""
    if not cell.fleet.report(fact):
        return
    cell.drains.put(fact.node.name)
    cell.health.inventory(message, fact.node)
    cell.takeovers.inventory(message, fact.node)
    cell.state.unit.freed_nodes[fact.node.name] = message
    if not fact.node.ready:
        _lost(cell, fact.node.name, message)


def health(cell: Cell, message: Received, fact: nodes.GpuHealthReported) -> None:
    """A GPU, or the node, broke or is whole again."""
    if not cell.fleet.health(fact):
        return
    cell.drains.put(fact.node)
    if fact.healthy:
        cell.state.unit.freed_nodes[fact.node] = message
    elif fact.gpu < 0:
        _lost(cell, fact.node, message)


def removed(cell: Cell, message: Received, fact: nodes.NodeRemoved) -> None:
    """The node is gone, and all that ran there."""
    if cell.fleet.remove(fact.node, fact.generation):
        cell.state.cluster.remove_node(fact.node)
        cell.takeovers.removed(message, fact.node)
        cell.health.removed(fact.node)
        cell.drains.removed(fact.node, message)
        cell.shunning.forgive(fact.node, Reason.REMOVED, message)
        cell.state.promises.changed()
        _lost(cell, fact.node, message)
    elif fact.node not in cell.fleet.present:
        cell.drains.removed(fact.node, message)


def notice(cell: Cell, message: Received, fact: nodes.NodeNoticeReported) -> None:
    """The node will be gone soon."""
    cell.drains.notice(message, fact)


def cordon(cell: Cell, message: Received, command: nodes.CordonNode) -> None:
    """An operator wants nothing more there, or nothing at all."""
    cell.drains.cordon(message, command)


def fence(cell: Cell, message: Received, command: nodes.FenceNode) -> None:
    """An operator vouches that nothing runs there any more."""
    cell.drains.fence(message, command)


def uncordon(cell: Cell, message: Received, command: nodes.UncordonNode) -> None:
    """An operator gives the node back, whatever spoke against it."""
    cell.drains.uncordon(message, command)
    cell.takeovers.uncordon(message, command.node)
    cell.shunning.forgive(command.node, Reason.UNCORDONED, message)
    cell.health.uncordon(message, command.node)


def restore(cell: Cell, message: Received, command: nodes.RestoreDevice) -> None:
    """An operator gives one device back."""
    cell.health.restore(message, command)


def device(cell: Cell, message: Received, fact: nodes.HealthEventReported) -> None:
    """Something is told of a device."""
    cell.health.reported(message, fact)


def silent(cell: Cell, message: Received, fact: nodes.NodeSilent) -> None:
    """Its agent is not heard: nothing new is started there."""
    cell.shunning.silent(fact.node, fact.silent_ms, message)


def heard(cell: Cell, message: Received, fact: nodes.NodeHeard) -> None:
    """Its agent is heard again."""
    cell.shunning.heard(fact.node, message)


def _lost(cell: Cell, node: str, cause: Received) -> None:
    cell.evictions.lost(node, cause)
    for record in list(cell.state.records.of_node(node)):
        transitions.evict(cell.state, record, Reason.NODE_LOST, f"node {node} is lost", cause)


ACTIONS: Final[dict[type, Action]] = {
    nodes.NodeInventoryReported: inventory,
    nodes.GpuHealthReported: health,
    nodes.NodeRemoved: removed,
    nodes.NodeNoticeReported: notice,
    nodes.CordonNode: cordon,
    nodes.UncordonNode: uncordon,
    nodes.FenceNode: fence,
    nodes.RestoreDevice: restore,
    nodes.HealthEventReported: device,
    nodes.NodeSilent: silent,
    nodes.NodeHeard: heard,
}
