"""Nodes that long work leaves alone, so that room comes back in bounded time.

A promise says when the head starts; it cannot end work that began before. Two gangs of 64 nodes
that run for four days keep a gang of 128 waiting for four days. Two rooms bound this:

- The wide room: nodes with as many GPUs as the widest gang of late (at most half of a flavor) are
  wholly free within `WIDE_MS`, because longer work does not begin on them. Of the nodes that will
  be free in time those that are free last are taken: what is free now stays open to long work. It
  is kept while nothing waits, too: when the next wide gang comes it is too late to make room.
- The brief room: one node in `NODES_PER_BRIEF` is for work shorter than `BRIEF_MS`, so that short
  small work need not wait until a gang ends. Where none began of late there is no such room, as it
  would keep nodes idle.

A room says what may begin there. Not bound by it are services without end, whatever is too wide
for the rest of a flavor, and by the wide room whatever has waited long. What counts is how long
work is likely to last (core/backfill/estimates.py), not what is promised on.
Both bounds are powers of two of seconds, as are the classes of requests by length.
Source: partitions by maximum run time, as batch systems have them, without fixed nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from shared.core.backfill.timeline import Span, Timeline
from shared.core.cluster.node_state import NodeState
from shared.core.scoring import Cluster

WIDE: Final = 101
BRIEF: Final = 102
"""Pins of the rooms' nodes; those of promises are smaller (core/backfill/backfill.py)."""
WIDE_MS: Final = (1 << 17) * 1000
"""36.4 hours."""
BRIEF_MS: Final = (1 << 12) * 1000
"""68 minutes."""
NODES_PER_BRIEF: Final = 128
PATIENCE_MS: Final = 48 * 3_600_000
"""Work that has waited longer is not bound by the wide room."""
LATELY_MS: Final = 48 * 3_600_000
"""Gangs that began so lately tell how wide gangs are, and brief work that there is some."""
CHOSEN_FOR_MS: Final = 60_000
"""Nodes are chosen anew no sooner than after this."""

Free = tuple[int, NodeState, int]
"""(time, node, its GPUs)."""


class SpareRoom:
    """The rooms of all flavors of `cluster`; which nodes are theirs follows from what runs."""

    def __init__(self, cluster: Cluster) -> None:
        """Nodes and their health are followed by themselves, work is told."""
        self._cluster, self._timeline = cluster, Timeline()
        self._widths: dict[str, deque[tuple[int, int]]] = {}
        """By flavor: (begin, GPUs) of gangs of late, each wider than all that began after it."""
        self._brief_ms: dict[str, int] = {}
        """By flavor: when brief work began there last."""
        self._outside: dict[str, dict[int, int]] = {}
        """By flavor and pin: GPUs that are not in that room."""
        self.nodes: dict[str, int] = {}
        """The pin of each node that is in a room."""
        self._chosen_at_ms = -CHOSEN_FOR_MS
        self.due_ms: int | None = None
        """When nodes are to be chosen anew, if it was asked too soon."""

    def begin(self, workload_id: str, nodes: Collection[str], span: Span) -> None:
        """Work is likely to lie on `nodes` for so long. O(its nodes)."""
        self._timeline.begin(workload_id, nodes, span)
        begin_ms, length_ms = span
        if length_ms is not None and length_ms < BRIEF_MS:
            for flavor in self._flavors_of(nodes):
                self._brief_ms[flavor] = max(self._brief_ms.get(flavor, begin_ms), begin_ms)

    def finish(self, workload_id: str, nodes: Collection[str]) -> None:
        """It does so no more."""
        self._timeline.finish(workload_id, nodes)

    def _flavors_of(self, nodes: Collection[str]) -> Iterator[str]:
        states = (self._cluster.nodes.get(name) for name in nodes)
        return (state.node_class.key.flavor for state in states if state and state.node_class)

    def note_width(self, flavor: str, gpus: int, now_ms: int) -> None:
        """A gang of so many GPUs began; times do not fall. O(1) on the mean."""
        widths = self._widths.setdefault(flavor, deque())
        while widths and widths[-1][1] <= gpus:
            widths.pop()
        widths.append((now_ms, gpus))

    def open_to(
        self, flavors: Collection[str], gpus: int, length_ms: int | None, waited_ms: int
    ) -> tuple[int, ...]:
        """Pins of the rooms in which a workload of `gpus` may begin; O(flavors)."""
        brief = length_ms is not None and length_ms < BRIEF_MS
        wide = length_ms is None or length_ms < WIDE_MS or waited_ms > PATIENCE_MS
        return tuple(
            pin
            for pin, may in ((WIDE, wide), (BRIEF, brief))
            if may or any(self._too_wide(flavor, gpus, pin) for flavor in flavors)
        )

    def _too_wide(self, flavor: str, gpus: int, pin: int) -> bool:
        outside = self._outside.get(flavor)
        return outside is not None and gpus > outside[pin]

    def keep(self, now_ms: int) -> bool:
        """Nothing waits for room: choose anew if it is time; whether anything may be other now.

        Without wide gangs of late no room is needed until work waits.
        """
        self.due_ms = None
        if now_ms - self._chosen_at_ms < CHOSEN_FOR_MS:
            return False
        if any(self._widest(flavor, now_ms) for flavor in self._widths):
            self.choose(now_ms, (), ())
            return True
        closed, self.nodes, self._outside = bool(self.nodes), {}, {}
        return closed

    def _is_brief(self, flavor: str, now_ms: int) -> bool:
        """Whether brief work began there of late."""
        began_ms = self._brief_ms.get(flavor)
        return began_ms is not None and now_ms - began_ms < LATELY_MS

    def _widest(self, flavor: str, now_ms: int) -> int:
        """GPUs of the widest gang of late."""
        widths = self._widths.get(flavor, deque())
        while widths and widths[0][0] <= now_ms - LATELY_MS:
            widths.popleft()
        return widths[0][1] if widths else 0

    def choose(self, now_ms: int, promised: Collection[str], long: Collection[str]) -> None:
        """Take nodes anew, if some time has passed. O(nodes).

        `promised` nodes are not for the brief room; of these the `long` ones, on which long work
        will begin, are not for the wide room.
        """
        if now_ms - self._chosen_at_ms < CHOSEN_FOR_MS:
            self.due_ms = self._chosen_at_ms + CHOSEN_FOR_MS
            return
        self._chosen_at_ms, self.due_ms = now_ms, None
        before, self.nodes = self.nodes, {}
        for flavor, free in self._free_nodes(now_ms).items():
            self._choose(flavor, free, now_ms, (promised, long, before))

    def _free_nodes(self, now_ms: int) -> dict[str, list[Free]]:
        """By flavor, in the order in which they are likely to be free."""
        found: dict[str, list[Free]] = {}
        nodes = self._cluster.nodes
        for at_ms, name in self._timeline.walk(nodes, now_ms, {}):
            state = nodes.get(name)
            if state is not None and state.node_class is not None and state.schedulable:
                key = state.node_class.key
                if key.gpus:
                    found.setdefault(key.flavor, []).append((at_ms, state, key.gpus))
        return found

    def _choose(
        self,
        flavor: str,
        free: Sequence[Free],
        now_ms: int,
        others: tuple[Collection[str], Collection[str], dict[str, int]],
    ) -> None:
        promised, long, before = others
        gpus = sum(one[2] for one in free)
        widest = min(self._widest(flavor, now_ms), gpus // 2)
        rest = [one for one in free if one[1].name not in long]
        wide = last_in_time(rest, widest, now_ms + WIDE_MS)
        kept = [one for one in free if one[1].name not in promised]
        kept.sort(key=lambda one: before.get(one[1].name) != BRIEF)
        brief = kept[: len(free) // NODES_PER_BRIEF] if self._is_brief(flavor, now_ms) else []
        self.nodes.update((state.name, WIDE) for _, state, _ in wide)
        self.nodes.update((state.name, BRIEF) for _, state, _ in brief)
        self._outside[flavor] = {
            WIDE: gpus - sum(one[2] for one in wide),
            BRIEF: gpus - sum(one[2] for one in brief),
        }


def last_in_time(free: Sequence[Free], gpus: int, until_ms: int) -> Sequence[Free]:
    """Of nodes in the order in which they are free the last ones with `gpus` by `until_ms`.

    If so many are not free by then, those that are free first.
    """
    end, found = 0, 0
    while end < len(free) and (found < gpus or free[end][0] <= until_ms):
        found += free[end][2]
        end += 1
    begin, found = end, 0
    while begin > 0 and found < gpus:
        begin -= 1
        found += free[begin][2]
    return free[begin:end]
