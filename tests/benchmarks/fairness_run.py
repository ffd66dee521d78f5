"""A week of a fairness world in virtual time, by the real core: nomination, order, place, victims.

As in the services, the nominator has its promises and the ledger has its own quota tree; what is
refused asks for evictions, and a plan is carried out at once: the place is the preemptor's, whose
pods start when the grace of the victims is over. A victim goes on from its last checkpoint.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from shared.core.model.amounts import amount
from shared.core.model.decision import Reason, Refusal
from shared.core.model.nouns import Placement
from shared.core.model.request import PlacementRequest
from shared.core.model.units import GPU_MILLI, UNLIMITED, Resources
from shared.core.placement.place import place
from shared.core.preemption.eligibility.plan import EvictionPlan, Moved
from shared.core.queueing.nomination.decision import Nominate, Withdraw
from shared.core.queueing.nomination.nominator import Nominator
from shared.core.queueing.nomination.pending import Pending
from shared.core.queueing.waiting import WaitingIndex
from shared.core.quota.deficits import FairShareDeficits, below
from shared.core.quota.fair_share import within_nominal
from shared.core.quota.usage_history import GPU_SECOND
from tests.benchmarks.fairness_documents import CHECKPOINT_SECONDS, ROOT, documents, workload_of
from tests.benchmarks.fairness_evictions import Evictions
from tests.benchmarks.fairness_fleet import Fleet
from tests.benchmarks.fairness_live import NOT_TRIED, Class, Live
from tests.benchmarks.fairness_promises import Promises
from tests.benchmarks.fairness_world import FLAVOR, GPUS, Job, World

GRACE_MS: Final = 30_000
ROOM: Final = frozenset({Reason.NO_CAPACITY, Reason.GANG_SHORT, Reason.TOPOLOGY})
OWED_REST_MS: Final = 8_000
"""What is owed is looked at again after this at the latest (preemptor_classes.py)."""
REVIEW_MS: Final = 60_000
"""Debts are told again after this, as by the quota service."""
EPOCH_MS: Final = 1_800_000_000_000

Order = Callable[["Run", str], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a run differs in: the order across queues, and whether anybody is evicted."""

    order: Order
    reclaim: bool = True
    """Whether anybody is evicted, by the rules and the search of the core."""
    debts: bool = True
    """Whether what was had beyond one's part is paid back (core/quota/deficits.py)."""
    moves: bool = True
    """Whether who may not be evicted goes on elsewhere for others (moves/moving.py)."""
    promises: bool = True
    """Whether the first who need whole nodes are promised a start (core/backfill/backfill.py)."""


class Run:
    """One policy over one world."""

    def __init__(self, world: World, policy: Policy, seed: int) -> None:
        self.world, self.policy = world, policy
        self.now_ms = EPOCH_MS
        self.fleet = Fleet(world, seed)
        self.core, self.debts = Nominator(), FairShareDeficits()
        for document in documents(world):
            self.core.apply(document)
        self.core.used = self.used
        self.index = WaitingIndex(lambda one: policy.order(self, one))
        self.live: dict[str, Live] = {}
        self._promises = Promises(self.fleet, self.live)
        self._preemption = Evictions(world, self.fleet, self._retry, moves=policy.moves)
        self.evictions = self.moves = self.lost_gpu_ms = 0
        self.waits_ms: list[int] = []
        self.spells: list[tuple[int, str]] = []
        """How long (ms) owed work waited, once for each time that it was, and what for."""
        self.waiting: dict[str, dict[str, Live]] = {team.name: {} for team in world.teams}
        self.wanted: dict[str, int] = {team.name: 0 for team in world.teams}
        """GPUs of what waits."""
        self._events: list[tuple[int, int, str, str, int]] = []
        self._numbers = count()
        self._retries: dict[Class, int] = {}
        """When victims of a class of requests may go, of those refused for the present."""
        self._review_ms = 0

    def used(self, queue: str) -> int:
        """Use over time, in GPU-seconds."""
        return self.fleet.history.at(queue, self.now_ms) // GPU_SECOND

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def play(self, until_ms: int, watch: Callable[[Run, int], None]) -> None:
        """Let everything happen that happens before `until_ms`; `watch` sees each interval."""
        for number, job in enumerate(self.world.jobs):
            self._at(EPOCH_MS + int(job.at * 1000), "arrives", str(number), 0)
        while self._events and self._events[0][0] < until_ms:
            at_ms = self._events[0][0]
            watch(self, at_ms - self.now_ms)
            self.now_ms = at_ms
            while self._events and self._events[0][0] == at_ms:
                _, _, kind, name, run = heapq.heappop(self._events)
                self._happen(kind, name, run)
            if self.policy.debts and self.now_ms >= self._review_ms:
                self._review()
            self._settle()
        watch(self, until_ms - self.now_ms)

    def _review(self) -> None:
        """Tell the core and the ledger the debts of all nodes, and go on counting."""
        self._review_ms = self.now_ms + REVIEW_MS
        root = self.fleet.ledger.node(ROOT)
        self.debts.review(self.fleet.ledger, self.core.gpu_milli_waiting(), self.now_ms)
        told = {node.name: self.debts.of(node, self.now_ms) for node in below(root)}
        self.core.set_debts(told)
        for name, debt in told.items():
            self.fleet.ledger.set_debt(name, debt)
        self.index.rewind()

    def _at(self, at_ms: int, kind: str, name: str, run: int) -> None:
        heapq.heappush(self._events, (at_ms, next(self._numbers), kind, name, run))

    def _happen(self, kind: str, name: str, run: int) -> None:
        if kind == "arrives":
            self._arrive(self.world.jobs[int(name)])
        elif kind == "ends" and (live := self.live.get(name)) and live.run == run:
            self.fleet.release(live, self.now_ms)
            self.core.forget(live.pending)
            del self.live[name]
            self._wake()
        elif kind == "retry":
            due = {key for key, at_ms in self._retries.items() if at_ms <= self.now_ms}
            self.index.requeue(lambda one: self.live[one].kind in due)
            for key in due:
                del self._retries[key]
                self._preemption.rested(key)

    def _arrive(self, job: Job) -> None:
        workload = workload_of(job, self.now_ms)
        charge = (job.gpus * GPU_MILLI, 0, 0)
        pending = Pending(
            workload.id,
            team=job.team,
            queue=job.team,
            priority=0,
            submitted_at_ms=self.now_ms,
            request=charge,
        )
        live = Live(job, pending, workload, int(job.seconds * 1000), self.now_ms)
        self.live[workload.id] = live
        self._wait(live)
        self.core.enter(pending)

    def _wait(self, live: Live) -> None:
        self.waiting[live.job.team][live.workload.id] = live
        self.wanted[live.job.team] += live.job.gpus

    def _wake(self) -> None:
        self.index.rewind()
        self.index.requeue(lambda _: True)

    # ── decisions ────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        heads = set[str]()
        while True:
            self.core.settle(announce=False)  # it hears of each end at once
            for decision in self.core.take():
                if isinstance(decision, Nominate):
                    pending = decision.pending
                    key = self.live[pending.id].kind
                    self.index.add(pending.id, key, pending.key)
                    if self.index.is_inadmissible(key):
                        self.core.refused(pending, pending.nomination)
                elif isinstance(decision, Withdraw):
                    self.index.remove(decision.pending.id)
                    self._unpromise(decision.pending.id)
            if (workload_id := self._due_head(heads) or self.index.pop()) is None:
                if not self.core.unsettled and not self._promise():
                    return
                continue
            self._try(self.live[workload_id])

    def _due_head(self, tried: set[str]) -> str | None:
        """Whose promised start has come, taken from who waits, each once: before its equals."""
        first = self.index.first()
        for name in self._promises.due(self.now_ms):
            waits = name in self.index and name not in tried
            if waits and (first is None or self._rank(name) <= self._rank(first)):
                tried.add(name)
                self.index.remove(name)
                return name
        return None

    def _rank(self, workload_id: str) -> tuple[Any, ...]:
        return self.policy.order(self, workload_id)

    def _unpromise(self, workload_id: str) -> None:
        """It starts or waits for room no more."""
        if self._promises.drop(workload_id):
            self._wake()

    def _try(self, live: Live) -> None:
        queue = self.fleet.ledger.node(live.job.team)
        if within_nominal(queue, FLAVOR, live.pending.request) and live.owed_since is None:
            live.owed_since = self.now_ms
        request = self._request(live)
        answer = place(self.fleet.cluster, request)
        if isinstance(answer, Refusal) and self.policy.reclaim and self._reclaim(live, request):
            return
        if isinstance(answer, Refusal) and live.owed_since is not None and self._promises:
            request = self._request(live, self._borrows)
            answer = place(self.fleet.cluster, request)
            refused = isinstance(answer, Refusal)
            if refused and self.policy.reclaim and self._reclaim(live, request):
                return
        if not isinstance(answer, Refusal):
            self._start(live, answer, self.now_ms)
            return
        if self.policy.promises and live.job.gpus >= GPUS and answer.reason in ROOM:
            self._promises.refused(live)
        self._refuse(live)

    def _refuse(self, live: Live) -> None:
        """Its class rests, and all of it know; what is owed is looked at again by the service."""
        key = live.kind
        self.index.make_inadmissible(live.pending.id, key, live.pending.key)
        for workload_id in self.index.behind(key):
            pending = self.live[workload_id].pending
            self.core.refused(pending, pending.nomination)
        if live.owed_since is not None and self.policy.reclaim:
            self._retry(live, self.now_ms + OWED_REST_MS)

    def _request(
        self, live: Live, yields: Callable[[str], bool] | None = None
    ) -> PlacementRequest:
        left = self.fleet.ledger.node(live.job.team).available(FLAVOR)
        headroom = Resources(
            gpu_milli=max(0, left[0]), cpu_milli=max(0, left[1]), memory_mib=max(0, left[2])
        )
        return PlacementRequest(
            workload=live.workload,
            flavors=(FLAVOR,),
            headroom={FLAVOR: headroom},
            pins=self._promises.pins_for(live, self.now_ms, yields),
        )

    def _borrows(self, workload_id: str) -> bool:
        pending = self.live[workload_id].pending
        return not within_nominal(self.fleet.ledger.node(pending.queue), FLAVOR, pending.request)

    def _is_owed(self, workload_id: str) -> bool:
        return not self._borrows(workload_id)

    def _promise(self) -> bool:
        """Promise the first who need whole nodes a start; whether nodes are freer after it."""
        loosened = self._promises.plan(self.now_ms)
        if loosened:
            self.index.requeue(lambda _: True)
        return loosened

    def _reclaim(self, live: Live, request: PlacementRequest) -> bool:
        kept = self._promises.nodes_of(live.workload.id)
        plan = self._preemption.plan(live, request, self.now_ms, kept)
        if plan is not None:
            self._carry_out(live, plan)
        return plan is not None

    def _retry(self, live: Live, at_ms: int) -> None:
        """Victims of its class may go from then on."""
        key = live.kind
        if at_ms < self._retries.get(key, UNLIMITED):
            self._retries[key] = at_ms
            self._at(at_ms, "retry", live.pending.id, 0)

    def _carry_out(self, live: Live, plan: EvictionPlan) -> None:
        stops_ms = self.now_ms + GRACE_MS
        self._preemption.forget(self.now_ms)
        for victim in plan.victims:
            gone = self._stop(victim.workload_id, stops_ms)
            self.core.released(gone.pending)
            self.core.enter(gone.pending)
            self._wait(gone)
        movers = [(self._stop(one.workload_id, stops_ms), one) for one in plan.moves]
        for live_mover, moved in movers:
            self._go_on(live_mover, moved, stops_ms)
        self.index.requeue(self._is_owed)
        self._start(live, plan.placement, stops_ms)

    def _stop(self, workload_id: str, stops_ms: int) -> Live:
        """It loses what it did since its last checkpoint."""
        gone = self.live[workload_id]
        ran_ms = stops_ms - gone.started_ms
        saved_ms = ran_ms // (CHECKPOINT_SECONDS * 1000) * CHECKPOINT_SECONDS * 1000
        self.evictions += 1
        self.lost_gpu_ms += (ran_ms - saved_ms) * gone.job.gpus
        gone.left_ms -= saved_ms
        self.fleet.release(gone, stops_ms)
        self._preemption.stopped(workload_id, self.now_ms)
        gone.asked_ms = self.now_ms
        return gone

    def _go_on(self, live: Live, moved: Moved, starts_ms: int) -> None:
        """At its new place, its quota kept."""
        self.moves += 1
        self.fleet.charge(live, moved.placement)
        self._hold(live, moved.placement, starts_ms)

    def _start(self, live: Live, placement: Placement, starts_ms: int) -> None:
        """Charge it; its pods run from `starts_ms` on."""
        team, job = live.job.team, live.job
        if starts_ms > self.now_ms:
            self.fleet.charge(live, placement)
        self._hold(live, placement, starts_ms)
        self.core.placed(live.pending, FLAVOR, amount(placement.charge), live.run)
        self._unpromise(live.workload.id)
        del self.waiting[team][live.workload.id]
        self.wanted[team] -= job.gpus
        self.waits_ms.append(starts_ms - live.asked_ms)
        self.owed_no_more(live, starts_ms)

    def _hold(self, live: Live, placement: Placement, starts_ms: int) -> None:
        """It holds `placement`, and runs there from `starts_ms` to its end."""
        self.fleet.hold(live, placement, starts_ms)
        self._at(starts_ms + live.left_ms, "ends", live.workload.id, live.run)

    def owed_no_more(self, live: Live, at_ms: int) -> None:
        """It starts, or its team has its own by other work."""
        if live.owed_since is not None:
            self.spells.append((at_ms - live.owed_since, live.obstacle))
        live.owed_since, live.obstacle = None, NOT_TRIED
