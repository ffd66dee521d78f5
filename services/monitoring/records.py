"""What monitoring remembers of each thing: the records of its journal."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from shared.core.health.device import DeviceState
from shared.core.model.amounts import Amount
from shared.core.model.lifecycle import HOLDING, TERMINAL, State
from shared.core.model.nouns import Level, Placement
from shared.core.needed_nodes import WaitingGang
from shared.core.nodes.idleness import Run, ToldIdleness
from shared.core.queueing.nomination import FlavorKind
from shared.events.nodes import GpuUsageReported

DEVICE_FIELDS: Final = 4
Devices = tuple[tuple[str, int, int, int], ...]
"""(node, GPU, milli-GPU, memory slices as a mask) for every share that a workload holds."""


class SeenWorkload(msgspec.Struct, array_like=True):
    """The last that was heard of a workload; `version` 0 before any of placement's facts."""

    team: str
    queue: str
    state: State = State.QUEUED
    version: int = 0
    queued: bool = False
    """Whether `WorkloadQueued` was read; it comes on a topic of its own, so perhaps late."""
    reason: str = ""
    flavor: str = ""
    gpu_milli: int = 0
    placed_at_ms: int = 0
    attempt: int = 0
    running_at_ms: int = 0
    idle_timeout_seconds: int | None = None
    namespace: str = ""
    """Of its pods; empty until `WorkloadQueued` was read."""
    asked_milli: int = 0
    """GPUs that all of its pods ask for."""
    priority: int = 0
    waits_since_ms: int = 0
    """When it came, or gave its devices back last; Unix milliseconds."""
    kind: str = ""
    """Empty until `WorkloadQueued` was read, as the next ones."""
    stem: str = ""
    """Its name without a counter."""
    image: str = ""
    """Of its first pod set with GPUs."""
    gpus_each: int = 1
    """GPUs of a pod."""
    wanted: WaitingGang | None = None
    """What it waits for; None until `WorkloadQueued` was read."""
    said_seconds: int | None = None
    """How long it runs, as its owner says."""
    charge: Amount = (0, 0, 0)
    """What quota counts for it; 0 in rows of before."""
    submitter: str = ""
    """The caller that submitted it, as people are told; empty: not known."""
    microdollars: int = 0
    """Of a GPU-hour of what it holds; 0: no price was known when it began."""
    purchase: str = ""
    """How that is paid for."""

    @property
    def counted(self) -> bool:
        """Whether gauges show it."""
        return (self.queued or self.version > 0) and self.state not in TERMINAL

    @property
    def held(self) -> bool:
        """Whether it holds devices."""
        return self.state in HOLDING


class Watch(msgspec.Struct, array_like=True):
    """What was seen of the use of an attempt, by node."""

    attempt: int
    runs: dict[str, Run] = {}
    told: ToldIdleness | None = None
    kept_ms: int = 0
    """Time of the last report that is written down."""


class Debt(msgspec.Struct, array_like=True, frozen=True):
    """What a queue or cohort owes (core/quota/deficits.py), as told at `at_ms`."""

    millionths: int
    at_ms: int


class HeardUse(NamedTuple):
    """The newest report of a node."""

    report: GpuUsageReported
    logged_ms: int
    """When the broker took it: clocks of nodes differ."""


class NodeHealth(msgspec.Struct, array_like=True):
    """The GPUs of one node; `healthy` is by GPU index."""

    generation: int
    flavor: str
    present: bool = True
    ready: bool = True
    healthy: dict[int, bool] = {}
    shunned: bool = False
    """By placement, as work did not start there."""
    cordoned: bool = False
    """By an operator or the ladder: nothing is started there."""
    domains: dict[Level, str] = {}
    """The domains of the fabric that it names, each by its path."""

    @property
    def starts(self) -> bool:
        """Whether placement starts work there."""
        return self.ready and not self.shunned


class SeenFlavor(msgspec.Struct, array_like=True, frozen=True):
    """What a flavor is made of, by its document and its nodes."""

    version: int = 0
    products: tuple[str, ...] = ()
    spot: bool = False
    node_gpus: int = 0
    """GPUs of the node that was seen last; 0: none was."""

    @property
    def kind(self) -> FlavorKind:
        """As quota knows it."""
        return FlavorKind(self.products, self.spot)


class LadderStep(msgspec.Struct, array_like=True, frozen=True):
    """Where a device is on the ladder of health, by which rule, and since when."""

    state: DeviceState
    rule: str = ""
    since_ms: int = 0


class KeptNodes(msgspec.Struct, array_like=True, frozen=True):
    """What new work is kept off: whole nodes for promises, and GPUs that change their mode."""

    nodes: frozenset[str] = frozenset()
    switching: frozenset[tuple[str, int]] = frozenset()


class OpenTrend(msgspec.Struct, array_like=True, frozen=True):
    """A trend of a device that was told and is not over."""

    since_ms: int
    value: float
    """As it is now; after a restart as it was told."""
    work: tuple[str, ...]
    """Ids of the workloads that held the device when it was told, in order."""


def devices_of(placement: Placement) -> Devices:
    """Every share that a placement holds."""
    return tuple(
        (pod.node, share.index, share.milli, share.mask)
        for pod in placement.pods
        for share in pod.shares
    )


def shares_by_node(devices: Devices) -> dict[str, tuple[tuple[int, int, int], ...]]:
    """(GPU, milli-GPU, slices as a mask) of each share, by node."""
    by_node: dict[str, tuple[tuple[int, int, int], ...]] = {}
    for node, gpu, milli, mask in devices:
        by_node[node] = (*by_node.get(node, ()), (gpu, milli, mask))
    return by_node
