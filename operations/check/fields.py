"""The fields of payloads that some check reads; all others are dropped while decoding.

The checker's own words for the wire: a million records must fit in memory, and most of a
payload (images, commands, labels) says nothing about an invariant.
"""

from __future__ import annotations

from typing import TypedDict


class Amounts(TypedDict, total=False):
    """Resources; a limit that is None is unlimited."""

    gpu_milli: int
    cpu_milli: int
    memory_mib: int


class Share(TypedDict, total=False):
    """What a pod holds of one GPU."""

    index: int
    mask: int
    milli: int
    memory_mib: int


class Pod(TypedDict, total=False):
    """One pod on its node."""

    pod_set: str
    rank: int
    node: str
    shares: list[Share]


class Placement(TypedDict, total=False):
    """A gang with its devices and its charge."""

    flavor: str
    charge: Amounts
    pods: list[Pod]


class PodSet(TypedDict, total=False):
    """How many pods belong together."""

    name: str
    count: int
    min_count: int | None


class Spec(TypedDict, total=False):
    """What was submitted."""

    pod_sets: list[PodSet]
    priority_class: str
    preemptible: bool


class Workload(TypedDict, total=False):
    """What was accepted."""

    id: str
    team: str
    queue: str
    priority: int
    spec: Spec


class Gpu(TypedDict, total=False):
    """A device as its agent reports it."""

    index: int
    memory_mib: int


class Node(TypedDict, total=False):
    """A machine as its agent reports it."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: list[Gpu]


class FlavorQuota(TypedDict, total=False):
    """Limits in one flavor."""

    flavor: str
    nominal: Amounts
    borrowing_limit: Amounts | None
    lending_limit: Amounts | None


class Victim(TypedDict, total=False):
    """A victim of a plan."""

    workload_id: str
    attempt: int
    pods_kept: int
    moves_to: Placement | None


class Preemption(TypedDict, total=False):
    """The preemptor of a preempted workload, with plan and rule."""

    plan_id: str
    rule: str
    workload_id: str


class Idle(TypedDict, total=False):
    """On which evidence idle work was released."""

    since_ms: int
    until_ms: int


class Held(TypedDict, total=False):
    """What a workload holds, as a kubelet chose it."""

    workload_id: str
    placement: Placement


class Fields(TypedDict, total=False):
    """The union of all payloads. A `node` is a name in some and a machine in others."""

    gpu: int
    after: str
    done: bool
    shard: str
    sequence: int
    digest: str
    workload_id: str
    workloads: list[Held] | int
    workload: Workload
    version: int
    state: str
    attempt: int
    epoch: int
    queue: str
    placement: Placement
    released_at_ms: int
    released_attempt: int
    name: str
    kind: str
    parent: str
    flavors: list[FlavorQuota]
    node: Node | str
    generation: int
    priority: int
    priority_class: str
    protected: bool
    reason: str
    plan_id: str
    rule: str
    victims: list[Victim]
    preemption: Preemption | None
    idle: Idle | None
    since_ms: int
    until_ms: int
    running_at_ms: int
