"""What the service knows, all of it in one journal: workloads, nodes, quota, plans in flight.

Facts of placement come in order and carry the whole state, so a newer version replaces an older.
A nomination, which brings what a workload asks for, travels on a topic of its own and may come
before or after them: each fills its own part, and what is over is remembered for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from services.preemption.records import (
    Flight,
    KnownNode,
    PreemptorRequest,
    Stand,
    ToldObstacle,
    lean,
)
from shared.core.model.lifecycle import HOLDING, TERMINAL, State
from shared.core.model.nouns import Placement, Workload
from shared.core.model.priority_classes import built_in
from shared.core.model.team_policy import IdlePolicy
from shared.events.idleness import IdlenessNoticed
from shared.events.nodes import KeptFor, NodeDevicesLearned, NodesKept
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.quotas import WorkloadNominated
from shared.events.workloads import (
    WorkloadFact,
    WorkloadPlaced,
    WorkloadReprioritised,
    WorkloadResized,
    WorkloadRunning,
)
from shared.ports.reader import Reader
from shared.runtime.journal import Journal

OFFER: Final = "o"
STAND: Final = "s"
PLACE: Final = "p"
NODE: Final = "n"
QUEUE: Final = "q"
COHORT: Final = "c"
CLASS: Final = "k"
TEAM: Final = "t"
FLIGHT: Final = "f"
LOSS: Final = "l"
COOLDOWN: Final = "d"
POLICY: Final = "i"
IDLE: Final = "w"
KEPT: Final = "r"
DEBT: Final = "b"
MOVES: Final = "m"
ENDED: Final = "e"
KEPT_NODES: Final = "nodes"
"""The only key of its kind: all are told at once."""
ALL: Final = "all"
"""The same of the times of moves."""
OVER_MAX: Final = 100_000
ENDED_MAX: Final = 10_000
"""Plans; what placement's relay may tell again has far fewer."""
_BUILT_IN: Final = built_in()


class PreemptionMemory:
    """See the module. `dirty` are workloads that `World` has to look at again."""

    def __init__(self) -> None:
        self.journal = Journal("preemption", _decoders())
        self.offers: dict[str, PreemptorRequest] = {}
        self.stands: dict[str, Stand] = {}
        self.placements: dict[str, Placement] = {}
        self.machines: dict[str, KnownNode] = {}
        self.documents: dict[str, QueueApplied | CohortApplied] = {}
        self.protected: dict[str, bool] = {}
        self.loss_limits: dict[str, int] = {}
        self.flights: dict[str, Flight] = {}
        self.followers: dict[str, Placement] = {}
        """Followers, and where they find room when the plan of another ends (followers.py)."""
        self.ended: OrderedDict[str, bool] = OrderedDict()
        """Plans that were accepted and are over, the last of them: told again, they are old."""
        self.losses: dict[str, list[tuple[int, int]]] = {}
        self.cooldowns: dict[str, int] = {}
        self.policies: dict[str, IdlePolicy] = {}
        self.idle: dict[str, IdlenessNoticed] = {}
        """What was seen idle for so long that it is to be looked at."""
        self.kept: dict[str, NodesKept] = {}
        """What placement told last of the nodes and GPUs that it keeps work off."""
        self.debts: dict[str, tuple[int, int]] = {}
        """By node of the quota tree: its debt (parts per million of a share), and when told."""
        self._moves: dict[str, list[int]] = {}
        self.dirty: dict[str, None] = {}
        self._over: OrderedDict[str, None] = OrderedDict()

    async def load(self, reader: Reader, shard: str) -> None:
        """Fill an empty memory."""
        await self.journal.load(reader, shard)
        of_kind = self.journal.of_kind
        self.offers, self.stands, self.placements = of_kind(OFFER), of_kind(STAND), of_kind(PLACE)
        self.machines = of_kind(NODE)
        self.documents = {**of_kind(QUEUE), **of_kind(COHORT)}
        self.protected, self.loss_limits = of_kind(CLASS), of_kind(TEAM)
        self.flights, self.losses = of_kind(FLIGHT), of_kind(LOSS)
        self.ended = OrderedDict(of_kind(ENDED))
        self.cooldowns = of_kind(COOLDOWN)
        self.policies, self.idle = of_kind(POLICY), of_kind(IDLE)
        self.kept, self.debts, self._moves = of_kind(KEPT), of_kind(DEBT), of_kind(MOVES)
        self.dirty = dict.fromkeys(self.placements)

    def is_protected(self, priority_class: str) -> bool:
        """Whether workloads of this class are never evicted for others."""
        known = _BUILT_IN.get(priority_class)
        default = known.protected if known is not None else False
        return self.protected.get(priority_class, default)

    def spares(self, workload: Workload) -> bool:
        """Whether it is never evicted for others, by the class that it has now."""
        return self.is_protected(self.class_told(workload.id) or workload.spec.priority_class)

    def class_told(self, workload_id: str) -> str:
        """The class that it was given since it was queued; "" for none."""
        stand = self.stands.get(workload_id)
        return stand.priority_class if stand is not None else ""

    # ── workloads ──

    def nominated(self, fact: WorkloadNominated) -> None:
        """It may be tried; this says what it asks for."""
        workload = fact.workload
        known = self.offers.get(workload.id)
        if workload.id in self._over or (known and known.nomination > fact.nomination):
            return
        flavors = tuple(one.flavor for one in fact.flavors)
        offer = PreemptorRequest(
            lean(workload), fact.nomination, fact.order_key, flavors, fact.within_nominal
        )
        self.offers[workload.id] = offer
        self.journal.put(OFFER, workload.id, offer)
        self.dirty[workload.id] = None

    def changed(self, fact: WorkloadFact) -> bool:
        """A transition; false when a newer one is known."""
        name = fact.workload_id
        known = self.stands.get(name)
        if known is not None and fact.version <= known.version:
            return False
        self.dirty[name] = None
        if fact.state in TERMINAL:
            self._forget(name)
            return True
        stand = Stand(fact.state, fact.version, fact.attempt, fact.priority)
        stand.priority_class = fact.priority_class
        if known is not None and isinstance(fact, WorkloadReprioritised):
            stand.refused = known.refused  # as it waits on, placement may not tell it again
        if isinstance(fact, WorkloadRunning):
            stand.running_at_ms = fact.running_at_ms
        elif known is not None and fact.state is State.RUNNING:
            stand.running_at_ms = known.running_at_ms
        if isinstance(fact, WorkloadPlaced | WorkloadResized):
            self.placements[name] = fact.placement
            self.journal.put(PLACE, name, fact.placement)
        elif fact.state not in HOLDING and self.placements.pop(name, None) is not None:
            self.journal.drop(PLACE, name)
        self.stands[name] = stand
        self.journal.put(STAND, name, stand)
        return True

    def learned(self, fact: NodeDevicesLearned) -> None:
        """Some hold other GPUs of their node than was told."""
        for one in fact.workloads:
            stand = self.stands.get(one.workload_id)
            if one.workload_id in self.placements and stand and stand.attempt == one.attempt:
                self.placements[one.workload_id] = one.placement
                self.journal.put(PLACE, one.workload_id, one.placement)
                self.dirty[one.workload_id] = None

    def refused(self, workload_id: str, *, solvable: bool) -> bool:
        """Placement has no room for it; `solvable` if evictions could make some.

        False when it is told again of one that waits no more: a refusal has no version.
        """
        stand = self.stands.get(workload_id)
        if stand is None and workload_id not in self._over:
            stand = self.stands[workload_id] = Stand(State.QUEUED, 0, 0, 0)
        if stand is None or stand.state is not State.QUEUED:
            return False
        if stand.refused != solvable:
            stand.refused = solvable
            self.journal.put(STAND, workload_id, stand)
        return True

    def tell(self, workload_id: str, told: ToldObstacle | None) -> None:
        """The obstacle was told, or holds no more."""
        stand = self.stands.get(workload_id)
        if stand is not None and stand.told != told:
            stand.told = told
            self.journal.put(STAND, workload_id, stand)

    def _forget(self, workload_id: str) -> None:
        for kind, known in (
            (OFFER, self.offers),
            (STAND, self.stands),
            (PLACE, self.placements),
            (COOLDOWN, self.cooldowns),
            (IDLE, self.idle),
        ):
            if known.pop(workload_id, None) is not None:
                self.journal.drop(kind, workload_id)
        self._over[workload_id] = None
        if len(self._over) > OVER_MAX:
            self._over.popitem(last=False)

    def no_longer_idle(self, workload_id: str) -> None:
        """There is nothing to look at, or it was."""
        if self.idle.pop(workload_id, None) is not None:
            self.journal.drop(IDLE, workload_id)

    # ── kept nodes ──

    def keep(self, fact: NodesKept) -> None:
        """Placement keeps work off these nodes and GPUs, and no others."""
        self.put(KEPT, self.kept, KEPT_NODES, fact)

    def kept_for(self) -> Sequence[KeptFor]:
        """Workloads that are promised a start, with their nodes."""
        fact = self.kept.get(KEPT_NODES)
        return fact.kept if fact is not None else ()

    def switching(self) -> set[tuple[str, int]]:
        """GPUs that change their mode: (node, index)."""
        fact = self.kept.get(KEPT_NODES)
        return {(one.node, one.gpu) for one in fact.switching} if fact is not None else set()

    # ── plans ──

    def fly(self, flight: Flight) -> None:
        """A plan is on its way, or was accepted: its victims count as gone."""
        self.flights[flight.plan_id] = flight
        self.journal.put(FLIGHT, flight.plan_id, flight)
        self.dirty.update(dict.fromkeys((flight.workload_id, *flight.victims)))

    def land(self, plan_id: str) -> Flight | None:
        """A plan has come to its end."""
        flight = self.flights.pop(plan_id, None)
        if flight is not None:
            self.journal.drop(FLIGHT, plan_id)
            if not flight.losses:
                self._end(plan_id)
            self.dirty.update(dict.fromkeys((flight.workload_id, *flight.victims)))
        return flight

    def was_accepted(self, plan_id: str) -> bool:
        """Whether that was heard; a plan without an answer may still be accepted, however late."""
        flight = self.flights.get(plan_id)
        return plan_id in self.ended or (flight is not None and not flight.losses)

    def _end(self, plan_id: str) -> None:
        self.ended[plan_id] = True
        self.journal.put(ENDED, plan_id, value=True)
        if len(self.ended) > ENDED_MAX:
            oldest, _ = self.ended.popitem(last=False)
            self.journal.drop(ENDED, oldest)

    def starts_again(self, workload_id: str) -> None:
        """A victim of plans in flight holds devices again, others than it left."""
        for flight in list(self.flights.values()):
            if workload_id in flight.victims:
                rest = {name: kept for name, kept in flight.victims.items() if name != workload_id}
                self.fly(msgspec.structs.replace(flight, victims=rest))

    @property
    def moves(self) -> list[int]:
        """When workloads were moved, in the last hour at least."""
        return self._moves.get(ALL, [])

    def moved(self, times_ms: list[int]) -> None:
        """All times that count."""
        self.put(MOVES, self._moves, ALL, times_ms)

    def put(self, kind: str, store: dict[str, Any], key: str, value: object) -> None:
        """Remember a value of any other kind."""
        store[key] = value
        self.journal.put(kind, key, value)


def _decoders() -> dict[str, msgspec.json.Decoder[Any]]:
    kinds: dict[str, Any] = {
        OFFER: PreemptorRequest,
        STAND: Stand,
        PLACE: Placement,
        NODE: KnownNode,
        QUEUE: QueueApplied,
        COHORT: CohortApplied,
        CLASS: bool,
        TEAM: int,
        FLIGHT: Flight,
        LOSS: list[tuple[int, int]],
        COOLDOWN: int,
        POLICY: IdlePolicy,
        IDLE: IdlenessNoticed,
        KEPT: NodesKept,
        DEBT: tuple[int, int],
        MOVES: list[int],
        ENDED: bool,
    }
    return {kind: msgspec.json.Decoder(of) for kind, of in kinds.items()}
