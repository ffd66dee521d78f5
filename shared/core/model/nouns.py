"""The nouns of Muster: what is asked for, what there is, and what was given.

Everything is frozen. Amounts are integers with their unit in the name; an amount of `None` in a
submission means "take the team's default" and is filled by `core.admission.admit`. The words are
the field's (docs/glossary.md).
"""

from __future__ import annotations

from enum import StrEnum

from shared.core.model.units import SLICES, Resources
from shared.core.model.value import Value, field


class WorkloadKind(StrEnum):
    """What a workload is for; decides how it may share a GPU (mission A4)."""

    TRAINING = "training"
    INFERENCE = "inference"
    BATCH_INFERENCE = "batch-inference"
    NOTEBOOK = "notebook"


class Level(StrEnum):
    """Levels of the fabric, from the tightest to the widest (mission M7)."""

    NODE = "node"
    NVLINK_DOMAIN = "nvlink-domain"
    RACK = "rack"
    BLOCK = "block"
    ZONE = "zone"


class Spread(StrEnum):
    """Whether replicas avoid sharing a node (mission M8)."""

    NONE = "none"
    PREFERRED = "preferred"
    REQUIRED = "required"


class GpuRequest(Value, frozen=True, kw_only=True):
    """GPUs of ONE pod, in exactly one of three forms, or none of them for a CPU-only pod.

    Whole GPUs: `count` >= 1. A share of one GPU: `milli` in 1..999 with its `memory_mib` >= 1.
    MIG: `mig_profile` such as "1g.10gb", `mig_count` instances of it (default 1).
    """

    count: int = 0
    """Whole GPUs of each pod, 0 to 1,024."""
    milli: int = 0
    """Share of one GPU in thousandths, 21 to 999; 0: no share."""
    memory_mib: int = 0
    """GPU memory of the share in MiB, at least 1 beside `milli`; else 0."""
    mig_profile: str = ""
    """MIG profile such as 1g.10gb; empty: no MIG."""
    mig_count: int = 0
    """Instances of the profile in each pod; 0 with a profile means 1."""


class PodRole(StrEnum):
    """What the pods of a set are to the others."""

    WORKER = "worker"
    LEADER = "leader"


class Slice(Value, frozen=True, kw_only=True):
    """Each run of `pods` consecutive ranks of a set lies within one domain of `level`."""

    pods: int
    """Consecutive ranks that lie within one domain."""
    level: Level
    """The level of the domain."""


class PodSet(Value, frozen=True, kw_only=True):
    """Equal pods of a workload; `min_count` of them must run together (the gang).

    `slices` from the outermost to the innermost, at most three; a set of several slices is as
    large as a whole number of the outermost, and shrinks by whole ones. The pod of a `leader` set
    lies beside the first workers. `weights` names what the pods load, as nodes report what they
    keep: a node that has it already is preferred to its equals, as one that has the image is.
    Source: Kueue KEP-2724 (slices), LeaderWorkerSet.
    """

    name: str = "main"
    """Name of the set, a DNS-1123 label; different in each set."""
    count: int = 1
    """Number of equal pods, 1 to 4,096."""
    min_count: int | None = None
    """Pods that must run together, 1 to `count`; null means all of them."""
    role: PodRole = PodRole.WORKER
    """What the pods are to the other sets."""
    slices: tuple[Slice, ...] = ()
    """Nested slices, the outermost first; at most three."""
    gpu: GpuRequest = GpuRequest()
    """GPUs of each pod; all zero: none."""
    cpu_milli: int | None = None
    """CPU of each pod in thousandths of a core; null means the team's default."""
    memory_mib: int | None = None
    """Memory of each pod in MiB; null means the team's default."""
    shm_mib: int | None = None
    """Size of /dev/shm of each pod in MiB; null means 16,384 for training, else 64."""
    image: str = ""
    """Container image; empty: the cluster's default."""
    weights: str = ""
    """Reference of what the pods load, such as hf://mistralai/mixtral-8x7b."""
    command: tuple[str, ...] = ()
    """Program and arguments, a word each; empty: the image's own. At most 256 words."""
    arguments: tuple[str, ...] = ()
    """Arguments alone, for the program of `command` or of the image. At most 256 words."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables by name, at most 100. NVIDIA_*, MUSTER_* and CUDA_VISIBLE_DEVICES are reserved."""
    secrets: tuple[str, ...] = ()
    """Names of Secrets of the team's namespace, never values; their keys become variables."""
    volumes: tuple[str, ...] = ()
    """Volume claims of the team's namespace: CLAIM, CLAIM:PATH or CLAIM:PATH:ro.

    Without a path a claim is mounted at /mnt/CLAIM.
    """
    tolerations: tuple[str, ...] = ()
    """Taints of nodes that the pods may ignore: KEY, KEY=VALUE, with or without :EFFECT."""
    kubernetes_priority_class: str = ""
    """PriorityClass object of the cluster, for its kubelets and quotas.

    The order in Muster is decided by the workload's `priority_class`.
    """


class GpuChoice(Value, frozen=True, kw_only=True):
    """Which GPUs are acceptable (mission M5); empty or zero means any.

    Products as nodes report them, or some words of them: H100, A100-80GB (`core/admission`).
    """

    products: tuple[str, ...] = ()
    """Acceptable products, as nodes report them or words of it; empty: any."""
    preferred_products: dict[str, int] = field(default_factory=dict)
    """Weight by product: of those that fit, the larger goes first; 0 to 1,000,000."""
    min_memory_mib: int = 0
    """Least memory of a whole GPU in MiB; 0: any."""
    min_driver: str = ""
    """Oldest acceptable GPU driver, such as 550.54; empty: any."""
    cuda: str = ""
    """CUDA version of the image, such as 12.4: the driver must support it; empty: any."""
    node_pool: str = ""
    """Only nodes of this pool; empty: nodes that are dedicated to none."""


class TopologyRequest(Value, frozen=True, kw_only=True):
    """The widest level that the pods together may span; None for no constraint.

    With `preferred` they lie as near together as can be, and anywhere where that is not possible:
    so does a training of several pods with GPUs that names nothing.
    `numa_aligned`: the whole GPUs of each pod must be of one NUMA domain of their node; they are
    taken so anyway where that can be.
    """

    required: Level | None = None
    """The widest level that the pods may span; null: no limit."""
    preferred: Level | None = None
    """The level within which they lie where that is possible; null: as near as can be."""
    numa_aligned: bool = False
    """Whether the whole GPUs of each pod must be of one NUMA domain."""


class WorkloadSpec(Value, frozen=True, kw_only=True):
    """What a user submits, the same through every door; the caller's identity adds the rest."""

    name: str
    """Name for people, a DNS-1123 label; several workloads may have it."""
    kind: WorkloadKind
    """What it is for; decides which forms of GPU it may ask for."""
    pod_sets: tuple[PodSet, ...] = (PodSet(),)
    """1 to 16 sets of equal pods; they start together or not at all."""
    queue: str = ""
    """Queue of the caller's team; empty: the team's default queue."""
    priority_class: str = ""
    """Priority class that the team may use; empty: the default of the kind."""
    gpu_choice: GpuChoice = GpuChoice()
    """Which GPUs are acceptable."""
    topology: TopologyRequest = TopologyRequest()
    """How near together the pods must lie."""
    spread: Spread = Spread.NONE
    """Whether each pod gets a node of its own."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels to select it by, at most 64; as Kubernetes writes them."""
    expected_duration_seconds: int | None = None
    """Expected run time of an attempt in seconds; null: unknown."""
    max_duration_seconds: int | None = None
    """An attempt that runs longer is stopped, and the workload has failed."""
    checkpoint_interval_seconds: int | None = None
    """Seconds between its checkpoints; null: it saves none."""
    grace_seconds: int = 30
    """Between the signal to stop and the stop itself: time to write a checkpoint."""
    restart_seconds: int = 0
    """What a start from a checkpoint costs before it computes again."""
    preemptible: bool = True
    """False: it is never evicted for others, and borrows only where its queue's policy lets it."""
    max_retries: int = 3
    """Attempts after a failure, 0 to 1,000."""
    final_failures: tuple[str, ...] = ()
    """Reasons of a failed pod (such as OOMKilled) after which no retry is made."""
    uncounted_failures: tuple[str, ...] = ()
    """Reasons of a failed pod that use up no retry."""
    idle_timeout_seconds: int | None = None
    """After so long without use of its GPUs it is stopped and held; null: as its team's policy
    says, of a notebook after 3,600 seconds."""
    time_to_live_seconds: int | None = None
    """Counted from the submission, whether it waits or runs: then it is cancelled."""
    model_parameters_billions: float | None = None
    """Size of the model in billions of parameters; what cannot fit is refused at once; null:
    unknown."""
    model_bytes_per_parameter: int = 2
    """Bytes of each parameter, 1 to 16."""


class Workload(Value, frozen=True, kw_only=True):
    """An accepted workload: the spec with defaults filled, and what identity decided."""

    id: str
    team: str
    queue: str
    cell: int
    """Number of the cell that places it."""
    priority: int
    spec: WorkloadSpec
    submitted_at_ms: int
    """Time of the submission: the age in the order of a queue."""
    namespace: str = ""
    """Namespace of its pods; empty: the one that is named as its team."""
    service_account: str = ""
    """Service account of its pods; empty: the namespace's default, without a token."""
    pod_group: str = ""
    """NAMESPACE/KEY of the group of pods that others made and that Muster binds; empty: Muster
    makes the pods (`core/native`)."""

    @property
    def pods(self) -> int:
        """Number of pods in all pod sets."""
        return sum(pod_set.count for pod_set in self.spec.pod_sets)


class MigPlacements(Value, frozen=True, kw_only=True):
    """Where instances of one MIG profile may begin on a board, in its memory slices.

    As nvmlDeviceGetGpuInstancePossiblePlacements_v2 tells it; `compute` is the number before "g".
    """

    profile: str
    """Name of the profile, such as 1g.10gb."""
    compute: int
    """Compute slices of an instance: the number before "g"."""
    size: int
    """Memory slices of an instance."""
    starts: tuple[int, ...]
    """Memory slices at which an instance may begin."""
    profile_id: int = -1
    """NVML's number of the profile; -1 unknown."""


class MigInstance(Value, frozen=True, kw_only=True):
    """A GPU instance that exists now, in memory slices of its board."""

    profile: str
    """Name of the profile, such as 1g.10gb."""
    start: int
    """First memory slice."""
    size: int
    """Number of memory slices."""
    uuid: str = ""
    """UUID of the instance; empty: unknown."""


class Gpu(Value, frozen=True, kw_only=True):
    """One device of a node. `healthy` false keeps new work away; `mig` says MIG mode is on."""

    index: int
    """Index on its node, from 0."""
    uuid: str
    """UUID of the device, as its driver tells it."""
    memory_mib: int
    """Memory of the device in MiB."""
    mig: bool = False
    """Whether it is in MIG mode."""
    healthy: bool = True
    """False keeps new work away."""
    numa: int = 0
    """NUMA node of the processor beside it; 0 where it is not known, as of a single domain."""
    pci: str = ""
    """Address on the PCI bus."""
    mig_placements: tuple[MigPlacements, ...] = ()
    """Empty: not reported; the product's name decides then (core/model/mig/reported.py)."""
    mig_instances: tuple[MigInstance, ...] = ()
    """GPU instances that exist now."""
    switch_until_ms: int = 0
    """Placement's: asked to change its mode, it takes no work until it has, or until then."""


class Node(Value, frozen=True, kw_only=True):
    """A machine as its agent reports it; the GPUs of one node are of one product."""

    name: str
    """Name of the node."""
    flavor: str
    product: str
    """Product name of its GPUs, as the driver tells it."""
    cpu_milli: int
    """CPU that pods may use, in thousandths of a core."""
    memory_mib: int
    """Memory that pods may use, in MiB."""
    gpus: tuple[Gpu, ...]
    """Its GPUs; none on a CPU node."""
    pool: str = ""
    """Pool that the node is dedicated to; empty: none."""
    zone: str = ""
    """Zone of the fabric; empty: unknown."""
    block: str = ""
    """Block of the fabric; empty: unknown."""
    rack: str = ""
    """Rack; empty: unknown."""
    nvlink_domain: str = ""
    """NVLink domain that spans nodes; empty: none."""
    driver: str = ""
    cuda: str = ""
    ready: bool = True
    """Whether the cluster reports it as ready."""
    cordoned: bool = False
    """Nothing more is started there."""
    taints: tuple[str, ...] = ()
    """Taints as Kubernetes writes them: key=value:effect."""
    links: str = ""
    """Links between its GPUs, a character for each pair (node_links.py); empty: unknown."""
    images: tuple[str, ...] = ()
    """References of images and weights that need not be pulled any more; bounded by its agent."""
    chaos: bool = False
    """Whether faults may be made there on purpose: its label muster.dev/chaos is "allowed"."""


class GpuShare(Value, frozen=True, kw_only=True):
    """What one pod holds of one GPU: a row of the ledger.

    `mask` has a bit for each memory slice held (bit 0 = slice 0; all eight for a whole GPU, none
    for a time-sliced share); `milli` is what quota counts; `memory_mib` is what shares hold.
    """

    index: int
    """Index of the GPU on its node, from 0."""
    mask: int
    """Memory slices that are held, a bit each."""
    milli: int
    """What quota counts, in thousandths of a GPU."""
    memory_mib: int
    """GPU memory of a share in MiB."""


class PodPlacement(Value, frozen=True, kw_only=True):
    """One pod on its node and devices. `rank` counts over the whole workload from 0."""

    pod_set: str
    """Name of the pod set."""
    rank: int
    """Number of the pod in the whole workload, from 0."""
    node: str
    shares: tuple[GpuShare, ...] = ()
    """What the pod holds of each GPU; none: no GPU."""


class Placement(Value, frozen=True, kw_only=True):
    """A whole gang with its devices, the flavor it is charged to and the amount charged."""

    flavor: str
    """Flavor that it is charged to."""
    pods: tuple[PodPlacement, ...]
    """Where each pod is."""
    charge: Resources
    """What quota counts for it."""
    span: Level | None = None
    """The tightest level that all pods share; null: none, or unknown."""


WHOLE_MASK = (1 << SLICES) - 1
