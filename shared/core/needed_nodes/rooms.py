"""GPUs that are free on nodes, handed out to pods: the smallest room that will do goes first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from shared.core.model.nouns import Level
from shared.core.model.units import GPU_MILLI
from shared.core.needed_nodes.gang import EqualPods, GangNeed


@dataclass(slots=True, kw_only=True)
class OpenNode:
    """A node that takes work, or some that are equal."""

    name: str
    """Equal ones have one name."""
    free: int
    """GPUs that are wholly free, or will be before a new node could be there."""
    gpus: int
    """All of its GPUs, at least 1."""
    domains: Mapping[Level, str] = field(default_factory=dict)
    count: int = 1
    """How many of them there are."""

    def domain(self, level: Level) -> str | tuple[str]:
        """Its domain; a node that names none is one of its own."""
        return self.domains.get(level) or (self.name,)


class OpenNodes:
    """Nodes by their free GPUs, and what is left of GPUs that are shared."""

    def __init__(self, rooms: Iterable[OpenNode] = ()) -> None:
        self._by_free: dict[int, dict[str, OpenNode]] = defaultdict(dict)
        """By free GPUs, then by name."""
        self.looks = 0
        """At nodes, so far: what a search has cost."""
        self._parts: Counter[int] = Counter()
        """GPUs that were begun, by the milli-GPU left of each."""
        for one in rooms:
            self.add(one)

    def add(self, room: OpenNode) -> None:
        """One more node, or as many as it stands for."""
        equal = self._by_free[room.free].setdefault(room.name, room)
        if equal is not room:
            equal.count += room.count

    def empty(self) -> int:
        """Nodes of which nothing is taken."""
        rooms = (one for each in self._by_free.values() for one in each.values())
        return sum(one.count for one in rooms if one.free == one.gpus)

    def best_domain(self, need: GangNeed) -> str | tuple[str] | None:
        """Where most of a gang finds room; None: it may lie anywhere, or finds none."""
        if need.level is None:
            return None
        room: Counter[str | tuple[str]] = Counter()
        for one in self._with(need.largest):
            room[one.domain(need.level)] += one.free * one.count
        return max(room, key=lambda domain: room[domain], default=None)

    def take(self, pods: EqualPods, need: GangNeed, domain: str | tuple[str] | None = None) -> int:
        """Take room for as many of `pods` as find it, within `domain` if there is one."""
        count, gpus, milli = pods
        if not milli:
            return self._take_whole(count, gpus, need, domain)
        shared = self._take_parts(count, milli)
        each = GPU_MILLI // milli
        begun = self._take_whole(-(-(count - shared) // each), 1, need, domain)
        rest = min(count - shared, begun * each)
        self._begin(rest, milli, GPU_MILLI)
        return shared + rest

    def _take_whole(
        self, count: int, gpus: int, need: GangNeed, domain: str | tuple[str] | None
    ) -> int:
        taken: list[tuple[OpenNode, int, int]] = []
        left = count
        for one in self._with(gpus):
            if left == 0:
                break
            if domain is None or need.level is None or one.domain(need.level) == domain:
                each = 1 if need.apart else one.free // gpus
                full, rest = divmod(min(left, each * one.count), each)
                taken += [(one, full, each), (one, int(rest > 0), rest)]
                left -= full * each + rest
        for one, nodes, pods in taken:
            if nodes:
                self._use(one, nodes, pods * gpus)
        return count - left

    def _use(self, room: OpenNode, nodes: int, gpus: int) -> None:
        """Take so many GPUs on each of so many nodes of `room`."""
        if nodes == room.count:
            del self._by_free[room.free][room.name]
            room.free -= gpus
            self.add(room)
        else:
            room.count -= nodes
            self.add(replace(room, free=room.free - gpus, count=nodes))

    def _take_parts(self, count: int, milli: int) -> int:
        """Pods beside others on GPUs that were begun, the least left first."""
        taken = 0
        for left in sorted(self._parts):
            each = left // milli
            if each:
                here = min(count - taken, each * self._parts[left])
                self._parts[left] -= -(-here // each)
                self._begin(here, milli, left)
                taken += here
        return taken

    def _begin(self, pods: int, milli: int, left: int) -> None:
        """GPUs with so much left get these pods, one after the other."""
        each = left // milli
        full, last = divmod(pods, each)
        self._parts[left - each * milli] += full
        if last:
            self._parts[left - last * milli] += 1

    def _with(self, gpus: int) -> Iterator[OpenNode]:
        """Nodes with so many free, the smallest room first."""
        for free in sorted(self._by_free):
            if free >= gpus:
                for one in self._by_free[free].values():
                    self.looks += 1
                    yield one
