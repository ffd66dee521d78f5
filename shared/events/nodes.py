"""Facts of node agents (or of the fleet simulator): inventory, health, use."""

from __future__ import annotations

from shared.core.cluster.inventory import problem_of
from shared.core.health import events as health_events
from shared.core.health.device import DeviceState
from shared.core.health.trends import Trend
from shared.core.kubernetes import observed
from shared.core.model.nouns import Node, Placement
from shared.core.model.reason import Reason
from shared.events.workloads import Wire


class NodeInventoryReported(Wire, frozen=True, kw_only=True):
    """All of a node, on change and at start of its agent; replaces what was known before."""

    node: Node
    """All that is known of the node."""
    generation: int
    """Counts up for each node; an older one is ignored."""
    cell: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a node that cannot be: its message is a dead letter."""
        problem = problem_of(self.node)
        if problem:
            raise ValueError(problem)


class GpuHealthReported(Wire, frozen=True, kw_only=True):
    """Health of one GPU changed; `gpu` -1 speaks of the whole node."""

    node: str
    gpu: int
    """Index of the GPU on its node; -1: the whole node."""
    healthy: bool
    """False keeps new work away."""
    generation: int
    reason: str = ""
    """What is wrong, in the words of the reporter; empty: nothing."""
    cell: int = 0


class HealthEventReported(Wire, frozen=True, kw_only=True):
    """A driver, a kernel log or an agent tells of the health of a device; judged by the ladder."""

    node: str
    gpu: int
    """Index of the GPU on its node; -1: the whole node."""
    kind: health_events.HealthEventKind
    """What happened."""
    at_ms: int
    """When it was seen, Unix milliseconds, by the clock of the node."""
    code: int = 0
    """What it means depends on the kind: the XID, a count, an action."""
    instance: int = health_events.NO_INSTANCE
    """Number of the GPU instance (MIG) that it concerns alone; -1: the whole GPU."""
    mask: int = 0
    """Memory slices of that instance, a bit each; 0: not known."""
    uuid: str = ""
    """UUID of the device; another one in its place is not concerned."""
    detail: str = ""
    """The line of the log, or the driver's words; empty: none."""
    cell: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be: its message is a dead letter."""
        problem = health_events.problem_of(
            gpu=self.gpu, instance=self.instance, code=self.code, detail=self.detail
        )
        if problem:
            raise ValueError(problem)


class NodeRemoved(Wire, frozen=True, kw_only=True):
    """The node has left the cluster; what ran there is lost."""

    node: str
    generation: int
    cell: int = 0


class NodeNoticeReported(Wire, frozen=True, kw_only=True):
    """The node will be taken away at `gone_at_ms`, as a spot market does."""

    node: str
    gone_at_ms: int
    """When the node will be taken away, Unix milliseconds."""
    generation: int
    reason: str = ""
    """Why, in the words of the reporter; empty: unknown."""
    cell: int = 0


class CordonNode(Wire, frozen=True, kw_only=True):
    """Start nothing more on a node; with `drain`, stop what runs there with its grace, too."""

    node: str
    drain: bool = False
    """Whether what runs there is stopped with its grace."""
    reason: str = ""
    """In older messages free text, which is `note` now."""
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""
    note: str = ""
    """Why, in the operator's words."""
    cell: int = 0


class UncordonNode(Wire, frozen=True, kw_only=True):
    """Undo `CordonNode`; what was stopped has found another place or waits."""

    node: str
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""
    cell: int = 0


class FenceNode(Wire, frozen=True, kw_only=True):
    """The machine of a lost node is off, says an operator: its pods count as gone.

    Nothing starts there until `UncordonNode`. Passed over where the node is back.
    """

    node: str
    generation: int = -1
    """Of the report by which the node is lost; a newer one by which it is not goes before."""
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""
    note: str = ""
    """How it is known, in the operator's words."""
    cell: int = 0


class RestoreDevice(Wire, frozen=True, kw_only=True):
    """An operator vouches for one GPU: it takes work again, whatever was told of it."""

    node: str
    gpu: int
    """Index of the GPU on its node."""
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""
    note: str = ""
    """Why, in the operator's words."""
    cell: int = 0


class NodeCordoned(Wire, frozen=True, kw_only=True):
    """Nothing is started on a node any more, and `evicted` workloads are being stopped there."""

    node: str
    reason: Reason
    """Cordoned, drained, fenced or about to be taken away."""
    message: str = ""
    note: str = ""
    """Why, in the operator's words; it is part of the message, too."""
    gone_at_ms: int = 0
    """When the node will be taken away, Unix milliseconds; 0: unknown."""
    evicted: int = 0
    """Number of workloads that are being stopped there."""
    cell: int = 0


class NodeUncordoned(Wire, frozen=True, kw_only=True):
    """The node takes work again."""

    node: str
    cell: int = 0


class NodeShunned(Wire, frozen=True, kw_only=True):
    """Nothing is started on a node until `until_ms`: work that was placed there did not start."""

    node: str
    until_ms: int
    """Until when nothing is started there, Unix milliseconds."""
    workloads: int
    """That did not start there since the last that did; of one team and image they count once."""
    start_seconds: int
    """How long each was waited for at most."""
    rounds: int = 1
    """How often it was shunned since the last start there; each time for longer."""
    message: str = ""
    cell: int = 0


class NodeUnshunned(Wire, frozen=True, kw_only=True):
    """Work may be placed on the node again."""

    node: str
    reason: Reason
    """Expired, started, uncordoned or removed."""
    cell: int = 0


class NodeSilent(Wire, frozen=True, kw_only=True):
    """The agent of a node is not heard any more, while those of most other nodes are."""

    node: str
    since_ms: int
    """When it was heard last: the broker's time, Unix milliseconds."""
    silent_ms: int
    """For how long it was silent when that was noticed, in milliseconds."""
    cell: int = 0


class NodeHeard(Wire, frozen=True, kw_only=True):
    """The agent of a node that was silent is heard again."""

    node: str
    cell: int = 0


class TrendFound(Wire, frozen=True, kw_only=True):
    """A slow change of a device that ends badly is found; it is told, and nothing acts on it."""

    node: str
    gpu: int
    """Index of the GPU on its node."""
    trend: Trend
    """Which change it is."""
    value: float
    """How large it is. Leak: MiB an hour; heat: degrees Celsius above the median of seven days at
    equal power; replay: replays an hour; straggler: clock in MHz."""
    limit: float
    """In the unit of the value: what is still allowed."""
    since_ms: int
    """Begin of the evidence, Unix milliseconds."""
    message: str = ""
    cell: int = 0


class TrendEnded(Wire, frozen=True, kw_only=True):
    """A slow change of a device that was told is over.

    Its readings were as they should be for half an hour, other work holds it, or its node is gone.
    """

    node: str
    gpu: int
    """Index of the GPU on its node."""
    trend: Trend
    """Which change it was."""
    since_ms: int
    """Begin of the evidence that was told, Unix milliseconds."""
    cell: int = 0


class KeptFor(Wire, frozen=True, kw_only=True):
    """Nodes kept for one workload that waits; `pin` numbers its promise from 1."""

    workload_id: str
    pin: int
    """Number of its promise, from 1."""
    nodes: tuple[str, ...]
    """Names of the nodes."""


class SwitchingGpu(Wire, frozen=True, kw_only=True):
    """A GPU that changes between whole and MIG mode."""

    node: str
    gpu: int


class DeviceHealthChanged(Wire, frozen=True, kw_only=True):
    """A GPU takes another step of the ladder of health, or would (docs/adr/0088)."""

    node: str
    gpu: int
    """Index of the GPU on its node."""
    uuid: str
    """UUID of the device."""
    before: DeviceState
    """State that it was in."""
    after: DeviceState
    """State that it is in, or would be."""
    rule: str
    """The rule that says so, such as xid-memory."""
    done: bool = True
    """False: only told, as the ladder observes or its breaker is open."""
    breaker: bool = False
    """Whether it is the breaker that keeps it from being done."""
    until_ms: int = 0
    """When it leaves the state by itself, Unix milliseconds; 0: never."""
    message: str = ""
    cell: int = 0


class NodesKept(Wire, frozen=True, kw_only=True):
    """All that new work is kept off in the cell; replaces what was told before.

    A node is named once, for the promise that comes first.
    """

    kept: tuple[KeptFor, ...] = ()
    """Nodes kept for workloads that wait."""
    switching: tuple[SwitchingGpu, ...] = ()
    """GPUs that take no work: they change their mode, a kubelet gave them to another pod than the
    ledger did, or the ladder of health took them out."""
    cell: int = 0


class HeldDevices(Wire, frozen=True, kw_only=True):
    """What a workload holds, with the GPUs that its pods really have."""

    workload_id: str
    attempt: int
    placement: Placement
    """All that it holds, on other nodes too."""


class NodeDevicesLearned(Wire, frozen=True, kw_only=True):
    """A kubelet chose other GPUs of its node: these workloads hold what is told from now on.

    All workloads concerned, in one fact. States and versions stay as they are.
    """

    node: str
    workloads: tuple[HeldDevices, ...]
    """Workloads with GPUs that changed."""
    cell: int = 0


class NodeDevicesDisputed(Wire, frozen=True, kw_only=True):
    """A kubelet tells what cannot be: the GPUs take no new work until the node is uncordoned."""

    node: str
    gpus: tuple[int, ...]
    """Indexes of the GPUs concerned."""
    workload_id: str
    attempt: int
    rank: int
    """Number of the pod that has them by its kubelet."""
    devices: tuple[str, ...]
    """UUIDs that the kubelet named."""
    message: str
    disputed: tuple[int, ...] = ()
    """Indexes of all GPUs of the node that take no new work for such a reason now."""
    cell: int = 0


class NodeDevicesSettled(Wire, frozen=True, kw_only=True):
    """Of the node no GPU is disputed any more: it was uncordoned, or is gone."""

    node: str
    cell: int = 0


class InstanceUse(Wire, frozen=True, kw_only=True):
    """Use of one GPU instance (MIG)."""

    gpu: int
    """Index of the GPU on its node."""
    mask: int
    """Memory slices of the instance, a bit each."""
    utilization_percent: int
    """Part of the time in which it computed."""
    number: int = -1
    """Its number on the GPU, as `GPU_I_ID` of dcgm-exporter; -1: not told."""


class GpuUsageReported(Wire, frozen=True, kw_only=True):
    """Use of all GPUs of one node at one time; arrays are by GPU index."""

    node: str
    at_ms: int
    utilization_percent: tuple[int, ...]
    """Use of each GPU in per cent, by index."""
    memory_used_mib: tuple[int, ...]
    """Used memory of each GPU in MiB, by index."""
    temperature_celsius: tuple[int, ...]
    """Temperature of each GPU in degrees Celsius, by index."""
    power_watts: tuple[int, ...]
    """Power of each GPU in watts, by index."""
    unread: tuple[int, ...] = ()
    """GPUs of which the use could not be read; their 0 per cent says nothing."""
    instances: tuple[InstanceUse, ...] = ()
    """GPU instances (MIG) of which the use is known."""
    cell: int = 0
    sm_clock_mhz: tuple[int, ...] = ()
    """Clock of the multiprocessors of each GPU in MHz, by index; -1: not told. Empty: of none."""
    pcie_replays: tuple[int, ...] = ()
    """Replays on the PCIe link of each GPU since its driver was loaded, by index; -1: not told.
    Empty: of none."""
    throttled: tuple[int, ...] = ()
    """Indexes of GPUs of which heat, a power brake or hardware holds the clocks down."""


class GpusObserved(Wire, frozen=True, kw_only=True):
    """What an agent sees of its node's GPUs where a cluster watcher tells what the node is.

    All of them, at start, on change and again every minute; replaces what was told before.
    """

    node: str
    at_ms: int
    """When it was read, Unix milliseconds; an older one is ignored."""
    gpus: tuple[observed.ObservedGpu, ...]
    """Every GPU that the driver knows, in order of index."""
    links: str = ""
    """Links between them, a character for each pair (cluster/node_links.py); empty: unknown."""
    cell: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be: its message is a dead letter."""
        problem = observed.problem_of(self.gpus, self.links)
        if problem:
            raise ValueError(problem)


class ReconfigureGpu(Wire, frozen=True, kw_only=True):
    """Take an idle GPU into MIG mode, or out of it; answered by an inventory that shows it.

    An agent passes over an expired command, and a GPU on which anything runs.
    """

    node: str
    gpu: int
    mig: bool
    """The mode that is wanted: true is MIG."""
    expires_at_ms: int
    """When the command is worth nothing any more, Unix milliseconds."""
    epoch: int
    uuid: str = ""
    """UUID of the device; another one in its place is left alone."""
    cell: int = 0


class CheckGpu(Wire, frozen=True, kw_only=True):
    """Prove under load that a GPU is fit, which takes no work meanwhile.

    Answered by `HealthEventReported` (check-passed, check-failed); an agent without a check passes
    over it, as over an expired command, and a GPU on which anything runs.
    """

    node: str
    gpu: int
    """Index of the GPU on its node."""
    expires_at_ms: int
    """When the command is worth nothing any more, Unix milliseconds."""
    epoch: int
    uuid: str = ""
    """UUID of the device; another one in its place is left alone."""
    cell: int = 0
