"""The cell as it will be when all plans in flight are through: what the search works on.

What is being evicted, and what a plan in flight has as victim, is gone already; a preemptor has
its room already. So no room is planned twice, and no workload is evicted for room that will come
free. Kept lazily: facts only note what changed; `refresh` brings cluster and quota in step before
a search, so most workloads, for which nothing has to be evicted, never cost anything here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from services.preemption.memory import PreemptionMemory
from services.preemption.records import KnownNode
from shared.core.model.amounts import amount
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, Workload
from shared.core.model.taints import SHUNNED
from shared.core.model.value import replace
from shared.core.placement.resize import shrunk_to
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.moves import take
from shared.core.quota.tree import QuotaTree
from shared.core.scoring import Cluster
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.quota_documents import document_of

HELD = frozenset({State.PLACED, State.BOUND, State.RUNNING})


class World:
    """See the module."""

    def __init__(self, memory: PreemptionMemory, seed: int) -> None:
        self.cluster = Cluster(seed=seed)
        self.tree = QuotaTree()
        self.occupants = Occupants()
        self._memory = memory
        self._asked: set[str] = set()
        """Gangs that were asked for surplus in this turn, and may be asked for more."""
        self._charged: dict[str, tuple[Workload, Placement]] = {}
        self._promised: list[tuple[Workload, Placement]] = []
        for document in memory.documents.values():
            self.apply(document)
        for node, (debt, _) in memory.debts.items():
            self.tree.set_debt(node, debt)
        self.displaced: Sequence[str] = ()
        """Followers that lost their place to another, since the last `refresh`."""
        self._pins: dict[str, int] = {}
        """Nodes kept for promised starts."""
        self._switching: set[tuple[str, int]] = set()
        """GPUs that take no work until they have changed their mode."""
        self.keep()
        for name, machine in memory.machines.items():
            self.report(name, machine)

    def apply(self, document: QueueApplied | CohortApplied) -> None:
        """Put a queue or cohort into force; quota has complained already if it is wrong."""
        self.tree.apply(document_of(document))

    def report(self, name: str, machine: KnownNode) -> None:
        """What is known of a node."""
        if machine.node is None:
            self.cluster.remove_node(name)
            return
        node = machine.node
        gpus = tuple(
            replace(one, healthy=False) if (name, one.index) in self._switching else one
            for one in node.gpus
        )
        taints = (*node.taints, SHUNNED) if machine.shunned else node.taints
        cordoned = machine.cordoned or node.cordoned
        self.cluster.put_node(replace(node, gpus=gpus, cordoned=cordoned, taints=taints))
        self.cluster.pin(name, self._pins.get(name, 0))

    def keep(self) -> None:
        """Keep work off what placement keeps it off, and let it use the rest again."""
        memory, before, switched = self._memory, self._pins, self._switching
        self._pins = {node: one.pin for one in memory.kept_for() for node in one.nodes}
        for node in sorted(before.keys() | self._pins.keys()):
            self.cluster.pin(node, self._pins.get(node, 0))
        self._switching = memory.switching()
        for name in sorted({node for node, _ in switched ^ self._switching}):
            if name in memory.machines:
                self.report(name, memory.machines[name])

    def may_give_more(self, names: Collection[str]) -> None:
        """These give up pods and may give up more; no other that gives up some may."""
        self._memory.dirty.update(dict.fromkeys(self._asked.symmetric_difference(names)))
        self._asked = set(names)

    def refresh(self) -> None:
        """Bring everything in step with memory. O(changed workloads)."""
        memory = self._memory
        if not memory.dirty:
            return
        dirty, memory.dirty = memory.dirty, {}
        for workload, placement in reversed(self._promised):
            self._give_back(workload, placement)
        self._promised = []
        for name in dirty:
            held = self._charged.pop(name, None)
            if held is not None:
                self._give_back(*held)
            self.occupants.remove(name)
        leaving: dict[str, int] = {}
        for flight in memory.flights.values():
            leaving.update(flight.victims)
        for name in dirty:
            self._charge(name, leaving.get(name))
        self._promise()

    def _charge(self, name: str, pods_kept: int | None) -> None:
        """Charge what it holds and is not about to give back; a victim keeps `pods_kept` pods."""
        memory = self._memory
        placement, offer = memory.placements.get(name), memory.offers.get(name)
        stand = memory.stands.get(name)
        if placement is None or offer is None or stand is None or stand.state not in HELD:
            return
        if pods_kept == 0:
            return
        workload, spec = offer.workload, offer.workload.spec
        if pods_kept:
            placement = shrunk_to(workload, placement, pods_kept)
        self.cluster.charge(workload.team, placement.pods, spec.pod_sets)
        self.tree.charge(workload.queue, placement.flavor, amount(placement.charge))
        self._charged[name] = workload, placement
        self.occupants.put(
            Occupant(
                workload=workload,
                placement=placement,
                priority=stand.priority,
                attempt=stand.attempt,
                version=stand.version,
                started_at_ms=stand.running_at_ms,
                protected=memory.spares(workload),
                evictable=stand.state is State.RUNNING
                and spec.preemptible
                and (not pods_kept or name in self._asked),
                restart_ms=spec.restart_seconds * 1000,
            )
        )

    def _promise(self) -> None:
        """Give preemptors the room that their plans promise, then those that follow them."""
        for flight in self._memory.flights.values():
            self.promise(flight.workload_id, flight.placement)
        followers = self._memory.followers.items()
        self.displaced = [name for name, place in followers if not self.promise(name, place)]

    def promise(self, workload_id: str, placement: Placement) -> bool:
        """Let it have this room until the next `refresh`; false if it is not there."""
        offer = self._memory.offers.get(workload_id)
        if offer is None or workload_id in self._charged:
            return True
        workload = offer.workload
        if not take(self.cluster, workload, placement.pods):
            return False
        self.tree.charge(workload.queue, placement.flavor, amount(placement.charge))
        self._promised.append((workload, placement))
        return True

    def _give_back(self, workload: Workload, placement: Placement) -> None:
        self.cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
        self.tree.charge(workload.queue, placement.flavor, amount(placement.charge), -1)
