"""How many more nodes of each flavor are needed: told on change (core/needed_nodes, ADR 108).

Worked out anew after a batch, once in `LOOK_MS` of the log's time at most. It holds the event loop
meanwhile, so equal gangs are one entry with their number, and entries are bounded:
O(entries + held workloads + GPUs), some 20 ms at 20,000 waiting gangs and 1,000 nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from services.monitoring.gauges import states
from services.monitoring.memory import FLAVOR, NEED, MonitoringMemory
from services.monitoring.records import SeenFlavor, SeenWorkload
from shared.core.health.device import TAKES_WORK
from shared.core.model.amounts import times
from shared.core.model.lifecycle import State
from shared.core.needed_nodes import LOOKS_MAX, GangNeed, OpenNode, lack_of, within_quota
from shared.core.quota.tree import QuotaTree
from shared.events.envelope import Received
from shared.events.needed_nodes import FlavorNeed, NodesNeeded
from shared.events.organisation import FlavorApplied
from shared.events.topics import IDLENESS_FACTS
from shared.runtime.handler import Emit

LOOK_MS: Final = 10_000
START_MS: Final = 300_000
ENTRIES_MAX: Final = 1_000
"""Unequal gangs that are counted at once, the most urgent ones: about 20 ms of Python."""
_ENDS: Final = frozenset((State.EVICTING, State.CANCELLING))


class NeededNodes:
    """The flavors of one cell; a new node takes `start_ms` until it runs work.

    `warm` says how many empty nodes there should be, by flavor.
    """

    def __init__(
        self, memory: MonitoringMemory, cell: int, start_ms: int, warm: Mapping[str, int]
    ) -> None:
        self._memory = memory
        self._cell = cell
        self._start_ms = start_ms
        self._warm = warm
        self._looked_ms = 0

    def flavor(self, fact: FlavorApplied) -> None:
        """What a flavor is made of; a deleted one has no product and is no spot flavor."""
        known = self._memory.flavors.get(fact.name, SeenFlavor())
        if fact.version > known.version:
            self._know(
                fact.name,
                SeenFlavor(fact.version, fact.products, fact.spot, known.node_gpus),
            )

    def node(self, flavor: str, gpus: int) -> None:
        """A node of a flavor has so many GPUs: its next one will, too."""
        known = self._memory.flavors.get(flavor, SeenFlavor())
        if gpus and gpus != known.node_gpus:
            self._know(flavor, SeenFlavor(known.version, known.products, known.spot, gpus))

    def _know(self, name: str, flavor: SeenFlavor) -> None:
        self._memory.flavors[name] = flavor
        self._memory.journal.put(FLAVOR, name, flavor)

    def told(self, messages: Sequence[Received]) -> list[Emit]:
        """What there is to tell after a batch: every flavor with a need, if one changed."""
        now_ms = max((one.logged_ms for one in messages), default=0)
        if now_ms - self._looked_ms < LOOK_MS:
            return []
        self._looked_ms = now_ms
        needs = tuple(self._needs(now_ms))
        if needs == self._memory.needs:
            return []
        self._memory.needs = needs
        self._memory.journal.put(NEED, "", needs)
        return [
            Emit(
                payload=NodesNeeded(flavors=needs, at_ms=now_ms, cell=self._cell),
                topic=IDLENESS_FACTS,
                subject=f"cell-{self._cell}",
                cause=messages[-1],
                partition=self._cell,
            )
        ]

    def _needs(self, now_ms: int) -> Iterator[FlavorNeed]:
        flavors, gangs = self._memory.flavors, self._gangs()
        rooms: dict[str, list[OpenNode]] = {}
        for flavor, room in self._rooms(now_ms):
            rooms.setdefault(flavor, []).append(room)
        names = sorted({*gangs, *self._warm})
        for name in names:
            lack = lack_of(
                gangs.get(name, {}),
                rooms.get(name, ()),
                node_gpus=flavors.get(name, SeenFlavor()).node_gpus,
                warm_nodes=self._warm.get(name, 0),
                looks_max=LOOKS_MAX // len(names),
            )
            if lack.nodes or lack.warm_nodes:
                yield FlavorNeed(
                    flavor=name, nodes=lack.nodes, warm_nodes=lack.warm_nodes, pods=lack.pods
                )

    def _gangs(self) -> Mapping[str, Mapping[GangNeed, int]]:
        """What waits for room, by the flavor in which quota lets it run.

        Equal ones count together, with the one that waits longest.
        """
        kinds = {name: one.kind for name, one in self._memory.flavors.items()}
        waiting = self._memory.without_room.first(ENTRIES_MAX)
        return within_quota(waiting, self._tree(), kinds)

    def _tree(self) -> QuotaTree:
        """The quota of now, with all that is charged to it."""
        tree = QuotaTree()
        for told in self._memory.quotas.values():
            tree.apply(told.document())
        for (queue, flavor, charge), number in self._memory.held.charges.items():
            tree.charge(queue, flavor, times(charge, number))
        return tree

    def _rooms(self, now_ms: int) -> Iterator[tuple[str, OpenNode]]:
        """Nodes that take work, by flavor, with what is free of them before a new one starts."""
        memory, by = self._memory, now_ms + self._start_ms
        for name, node in memory.nodes.items():
            state = states.state_of_node(memory, name, node) if node.present else ""
            if state not in (states.FREE, states.KEPT):
                continue
            busy = {
                gpu
                for workload_id, shares in memory.shares.get(name, {}).items()
                if not _ends(memory.workloads.get(workload_id), now_ms, by)
                for gpu, _, _ in shares
            }
            free = sum(
                healthy and gpu not in busy and self._in_service(name, gpu)
                for gpu, healthy in node.healthy.items()
            )
            if free:
                gpus = len(node.healthy)
                room = OpenNode(name=name, free=free, gpus=gpus, domains=node.domains)
                yield node.flavor, room

    def _in_service(self, node: str, gpu: int) -> bool:
        step = self._memory.steps.get((node, gpu))
        return step is None or step.state in TAKES_WORK


def _ends(one: SeenWorkload | None, now_ms: int, by_ms: int) -> bool:
    """Whether it gives its GPUs back by then: it is being stopped, or its owner says so.

    What runs longer than its owner says is taken to go on.
    """
    if one is None or one.state in _ENDS:
        return one is not None
    if one.state is not State.RUNNING or not one.said_seconds:
        return False
    return now_ms <= one.running_at_ms + one.said_seconds * 1_000 <= by_ms
