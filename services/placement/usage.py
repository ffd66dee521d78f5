"""Quota as placement charges it: limits by node of the tree and flavor, and what is used.

The same sums stand in placement.usage, where a CHECK is the last line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.core.units import NOTHING, UNBOUNDED, Resources
from shared.events.quotas import QuotaChanged


@dataclass(slots=True)
class Usage:
    """All nodes of the quota tree of this cell."""

    nodes: dict[str, QuotaChanged] = field(default_factory=dict)
    used: dict[tuple[str, str], Resources] = field(default_factory=dict)
    limits: dict[tuple[str, str], Resources] = field(default_factory=dict)

    def put(self, node: QuotaChanged) -> list[str]:
        """Take the limits of one node; the names whose rows change, none if it is old news."""
        known = self.nodes.get(node.name)
        if known is not None and known.version >= node.version:
            return []
        self.nodes[node.name] = node
        named = {flavor.flavor: flavor.nominal for flavor in node.flavors}
        for owner, flavor_name in self.limits:
            if owner == node.name:
                named.setdefault(flavor_name, NOTHING)
        for flavor_name, nominal in named.items():
            self.limits[node.name, flavor_name] = nominal
        if (known.parent if known is not None else "") == node.parent:
            return [node.name]
        self._recount()
        return list(self.nodes)

    def _recount(self) -> None:
        """The tree has changed: sum the use of the queues along their new paths."""
        leaves = {
            place: used
            for place, used in self.used.items()
            if place[0] in self.nodes and self.nodes[place[0]].kind == "queue"
        }
        self.used = {}
        for (queue, flavor), used in leaves.items():
            self.charge(queue, flavor, used)

    def path(self, queue: str) -> list[str]:
        """The queue and its ancestors, as far as they are known; bounded against cycles."""
        names = [queue]
        while len(names) <= len(self.nodes):
            node = self.nodes.get(names[-1])
            if node is None or not node.parent or node.parent in names:
                break
            names.append(node.parent)
        return names

    def headroom(self, queue: str, flavor: str) -> Resources:
        """What `queue` may still be charged in `flavor`; negative when over a lowered limit."""
        room = self.limits.get((queue, flavor), NOTHING) - self._used(queue, flavor)
        for name in self.path(queue)[1:]:
            limit = self.limits.get((name, flavor), UNBOUNDED)
            room = _least(room, limit - self._used(name, flavor))
        return room

    def charge(self, queue: str, flavor: str, amount: Resources) -> None:
        """Count `amount` at the queue and every ancestor."""
        for name in self.path(queue):
            self.used[name, flavor] = self._used(name, flavor) + amount

    def release(self, queue: str, flavor: str, amount: Resources) -> None:
        """Undo `charge`."""
        for name in self.path(queue):
            self.used[name, flavor] = self._used(name, flavor) - amount

    def keep(self, amounts: Mapping[tuple[str, str], Resources], sign: int) -> None:
        """Count amounts at single (node, flavor) as used, or with `sign` -1 no longer.

        What reservations hold; a change of the tree counts anew, so they let go before it.
        """
        for (name, flavor), amount in amounts.items():
            used = self._used(name, flavor)
            self.used[name, flavor] = used + amount if sign > 0 else used - amount

    def _used(self, name: str, flavor: str) -> Resources:
        return self.used.get((name, flavor), NOTHING)


def _least(left: Resources, right: Resources) -> Resources:
    return Resources(
        gpu_milli=min(left.gpu_milli, right.gpu_milli),
        cpu_milli=min(left.cpu_milli, right.cpu_milli),
        memory_mib=min(left.memory_mib, right.memory_mib),
    )
