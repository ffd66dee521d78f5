"""The nouns of Muster: what is asked for, what there is, and what was given.

Everything is frozen. Amounts are integers with their unit in the name; an amount of `None` in a
submission means "take the team's default" and is filled by `core.admission.admit`. The words are
the field's (docs: style.md 1.7).
"""

from __future__ import annotations

from enum import StrEnum

from shared.core.units import SLICES, Resources
from shared.core.value import Value, field


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
    milli: int = 0
    memory_mib: int = 0
    mig_profile: str = ""
    mig_count: int = 0


class PodRole(StrEnum):
    """What the pods of a set are to the others."""

    WORKER = "worker"
    LEADER = "leader"


class Slice(Value, frozen=True, kw_only=True):
    """Each run of `pods` consecutive ranks of a set lies within one domain of `level`."""

    pods: int
    level: Level


class PodSet(Value, frozen=True, kw_only=True):
    """Equal pods of a workload; `min_count` of them must run together (the gang).

    `slices` from the outermost to the innermost, at most three; a set of several slices is as
    large as a whole number of the outermost, and shrinks by whole ones. The pod of a `leader` set
    lies beside the first workers. `weights` names what the pods load, as nodes report what they
    keep: a node that has it already is preferred to its equals, as one that has the image is.
    Source: Kueue KEP-2724 (slices), LeaderWorkerSet.
    """

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    role: PodRole = PodRole.WORKER
    slices: tuple[Slice, ...] = ()
    gpu: GpuRequest = GpuRequest()
    cpu_milli: int | None = None
    memory_mib: int | None = None
    shm_mib: int | None = None
    image: str = ""
    weights: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()


class GpuChoice(Value, frozen=True, kw_only=True):
    """Which GPUs are acceptable (mission M5); empty or zero means any.

    Products as nodes report them, or some words of them: H100, A100-80GB (`core/admission`).
    """

    products: tuple[str, ...] = ()
    preferred_products: dict[str, int] = field(default_factory=dict)
    min_memory_mib: int = 0
    min_driver: str = ""
    cuda: str = ""
    node_pool: str = ""


class TopologyRequest(Value, frozen=True, kw_only=True):
    """The widest level that the pods together may span; None for no constraint.

    With `preferred` they lie as near together as can be, and anywhere where that is not possible:
    so does a training of several pods with GPUs that names nothing.
    `numa_aligned`: the whole GPUs of each pod must be of one NUMA domain of their node; they are
    taken so anyway where that can be.
    """

    required: Level | None = None
    preferred: Level | None = None
    numa_aligned: bool = False


class WorkloadSpec(Value, frozen=True, kw_only=True):
    """What a user submits, the same through every door; the caller's identity adds the rest."""

    name: str
    kind: WorkloadKind
    pod_sets: tuple[PodSet, ...] = (PodSet(),)
    queue: str = ""
    priority_class: str = ""
    gpu_choice: GpuChoice = GpuChoice()
    topology: TopologyRequest = TopologyRequest()
    spread: Spread = Spread.NONE
    labels: dict[str, str] = field(default_factory=dict)
    expected_duration_seconds: int | None = None
    max_duration_seconds: int | None = None
    """An attempt that runs longer is stopped, and the workload has failed."""
    checkpoint_interval_seconds: int | None = None
    grace_seconds: int = 30
    """Between the signal to stop and the stop itself: time to write a checkpoint."""
    restart_seconds: int = 0
    """What a start from a checkpoint costs before it computes again."""
    preemptible: bool = True
    max_retries: int = 3
    final_failures: tuple[str, ...] = ()
    """Reasons of a failed pod (such as OOMKilled) after which no retry is made."""
    uncounted_failures: tuple[str, ...] = ()
    """Reasons of a failed pod that use up no retry."""
    idle_timeout_seconds: int | None = None
    time_to_live_seconds: int | None = None
    """Counted from the submission, whether it waits or runs: then it is cancelled."""
    model_parameters_billions: float | None = None
    model_bytes_per_parameter: int = 2


class Workload(Value, frozen=True, kw_only=True):
    """An accepted workload: the spec with defaults filled, and what identity decided."""

    id: str
    team: str
    queue: str
    cell: int
    priority: int
    spec: WorkloadSpec
    submitted_at_ms: int
    """Time of the submission: the age in the order of a queue."""

    @property
    def pods(self) -> int:
        """Number of pods in all pod sets."""
        return sum(pod_set.count for pod_set in self.spec.pod_sets)


class MigPlacements(Value, frozen=True, kw_only=True):
    """Where instances of one MIG profile may begin on a board, in its memory slices.

    As nvmlDeviceGetGpuInstancePossiblePlacements_v2 tells it; `compute` is the number before "g".
    """

    profile: str
    compute: int
    size: int
    starts: tuple[int, ...]
    profile_id: int = -1
    """NVML's number of the profile; -1 unknown."""


class MigInstance(Value, frozen=True, kw_only=True):
    """A GPU instance that exists now, in memory slices of its board."""

    profile: str
    start: int
    size: int
    uuid: str = ""


class Gpu(Value, frozen=True, kw_only=True):
    """One device of a node. `healthy` false keeps new work away; `mig` says MIG mode is on."""

    index: int
    uuid: str
    memory_mib: int
    mig: bool = False
    healthy: bool = True
    numa: int = 0
    """NUMA node of the processor beside it; where nobody knows it 0, as of a single domain."""
    pci: str = ""
    """Address on the PCI bus."""
    mig_placements: tuple[MigPlacements, ...] = ()
    """Empty: not reported; the product's name decides then (core/mig_reported.py)."""
    mig_instances: tuple[MigInstance, ...] = ()
    switch_until_ms: int = 0
    """Placement's: asked to change its mode, it takes no work until it has, or until then."""


class Node(Value, frozen=True, kw_only=True):
    """A machine as its agent reports it; the GPUs of one node are of one product."""

    name: str
    flavor: str
    product: str
    cpu_milli: int
    memory_mib: int
    gpus: tuple[Gpu, ...]
    pool: str = ""
    zone: str = ""
    block: str = ""
    rack: str = ""
    nvlink_domain: str = ""
    driver: str = ""
    cuda: str = ""
    ready: bool = True
    cordoned: bool = False
    taints: tuple[str, ...] = ()
    links: str = ""
    """Links between its GPUs, a character for each pair (core/node_links.py); empty: unknown."""
    images: tuple[str, ...] = ()
    """References of images and weights that need not be pulled any more; bounded by its agent."""


class GpuShare(Value, frozen=True, kw_only=True):
    """What one pod holds of one GPU: a row of the ledger.

    `mask` has a bit for each memory slice held (bit 0 = slice 0; all eight for a whole GPU, none
    for a time-sliced share); `milli` is what quota counts; `memory_mib` is what shares hold.
    """

    index: int
    mask: int
    milli: int
    memory_mib: int


class PodPlacement(Value, frozen=True, kw_only=True):
    """One pod on its node and devices. `rank` counts over the whole workload from 0."""

    pod_set: str
    rank: int
    node: str
    shares: tuple[GpuShare, ...] = ()


class Placement(Value, frozen=True, kw_only=True):
    """A whole gang with its devices, the flavor it is charged to and the amount charged."""

    flavor: str
    pods: tuple[PodPlacement, ...]
    charge: Resources
    span: Level | None = None


WHOLE_MASK = (1 << SLICES) - 1
