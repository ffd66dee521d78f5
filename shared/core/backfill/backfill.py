"""Promised starts: what waits for nodes to be free gets a time and the concrete nodes.

The first few gangs that wait each get a promise (`Backfill.plan`): walk the nodes in the order in
which they will be wholly free (core/backfill/timeline.py); the first domain that holds the gang
gives the earliest start, and of its nodes those that are free last are pinned, so that the ones
which are free now stay open to all. Others may use pinned nodes only if they end before the start;
a node that is pinned is of a kind of its own (core/cluster/capacity_index.py), so a decision asks
no more than before. The second promise takes the first for granted, and so on: conservative for
these, EASY for the rest. Each flavor has promises of its own; beyond the second they keep no more
than half of its nodes. A promise is never moved back while its nodes can be free in time; if they
cannot, it is renewed and counted.

Sources: Lifka, EASY (JSSPP'95); Mu'alem and Feitelson (TPDS'01).
A promise is made for pods with whole GPUs; parts of gangs without any find room beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from shared.core.backfill.earliest import Earliest
from shared.core.backfill.promise import (
    LATE_MS,
    PROMISES_FREE,
    PROMISES_MAX,
    Promise,
    Waiter,
    compared,
    pins_of,
)
from shared.core.backfill.spare_room import WIDE, WIDE_MS, SpareRoom
from shared.core.backfill.timeline import NEVER, Timeline
from shared.core.scoring import Cluster

Pin = tuple[int, int]
"""(number, when the node is wanted)."""
PINS: Final = range(1, WIDE)
"""Of promises; those of rooms are larger."""
OPEN: Final = (0, 0)
"""The pin of a node that is kept for nothing."""


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
        self._earliest = Earliest(cluster, timeline, self._room)

    def pins_for(
        self, workload_id: str, end_ms: int, yields: Callable[[str], bool] | None = None
    ) -> tuple[int, ...]:
        """Pins of which a workload that would end at `end_ms` may use the nodes.

        Also those of workloads that give way to it by `yields`: they borrow, and it is owed.
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
        """Nothing waits for room; nodes that long work may use more freely now."""
        return self._become(self.promises) if self._room.keep(now_ms) else []

    def drop(self, workload_id: str) -> list[str]:
        """It waits no more; the nodes that others may use more freely now."""
        kept = {key: one for key, one in self.promises.items() if key != workload_id}
        return self._become(kept)

    def plan(self, waiters: Sequence[Waiter], now_ms: int, *, ahead: bool = False) -> list[str]:
        """Promise anew to `waiters`, the first ones first; nodes that are freer after it.

        In each flavor to `PROMISES_MAX` of them, as far as there are pins.

        What was refused although nodes enough are free waits for something else and is promised
        nothing; `ahead` of being tried, these nodes are its.
        """
        waiters = waiters[: len(PINS)]
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
        """Those that have a promise go before those that have none."""
        fresh: dict[str, Promise] = {}
        busy: dict[str, int] = {}
        numbers = set(PINS) - {one.number for one in kept.values()}
        standing = Counter[str]()
        for waiter in sorted(waiters, key=lambda one: _promised(kept, one.workload_id)):
            old = kept.get(waiter.workload_id)
            number = old.number if old is not None else min(numbers)
            flavors = [one for one in waiter.flavors if standing[one] < PROMISES_MAX]
            promise = self._promise(waiter, flavors, number, times, busy)
            if promise is None or (old is None and self._too_much(promise, fresh.values())):
                continue
            numbers.discard(number)
            promise = compared(promise, old)
            fresh[waiter.workload_id] = promise
            standing[promise.flavor] += 1
            for node in promise.nodes:
                busy[node] = max(busy.get(node, 0), promise.until_ms)
        return fresh

    def _too_much(self, promise: Promise, others: Collection[Promise]) -> bool:
        """Whether one more would keep over half of the flavor's nodes; O(node classes)."""
        flavor = promise.flavor
        beside = [one for one in others if one.flavor == flavor]
        if len(beside) < PROMISES_FREE:
            return False
        node_classes = self._cluster.node_classes.values()
        nodes = sum(
            node_class.nodes
            for node_class in node_classes
            if node_class.key.flavor == flavor and node_class.key.gpus
        )
        return 2 * sum(len(one.nodes) for one in (*beside, promise)) > nodes

    def _promise(
        self,
        waiter: Waiter,
        flavors: Sequence[str],
        number: int,
        times: tuple[int, int],
        busy: Mapping[str, int],
    ) -> Promise | None:
        """In the flavor in which it can start first; of equal ones the first permitted."""
        best: Promise | None = None
        now_ms, since_ms = times
        for flavor in flavors:
            found = self._earliest.nodes(waiter, flavor, now_ms, busy)
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
        """Take on `promises`, and pin each node for the first that wants it."""
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


def _promised(kept: Mapping[str, Promise], workload_id: str) -> int:
    old = kept.get(workload_id)
    return NEVER if old is None else old.promised_ms


def _pins(promises: Mapping[str, Promise], rooms: Mapping[str, int]) -> dict[str, Pin]:
    """By node: the first promise that wants it, else the room to which it belongs."""
    in_rooms = {node: (number, 0) for node, number in rooms.items()}
    wanted = {node: (one.number, one.start_ms) for node, one in pins_of(promises).items()}
    return in_rooms | wanted
