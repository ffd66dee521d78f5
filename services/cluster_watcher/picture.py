"""All that is known of the cluster, and what each node comes to.

The picture holds nothing but the newest news, so a restart loses nothing. News mark the nodes that
they are about as changed; `node` says what such a node is now. While a pool of devices is being
written anew, a node keeps the devices that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from shared.core.kubernetes import merging
from shared.core.kubernetes.devices import NO_DEVICES, Devices, DeviceSlice, devices_of
from shared.core.kubernetes.inventory import (
    KubernetesNode,
    LabelKeys,
    PodPins,
    Use,
    contradiction,
    gpu_memory_mib,
    inventory,
    is_counted,
    uses_mig,
)
from shared.core.kubernetes.observed import Observation
from shared.core.kubernetes.requests import NOTHING
from shared.core.kubernetes.standing import Judgement, judge
from shared.core.model.nouns import Node
from shared.ports.cluster_nodes import Changed, ClaimUse, Item, Kind, Listed, PodUse

KINDS: Final = frozenset(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPolicy:
    """How nodes are read."""

    keys: LabelKeys
    flavors: Mapping[str, str] = field(default_factory=dict)
    lost_after_ms: int = 120_000


class SeenNode(NamedTuple):
    """A node as it is now."""

    node: Node
    judgement: Judgement
    ill: dict[int, str]
    """GPUs that its agent calls unhealthy: the reason by index."""
    refused: str
    """Why what its agent sees was not taken; empty: it was, or there is none."""


class Picture:
    """See the module; not for several threads."""

    def __init__(self, policy: ReadingPolicy) -> None:
        self._policy = policy
        self._items: dict[Kind, dict[str, Item]] = {kind: {} for kind in Kind}
        self._of_node: dict[Kind, dict[str, set[str]]] = {kind: {} for kind in Kind}
        """Keys of slices, claims and pods by their node."""
        self._devices: dict[str, Devices] = {}
        self._ready_ms: dict[str, int] = {}
        self._listed: set[Kind] = set()

    @property
    def complete(self) -> bool:
        """Whether every kind was listed: before, a node might seem to have no GPUs."""
        return self._listed == KINDS

    @property
    def names(self) -> Iterable[str]:
        """Of all nodes."""
        return self._items[Kind.NODES].keys()

    def listed(self, news: Listed) -> set[str]:
        """Take a whole list; the nodes that are concerned."""
        known = self._items[news.kind]
        self._listed.add(news.kind)
        concerned: set[str] = set()
        for key in known.keys() - news.items.keys():
            concerned |= self._put(news.kind, key, None)
        for key, item in news.items.items():
            if known.get(key) != item:
                concerned |= self._put(news.kind, key, item)
        return concerned

    def changed(self, news: Changed) -> set[str]:
        """Take one change; the nodes that are concerned."""
        return self._put(news.kind, news.key, news.item)

    def _put(self, kind: Kind, key: str, item: Item | None) -> set[str]:
        items = self._items[kind]
        before = items.pop(key, None)
        if item is not None:
            items[key] = item
        concerned = set[str]()
        for one, present in ((before, False), (item, True)):
            for node in _nodes_of(one):
                concerned.add(node)
                self._place(kind, node, key, present=present)
        if kind is Kind.NODES and item is None:
            self._devices.pop(key, None)
            self._ready_ms.pop(key, None)
        return concerned

    def _place(self, kind: Kind, node: str, key: str, *, present: bool) -> None:
        if kind is Kind.NODES:
            return
        keys = self._of_node[kind].setdefault(node, set())
        if present:
            keys.add(key)
        else:
            keys.discard(key)
            if not keys:
                del self._of_node[kind][node]

    def node(self, name: str, now_ms: int, seen: Observation | None = None) -> SeenNode | None:
        """The node as it is now; None where there is none. `seen`: what its agent adds.

        Raises:
            ValueError: an amount is no quantity.
        """
        found = self._items[Kind.NODES].get(name)
        if not isinstance(found, KubernetesNode):
            return None
        judgement = self._judge(found, now_ms)
        devices = NO_DEVICES if is_counted(found) else self._devices_of(found)
        refused = contradiction(found, devices, seen) if seen is not None else ""
        taken = None if refused else seen
        node = inventory(
            found,
            devices,
            self._use(name),
            standing=judgement.standing,
            keys=self._policy.keys,
            flavors=self._policy.flavors,
            seen=taken,
        )
        ill = merging.ill(node.gpus, taken) if taken is not None else {}
        return SeenNode(node, judgement, ill, refused)

    def _judge(self, found: KubernetesNode, now_ms: int) -> Judgement:
        if found.readiness.ready:
            self._ready_ms[found.name] = now_ms
        return judge(
            found.readiness,
            [one.key for one in found.taints],
            now_ms=now_ms,
            ready_ms=self._ready_ms.get(found.name, 0),
            lost_after_ms=self._policy.lost_after_ms,
        )

    def _devices_of(self, found: KubernetesNode) -> Devices:
        name, keys = found.name, self._policy.keys
        slices = [one for one in self._on(Kind.SLICES, name) if isinstance(one, DeviceSlice)]
        claims = [one for one in self._on(Kind.CLAIMS, name) if isinstance(one, ClaimUse)]
        devices = devices_of(
            slices,
            uses_mig=uses_mig(found, keys),
            memory_mib=gpu_memory_mib(found, keys),
            taken=frozenset(minor for one in claims for pool, minor in one.gpus if pool == name),
        )
        if devices is None:
            return self._devices.get(name, NO_DEVICES)
        self._devices[name] = devices
        return devices

    def _use(self, name: str) -> Use:
        pods = [one for one in self._on(Kind.PODS, name) if isinstance(one, PodUse)]
        return Use(
            others=sum((one.taken for one in pods), NOTHING),
            ours=tuple(PodPins(indexes=one.held, uuids=one.uuids) for one in pods if one.ours),
            given=frozenset(uuid for one in pods if not one.ours for uuid in one.uuids),
        )

    def _on(self, kind: Kind, node: str) -> Iterator[Item]:
        items = self._items[kind]
        return (items[key] for key in self._of_node[kind].get(node, ()))


def _nodes_of(item: Item | None) -> Iterable[str]:
    """The nodes that an object is about; NVIDIA's driver names a pool as its node."""
    match item:
        case KubernetesNode(name=name):
            return (name,)
        case DeviceSlice(node=node) | PodUse(node=node):
            return (node,)
        case ClaimUse(gpus=gpus):
            return {pool for pool, _ in gpus}
        case None:
            return ()
