"""Promised starts: who waits for nodes to be free gets a time and the concrete nodes.

The first few gangs that wait each get a promise (`Backfill.plan`): walk the nodes in the order in
which they will be wholly free (core/timeline.py); the first domain that holds the gang gives the
earliest start, and of its nodes those that are free last are pinned, so that the ones which are
free now stay open to all. Others may use pinned nodes only if they end before the start; a node
that is pinned is of a kind of its own (core/kind.py), so a decision asks no more than before.
The second promise takes the first for granted, and so on: conservative for these, EASY for the
rest. A promise is never moved back while its nodes can be free in time; if they cannot, it is
renewed and counted.

Sources: Lifka, EASY (JSSPP'95); Mu'alem and Feitelson (TPDS'01); placement.md 3.6 (node sets).
A promise is made for pods with whole GPUs; parts of gangs without any find room beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Final

from shared.core.cluster import Cluster
from shared.core.demand import Gang, PodDemand
from shared.core.feasibility import kind_obstacle
from shared.core.kind import Kind
from shared.core.model import Level, Node, Spread
from shared.core.node_state import NodeState
from shared.core.spare_room import BRIEF, WIDE, WIDE_MS, SpareRoom
from shared.core.timeline import NEVER, Timeline
from shared.core.topology import Domain, chain
from shared.core.value import Value, replace

PROMISES_MAX: Final = 2
"""Gangs with a promise at a time; others are behind these, and a third costs use (ADR 36)."""
LATE_MS: Final = 60_000
"""A start so much after the promised one is still on time."""


class Promise(Value, frozen=True, kw_only=True):
    """What one workload was promised."""

    workload_id: str
    number: int
    """Of 1 to `PROMISES_MAX`: the pin of its nodes."""
    flavor: str
    nodes: tuple[str, ...]
    start_ms: int
    """When these nodes are expected to be free: who uses them before must have ended."""
    promised_ms: int
    """What its owner was told: the start is not later."""
    until_ms: int
    """The end of it, if it starts at the latest; others wait behind."""
    missed: int = 0
    """How often the promise had to be renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """One that waits at the head: `length_ms` is None if it never ends."""

    workload_id: str
    gang: Gang
    flavors: tuple[str, ...]
    length_ms: int | None
    rooms: tuple[int, ...] = (WIDE, BRIEF)
    """Rooms on whose nodes it may begin (core/spare_room.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A gang as equal parts: `pods` of `demand`, at most one a node if `apart`."""

    demand: PodDemand
    pods: int
    apart: bool


Free = tuple[int, NodeState, int]
"""(time, node, pods it holds when wholly free)."""
Pin = tuple[int, int]
"""(number, when the node is wanted)."""
OPEN: Final = (0, 0)
"""What a node has that is pinned for nobody."""


class Backfill:
    """The promises of one cell, and the pins of their nodes in `cluster`."""

    def __init__(
        self, cluster: Cluster, timeline: Timeline, room: SpareRoom | None = None
    ) -> None:
        """All are changed by others too."""
        self._cluster, self._timeline = cluster, timeline
        self._room = room or SpareRoom(cluster)
        self.promises: dict[str, Promise] = {}
        """By workload."""
        self._pins: dict[str, Pin] = {}
        self._whole: dict[str, tuple[Node, int]] = {}
        """By node: the inventory that was looked at, and its GPUs that may be given away whole."""

    def pins_for(
        self, workload_id: str, end_ms: int, yields: Callable[[str], bool] | None = None
    ) -> tuple[int, ...]:
        """Pins of which a workload that would end at `end_ms` may use the nodes.

        Also those of whom `yields` says that he gives way to it: he borrows, and it is owed.
        """
        return tuple(
            sorted(
                one.number
                for one in self.promises.values()
                if one.workload_id == workload_id
                or end_ms <= one.start_ms
                or (yields is not None and yields(one.workload_id))
            )
        )

    def restore(self, promises: Sequence[Promise]) -> None:
        """Pin again what was promised before a restart."""
        self._become({one.workload_id: one for one in promises})

    def keep_room(self, now_ms: int) -> list[str]:
        """Nobody waits for room; nodes that long work may use more freely now."""
        return self._become(self.promises) if self._room.keep(now_ms) else []

    def drop(self, workload_id: str) -> list[str]:
        """It waits no more; the nodes that others may use more freely now."""
        kept = {key: one for key, one in self.promises.items() if key != workload_id}
        return self._become(kept)

    def plan(self, waiters: Sequence[Waiter], now_ms: int, *, ahead: bool = False) -> list[str]:
        """Promise anew to `waiters`, the first ones first; nodes that are freer after it.

        Who was refused although nodes enough are free waits for something else and is promised
        nothing; `ahead` of being tried, these nodes are his.
        """
        waiters = waiters[:PROMISES_MAX]
        self._choose_room(now_ms)
        names = {one.workload_id for one in waiters}
        kept = {name: one for name, one in self.promises.items() if name in names}
        since_ms = now_ms if ahead else now_ms + 1
        fresh = self._promises(waiters, kept, (now_ms, since_ms))
        broken = any(
            name not in fresh or fresh[name].missed > one.missed for name, one in kept.items()
        )
        if broken and all(self._stands(one, now_ms) for one in kept.values()):
            fresh = kept
        return self._become(fresh)

    # ── inside ──

    def _choose_room(self, now_ms: int) -> None:
        """Nodes for short work; not those on which promised work will begin that is long."""
        promised: set[str] = set()
        long: set[str] = set()
        for one in self.promises.values():
            promised.update(one.nodes)
            if one.until_ms - one.promised_ms >= WIDE_MS:
                long.update(one.nodes)
        self._room.choose(now_ms, promised, long)

    def _promises(
        self, waiters: Sequence[Waiter], kept: Mapping[str, Promise], times: tuple[int, int]
    ) -> dict[str, Promise]:
        """Those who have a promise go before those who have none."""
        fresh: dict[str, Promise] = {}
        busy: dict[str, int] = {}
        numbers = set(range(1, PROMISES_MAX + 1)) - {one.number for one in kept.values()}
        for waiter in sorted(waiters, key=lambda one: _promised(kept, one.workload_id)):
            old = kept.get(waiter.workload_id)
            number = old.number if old is not None else min(numbers)
            promise = self._promise(waiter, number, times, busy)
            if promise is None:
                continue
            numbers.discard(number)
            promise = _compared(promise, old)
            fresh[waiter.workload_id] = promise
            for node in promise.nodes:
                busy[node] = max(busy.get(node, 0), promise.until_ms)
        return fresh

    def _promise(
        self, waiter: Waiter, number: int, times: tuple[int, int], busy: Mapping[str, int]
    ) -> Promise | None:
        """In the flavor in which it can start first; of equal ones the first permitted."""
        best: Promise | None = None
        now_ms, since_ms = times
        for flavor in waiter.flavors:
            found = self._earliest(waiter, flavor, now_ms, busy)
            start_ms = max((at_ms for at_ms, _, _ in found), default=0)
            if start_ms >= since_ms and (best is None or start_ms < best.start_ms):
                length_ms = waiter.length_ms
                best = Promise(
                    workload_id=waiter.workload_id,
                    number=number,
                    flavor=flavor,
                    nodes=tuple(node.name for _, node, _ in found),
                    start_ms=start_ms,
                    promised_ms=start_ms,
                    until_ms=NEVER if length_ms is None else start_ms + length_ms,
                )
        return best

    def _earliest(
        self, waiter: Waiter, flavor: str, now_ms: int, busy: Mapping[str, int]
    ) -> list[Free]:
        """Nodes of the first domain with room; nothing if that will never be.

        Of equal times all are looked at, so that most of what is free before stays open.
        """
        gang, need = waiter.gang, need_of(waiter.gang)
        if need is None:
            return []
        found: dict[Domain | NodeState | None, list[Free]] = {}
        room: dict[Domain | NodeState | None, int] = {}
        first: list[Free] = []
        for free in self._free_nodes(waiter, need, flavor, now_ms, busy):
            if first and free[0] > first[-1][0]:
                break
            place = _place_of(free[1], gang.topology.required)
            found.setdefault(place, []).append(free)
            room[place] = room.get(place, 0) + free[2]
            if not first and room[place] >= need.pods:
                first = found[place]
        return _last(first, need.pods)

    def _free_nodes(
        self, waiter: Waiter, need: Need, flavor: str, now_ms: int, busy: Mapping[str, int]
    ) -> Iterator[Free]:
        """Nodes that may hold a part of it, in the order in which they are free."""
        everywhere = replaced(waiter.gang, pins=(*range(1, PROMISES_MAX + 1), WIDE, BRIEF))
        allowed: dict[Kind, bool] = {}
        nodes, rooms, open_to = self._cluster.nodes, self._room.nodes, waiter.rooms
        for at_ms, name in self._timeline.walk(nodes, now_ms, busy):
            state = nodes.get(name)
            if state is None or state.kind is None or not state.schedulable:
                continue
            if name in rooms and rooms[name] not in open_to:
                continue
            if state.kind not in allowed:
                obstacle = kind_obstacle(state.kind, everywhere, need.demand, flavor)
                allowed[state.kind] = obstacle is None
            pods = self._pods(state, need) if allowed[state.kind] else 0
            if pods:
                yield at_ms, state, pods

    def _pods(self, state: NodeState, need: Need) -> int:
        """Parts that the node holds when empty; its GPUs are counted once for each report."""
        node, known = state.inventory, self._whole.get(state.name)
        assert node is not None
        if known is None or known[0] is not node:
            known = self._whole[state.name] = node, whole_gpus(node)
        return pods_when_empty(node, known[1], need)

    def _stands(self, promise: Promise, now_ms: int) -> bool:
        """Whether its nodes can all be free in time."""
        latest_ms = promise.promised_ms + LATE_MS
        nodes = [self._cluster.nodes.get(name) for name in promise.nodes]
        return all(
            node is not None
            and node.schedulable
            and self._timeline.free_at(node.name, now_ms) < latest_ms
            for node in nodes
        )

    def _become(self, promises: dict[str, Promise]) -> list[str]:
        """Take on `promises`, and pin each node for the first who wants it."""
        self.promises = promises
        before, self._pins = self._pins, _pins(promises, self._room.nodes)
        after = self._pins
        for node in sorted(before.keys() | after.keys()):
            self._cluster.pin(node, after.get(node, OPEN)[0])
        return sorted(
            node
            for node, (number, start_ms) in before.items()
            if after.get(node, OPEN)[0] != number or after[node][1] > start_ms
        )


def need_of(gang: Gang) -> Need | None:
    """Its pods with whole GPUs, counted in the largest of them; None without any.

    At least the least of an elastic gang. Slices and a leader are left to the placement itself.
    """
    demands = [demand for demand in gang.demands if demand.gpus]
    if not demands:
        return None
    largest = max(demands, key=lambda demand: demand.gpus)
    pods = sum(-(-demand.min_count // (largest.gpus // demand.gpus)) for demand in demands)
    return Need(demand=largest, pods=pods, apart=gang.spread is Spread.REQUIRED)


def whole_gpus(node: Node) -> int:
    """GPUs of a node that may be given away whole."""
    return sum(gpu.healthy and not gpu.mig for gpu in node.gpus)


def pods_when_empty(node: Node, gpus: int, need: Need) -> int:
    """Parts that a node with so many whole `gpus` holds when nothing else is on it."""
    demand = need.demand
    pods = gpus // demand.gpus
    if demand.cpu_milli:
        pods = min(pods, node.cpu_milli // demand.cpu_milli)
    if demand.memory_mib:
        pods = min(pods, node.memory_mib // demand.memory_mib)
    return min(pods, 1) if need.apart else pods


def _place_of(state: NodeState, level: Level | None) -> Domain | NodeState | None:
    """Its domain of `level`; a node without that label is alone; all nodes without a level."""
    if level is None:
        return None
    return next((domain for domain in chain(state) if domain.level is level), state)


def _last(found: Sequence[Free], pods: int) -> list[Free]:
    """Of nodes in the order in which they are free the last ones that hold `pods`."""
    chosen: list[Free] = []
    for free in reversed(found):
        if pods <= 0:
            break
        chosen.append(free)
        pods -= free[2]
    return chosen[::-1]


def _promised(kept: Mapping[str, Promise], workload_id: str) -> int:
    old = kept.get(workload_id)
    return NEVER if old is None else old.promised_ms


def _compared(fresh: Promise, old: Promise | None) -> Promise:
    """The same promise with nodes of now; or another one, if it cannot be kept."""
    if old is None:
        return fresh
    if fresh.start_ms > old.promised_ms + LATE_MS:
        return replace(fresh, missed=old.missed + 1)
    if fresh.until_ms >= NEVER:
        return replace(fresh, promised_ms=old.promised_ms, missed=old.missed)
    later_ms = old.promised_ms - fresh.promised_ms
    return replace(
        fresh,
        promised_ms=old.promised_ms,
        until_ms=fresh.until_ms + max(later_ms, 0),
        missed=old.missed,
    )


def pins_of(promises: Mapping[str, Promise]) -> dict[str, Promise]:
    """By node: the first promise that wants it."""
    pins: dict[str, Promise] = {}
    for one in sorted(promises.values(), key=lambda each: (each.start_ms, each.number)):
        for node in one.nodes:
            pins.setdefault(node, one)
    return pins


def _pins(promises: Mapping[str, Promise], rooms: Mapping[str, int]) -> dict[str, Pin]:
    """By node: the first promise that wants it, else the room to which it belongs."""
    in_rooms = {node: (number, 0) for node, number in rooms.items()}
    wanted = {node: (one.number, one.start_ms) for node, one in pins_of(promises).items()}
    return in_rooms | wanted
