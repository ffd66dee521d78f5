"""Nodes and their devices as they are read."""

from __future__ import annotations

from services.gateway.views import View


class GpuView(View, frozen=True, kw_only=True):
    """One device of a node with who holds how much of it, as far as the caller may know them."""

    index: int
    uuid: str
    memory_mib: int
    mig: bool
    healthy: bool
    used_milli: int
    used_mask: int
    workloads: tuple[str, ...]
    """Those that hold some of it and that the caller may read."""
    workloads_of_others: int
    """How many more hold some of it: they are other teams'."""


class NodeSummary(View, frozen=True, kw_only=True):
    """A node as a list shows it."""

    name: str
    cell: int
    flavor: str
    product: str
    pool: str
    zone: str
    block: str
    rack: str
    nvlink_domain: str
    driver: str
    cuda: str
    ready: bool
    cordoned: bool
    """Nothing more is started there, by its agent's or an operator's word."""
    draining: bool
    """What ran there was evicted, because of an operator or a spot notice."""
    cordon_message: str
    gone_at_ms: int | None
    """When the node will be taken away, if that is known."""
    shunned_until_ms: int | None
    """Work did not start there, so nobody's is placed there before."""
    shun_message: str
    taints: tuple[str, ...]
    cpu_milli: int
    memory_mib: int
    gpus: int
    mig_gpus: int
    """Those of them that are in MIG mode."""
    used_gpu_milli: int
    unhealthy_gpus: tuple[int, ...]
    removed: bool


class NodeView(NodeSummary, frozen=True, kw_only=True):
    """A node with its devices."""

    devices: tuple[GpuView, ...]


class NodePage(View, frozen=True, kw_only=True):
    """A page of nodes by name."""

    items: tuple[NodeSummary, ...]
    next_cursor: str
