"""A node of Kubernetes as an inventory: labels, taints, cordon, what is left of it, its GPUs.

- A label is looked for under several keys; the first that the node has counts.
- CPU is told in whole cores: nodes that differ by a few milli-cores of daemons are of one kind.
- A cordon (`spec.unschedulable`) and a node that rests (core/kubernetes/standing.py) start nothing
  new; a lost one is not ready.
- A node is served by one way: where its device plugin counts GPUs, by that count; else by slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from shared.core.cluster.inventory import IMAGE_CHARACTERS_MAX, IMAGES_MAX
from shared.core.kubernetes import health_taints, merging
from shared.core.kubernetes.counted import counted_gpus
from shared.core.kubernetes.devices import Devices
from shared.core.kubernetes.observed import Observation
from shared.core.kubernetes.quantity import MIB, MILLI, ONE, at_most
from shared.core.kubernetes.requests import CPU, GPU, MEMORY, Amounts, TakenResources
from shared.core.kubernetes.standing import NodeStanding, Readiness
from shared.core.model.nouns import Gpu, Node
from shared.core.model.value import Value, field

CORE_MILLI: Final = 1000
CPU_FLAVOR: Final = "cpu"
CHAOS: Final = ("muster.dev/chaos", "allowed")
"""Label, with its value, of a node on which faults may be made on purpose."""
_DIGEST: Final = "@"
_NOT_MIG: Final = ("", "none")


class LabelKeys(Value, frozen=True, kw_only=True):
    """Under which keys a node's labels are looked for, in order."""

    flavor: tuple[str, ...] = ()
    product: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    mig_strategy: tuple[str, ...] = ()
    zone: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    rack: tuple[str, ...] = ()
    nvlink_domain: tuple[str, ...] = ()


class Taint(Value, frozen=True, kw_only=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""

    @property
    def text(self) -> str:
        """As Kubernetes writes it: key=value:effect."""
        body = f"{self.key}={self.value}" if self.value else self.key
        return f"{body}:{self.effect}" if self.effect else body


class KubernetesNode(Value, frozen=True, kw_only=True):
    """What is read of a Node."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    readiness: Readiness = Readiness()
    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    images: tuple[tuple[str, ...], ...] = ()
    """The names of each image."""


class PodPins(Value, frozen=True, kw_only=True):
    """The GPUs of one pod of ours: by the ledger as it was bound, and by its kubelet."""

    indexes: tuple[int, ...]
    uuids: tuple[str, ...] = ()
    """Empty until its kubelet tells them."""


class Use(Value, frozen=True, kw_only=True):
    """What pods hold of a node: how much those of others take, and which GPUs ours have."""

    others: TakenResources = TakenResources()
    ours: tuple[PodPins, ...] = ()
    given: frozenset[str] = frozenset()
    """UUIDs of GPUs that kubelets gave to pods of others."""

    def held(self, places: Mapping[str, int]) -> frozenset[int]:
        """The places that pods of ours have; `places` by UUID, as far as they are known."""
        return frozenset(
            index
            for one in self.ours
            for index in (
                [places[uuid] for uuid in one.uuids]
                if one.uuids and all(uuid in places for uuid in one.uuids)
                else one.indexes
            )
        )


def is_counted(node: KubernetesNode) -> bool:
    """Whether a device plugin serves its GPUs."""
    return at_most(node.capacity.get(GPU, "0"), ONE) > 0


def uses_mig(node: KubernetesNode, keys: LabelKeys) -> bool:
    """Whether its label says that GPUs are cut."""
    return _label(node.labels, keys.mig_strategy) not in _NOT_MIG


def gpu_memory_mib(node: KubernetesNode, keys: LabelKeys) -> int:
    """Memory of each GPU by its label; 0 where it says no number."""
    text = _label(node.labels, keys.memory)
    return int(text) if text.isascii() and text.isdigit() else 0


def contradiction(node: KubernetesNode, devices: Devices, seen: Observation) -> str:
    """Why what its agent sees cannot be taken, with field, value and rule; empty: it can.

    A node without GPUs contradicts nothing: its device plugin or driver may be still to come.

    Raises:
        ValueError: an amount is no quantity.
    """
    if is_counted(node):
        return merging.problem_with_count(seen, at_most(node.capacity[GPU], ONE))
    return merging.problem_with_slices(seen, devices.gpus) if devices.gpus else ""


def inventory(
    node: KubernetesNode,
    devices: Devices,
    use: Use,
    *,
    standing: NodeStanding,
    keys: LabelKeys,
    flavors: Mapping[str, str],
    seen: Observation | None = None,
) -> Node:
    """The node as placement takes it. `flavors`: by product, where no label names the flavor.

    `seen`: what its agent adds, of which `contradiction` says nothing.

    Raises:
        ValueError: an amount is no quantity.
    """
    counted = is_counted(node)
    labels = node.labels
    product = _label(labels, keys.product) if counted else devices.product
    gpus = _counted(node, use, keys, seen) if counted else devices.gpus
    if seen is not None and not counted and gpus:
        gpus = merging.joined(gpus, seen)
    return Node(
        name=node.name,
        flavor=_label(labels, keys.flavor) or _flavor(product, flavors, has_gpus=bool(gpus)),
        product=product if gpus else "",
        cpu_milli=_cpu_milli(node.allocatable, use.others),
        memory_mib=_memory_mib(node.allocatable, use.others),
        gpus=gpus,
        pool=_label(labels, keys.pool),
        zone=_label(labels, keys.zone),
        block=_label(labels, keys.block),
        rack=_label(labels, keys.rack),
        nvlink_domain=_label(labels, keys.nvlink_domain),
        driver=_label(labels, keys.driver) or devices.driver,
        cuda=_label(labels, keys.cuda) or devices.cuda,
        ready=standing is not NodeStanding.LOST,
        cordoned=node.unschedulable or standing is NodeStanding.RESTING,
        taints=tuple(sorted(one.text for one in node.taints if one.key not in health_taints.OWN)),
        links=merging.links_of(gpus, seen) if seen is not None and gpus else "",
        images=_images(node.images),
        chaos=labels.get(CHAOS[0]) == CHAOS[1],
    )


def _label(labels: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def _flavor(product: str, flavors: Mapping[str, str], *, has_gpus: bool) -> str:
    if not has_gpus:
        return CPU_FLAVOR
    return flavors.get(product) or product.lower()


def _counted(
    node: KubernetesNode, use: Use, keys: LabelKeys, seen: Observation | None
) -> tuple[Gpu, ...]:
    gpus = merging.whole(seen) if seen is not None else ()
    places = {one.uuid: place for place, one in enumerate(gpus)}
    return counted_gpus(
        capacity=at_most(node.capacity[GPU], ONE),
        allocatable=at_most(node.allocatable.get(GPU, "0"), ONE),
        others=use.others.gpus,
        held=use.held(places),
        memory_mib=gpu_memory_mib(node, keys),
        seen=gpus,
        given=frozenset(places[uuid] for uuid in use.given if uuid in places),
    )


def _cpu_milli(allocatable: Amounts, others: TakenResources) -> int:
    left = at_most(allocatable.get(CPU, "0"), MILLI) - others.cpu_milli
    return max(0, left) // CORE_MILLI * CORE_MILLI


def _memory_mib(allocatable: Amounts, others: TakenResources) -> int:
    left = at_most(allocatable.get(MEMORY, "0"), ONE) - others.memory_bytes
    return int(max(0, left) // MIB)


def _images(images: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Names with a tag before those by digest, bounded; a workload names an image by either."""
    names = [name for one in images for name in one if 0 < len(name) <= IMAGE_CHARACTERS_MAX]
    return tuple(sorted(dict.fromkeys(names), key=lambda name: _DIGEST in name)[:IMAGES_MAX])
