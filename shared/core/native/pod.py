"""A pod that names Muster as its scheduler: what decides whose it is and where it may run."""

from __future__ import annotations

from shared.core.kubernetes.pods_apart import PodsApart
from shared.core.kubernetes.quantity import ONE, at_least
from shared.core.kubernetes.requests import MIG, TakenResources, mig_profile
from shared.core.model.nouns import GpuRequest
from shared.core.model.value import Value, field


class ContainerGpus(Value, frozen=True, kw_only=True):
    """What one container asks for of NVIDIA's resources, by the resource's name."""

    container: str
    amounts: dict[str, str]


class NativePod(Value, frozen=True, kw_only=True):
    """The few fields that count; everything else is the owner's business."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0
    """By the clock of the API server."""
    owner_kind: str = ""
    """Kind of the controller that owns it; empty: none does, so nobody makes it anew."""
    owner_name: str = ""
    owner_uid: str = ""
    scheduling_group: str = ""
    """`spec.schedulingGroup.podGroupName`."""
    gates: tuple[str, ...] = ()
    """Scheduling gates: while there are any, it is not to be placed."""
    node: str = ""
    """The node that it is bound to."""
    claimed: bool = False
    """The binder has adopted it for an attempt."""
    deleting: bool = False
    ended: bool = False
    taken: TakenResources = TakenResources()
    """CPU, memory and whole GPUs of the whole pod."""
    problem: str = ""
    """An amount of it is no quantity: the words of whoever read it."""
    gpus: tuple[ContainerGpus, ...] = ()
    """Containers that ask for resources of NVIDIA."""
    init_gpus: bool = False
    """An init container asks for GPUs."""
    image: str = ""
    """Of its first container."""
    tolerations: tuple[str, ...] = ()
    """KEY, KEY=VALUE, with or without :EFFECT."""
    node_selector: dict[str, str] = field(default_factory=dict)
    node_values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Required node affinity: the values that labels of a node may have."""
    node_weights: dict[str, dict[str, int]] = field(default_factory=dict)
    """Preferred node affinity: weight by label and value."""
    apart: tuple[PodsApart, ...] = ()
    """With which pods it does not share a node."""
    priority_class: str = ""
    grace_seconds: int = 30
    volume_claims: tuple[str, ...] = ()
    """PersistentVolumeClaims of its volumes, by name."""
    not_honoured: tuple[str, ...] = ()
    """Fields of its spec that decide a place and that Muster does not honour."""

    @property
    def asked(self) -> GpuRequest:
        """Of a pod without a problem: one of its containers asks, in one form. O(1)."""
        for one in self.gpus:
            for name, amount in one.amounts.items():
                if name.startswith(MIG):
                    profile = mig_profile(name)
                    return GpuRequest(mig_profile=profile, mig_count=at_least(amount, ONE))
        return GpuRequest(count=self.taken.gpus)

    @property
    def device_count(self) -> int:
        """How many devices it gets, each a whole GPU or an instance."""
        return self.asked.count or self.asked.mig_count

    @property
    def waits(self) -> bool:
        """Whether it can be bound now: not gated, bound, adopted, being deleted or over."""
        return not (self.gates or self.node or self.claimed or self.deleting or self.ended)
