"""Nodes as they are read: what they are, what is held of their devices, and the sum of them."""

from services.gateway.fleet.reads import get_node, list_nodes, summarise_nodes

__all__ = ["get_node", "list_nodes", "summarise_nodes"]
