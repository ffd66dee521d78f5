"""Nodes, their devices and the sum of a flavor as they are read."""

from __future__ import annotations

from services.gateway.http.views import View
from shared.core.health.trends import Trend
from shared.core.model.nouns import Level


class MigProfileUse(View, frozen=True, kw_only=True):
    """Instances of one MIG profile on devices in MIG mode."""

    profile: str
    """Name of the profile, such as 1g.10gb."""
    used: int
    """Instances that are held."""
    free: int
    """How many more there is room for, if no other profile is asked for meanwhile."""


class TrendView(View, frozen=True, kw_only=True):
    """A slow change of a device that ends badly; it is told, and nothing acts on it."""

    trend: Trend
    """Which change it is."""
    value: float
    """How large it was when it was found. Leak: MiB an hour; heat: degrees Celsius above the
    median of seven days at equal power; replay: replays an hour; straggler: clock in MHz."""
    limit: float
    """In the unit of the value: what is still allowed."""
    since_ms: int
    """Begin of the evidence, Unix milliseconds."""
    message: str
    """What is found, in words, and what to do next."""


class GpuView(View, frozen=True, kw_only=True):
    """One device of a node with its holders and amounts, as far as the caller may know them."""

    index: int
    """Index of the GPU on its node, from 0."""
    uuid: str
    """UUID of the device, as its driver tells it."""
    memory_mib: int
    """Memory of the device in MiB."""
    mig: bool
    """Whether it is in MIG mode."""
    healthy: bool
    """False keeps new work away."""
    health: str
    """Step of the ladder of health: healthy, suspect, draining, quarantined, probation, lost or
    failed."""
    health_message: str
    """Why it is there, in words; empty: it is healthy."""
    trends: tuple[TrendView, ...]
    """Slow changes that are told of it and not over; they keep no work away."""
    used_milli: int
    """What is taken of it, in thousandths of a GPU."""
    used_mask: int
    """Memory slices that are taken: bit 0 is slice 0; 255 is a whole GPU."""
    workloads: tuple[str, ...]
    """Those that hold some of it and that the caller may read."""
    workloads_of_others: int
    """How many more hold some of it: they are other teams'."""
    mig_profiles: tuple[MigProfileUse, ...]
    """Instances by profile, the smallest first; none unless it is in MIG mode."""


class NodeSummary(View, frozen=True, kw_only=True):
    """A node as a list shows it."""

    name: str
    """Name of the node."""
    cell: int
    flavor: str
    product: str
    """Product name of its GPUs, as its agent reports it."""
    pool: str
    """Pool that the node is dedicated to; empty: none."""
    zone: str
    """Zone of the fabric; empty: unknown."""
    block: str
    """Block of the fabric; empty: unknown."""
    rack: str
    """Rack; empty: unknown."""
    nvlink_domain: str
    """NVLink domain that spans nodes; empty: none."""
    driver: str
    cuda: str
    ready: bool
    """Whether the cluster reports it as ready."""
    cordoned: bool
    """Nothing more is started there, by its agent's or an operator's word."""
    draining: bool
    """What ran there was evicted, because of an operator or a spot notice."""
    fenced: bool
    """An operator said that its machine is off; nothing starts there until it is uncordoned."""
    cordon_message: str
    gone_at_ms: int | None
    """When the node will be taken away, if that is known."""
    shunned_until_ms: int | None
    """Work did not start there, so no workload is placed there before."""
    shun_message: str
    """Why work is not placed there for now, in words; empty: it is."""
    disputed_gpus: tuple[int, ...]
    """Indexes of GPUs that take no new work until the node is uncordoned, as what its kubelet told
    of them cannot be; they are among the unhealthy ones, too."""
    dispute_message: str
    """Which pod that is, and why it cannot be; empty: none."""
    health_messages: tuple[str, ...]
    """What the ladder of health says of its GPUs, in words, by index; none of healthy ones."""
    trend_messages: tuple[str, ...]
    """Slow changes of its GPUs that are told and not over, in words, by index."""
    taints: tuple[str, ...]
    """Taints as Kubernetes writes them: key=value:effect."""
    cpu_milli: int
    """CPU in thousandths of a core."""
    memory_mib: int
    """Memory in MiB."""
    gpus: int
    """Number of its GPUs."""
    mig_gpus: int
    """Those of them that are in MIG mode."""
    mig_profiles: tuple[MigProfileUse, ...]
    """Instances on these by profile, the smallest first; at most 2 s old."""
    used_gpu_milli: int
    """What is taken of its GPUs, in thousandths of a GPU."""
    unhealthy_gpus: tuple[int, ...]
    """Indexes of GPUs that take no new work."""
    removed: bool
    """Whether it has left the cluster."""


class NodeView(NodeSummary, frozen=True, kw_only=True):
    """A node with its devices."""

    devices: tuple[GpuView, ...]
    """Its GPUs by index."""


class NodePage(View, frozen=True, kw_only=True):
    """A page of nodes by name."""

    items: tuple[NodeSummary, ...]
    next_cursor: str


class LargestGang(View, frozen=True, kw_only=True):
    """The largest gang of whole GPUs for which one part of the fabric has the devices.

    Quota, CPU, memory and promises to others are not counted: more may be refused, never less.
    """

    level: Level | None
    """Level of the part; null: the whole flavor."""
    place: str
    """Where it is: zone, block, rack and NVLink domain, with "/" between, or the node."""
    pool: str
    """Pool that the gang must name; empty: none."""
    gpus: int
    """Whole GPUs that are free there, whatever their number on each node."""
    full_node_gpus: int
    """Those on nodes of which all GPUs are free: for pods that take a whole node."""
    nodes: int
    """Nodes on which the GPUs are."""


class FlavorSummary(View, frozen=True, kw_only=True):
    """What there is of a flavor, at most 2 s old."""

    flavor: str
    nodes: int
    """Nodes that have not left the cluster."""
    gpus: int
    """Their GPUs."""
    free_gpus: int
    """Whole GPUs of which nothing is held, healthy, not in MIG mode, on nodes that take work."""
    used_gpu_milli: int
    """What is held of all GPUs, in thousandths of a GPU."""
    mig_gpus: int
    """GPUs in MIG mode."""
    mig_profiles: tuple[MigProfileUse, ...]
    """Instances on these by profile, the smallest first; room on nodes that take work alone."""
    cordoned_gpus: int
    """GPUs of nodes on which nothing is started: cordoned, drained or shunned."""
    unhealthy_gpus: int
    """GPUs that take no work, all of a node that is not ready among them."""
    largest_gangs: tuple[LargestGang, ...]
    """By level, the tightest first; levels that no node of the flavor names are left out."""


class FleetSummary(View, frozen=True, kw_only=True):
    """The sum of all nodes by flavor."""

    items: tuple[FlavorSummary, ...]
    """A row for each flavor that has a node."""
